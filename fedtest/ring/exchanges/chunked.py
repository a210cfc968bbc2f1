"""A ring that uses every link all the time: reduce-scatter, then all-gather, in segments.

The values are cut into as many chunks as there are ranks. In each of N-1 steps
every rank sends a chunk to the next and adds the one that it receives to its
own; then each rank has one chunk summed up. In N-1 more steps the sums go once
around. Each rank sends 2(N-1)/N B bytes for B bytes of values, which is the
least there can be; all links are busy at once. (Source: P. Patarasuk and X.
Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
2009, made known for gradients by A. Gibiansky at Baidu.)

A chunk travels in segments: while one is added up, the next is under way, so that
neither the wire waits for the processor nor the other way round. Receives are posted
for as many segments as a chunk has. Before Gloo sends, it waits for word that a
receive is posted, and on a slow link that word stands in the queue behind what the
receiver sends itself; so small chunks have MANY segments. Large ones have FEW: of
100 MB over loopback, more cost more processor time, not less (docs/benchmarks.md).

What is summed up on the way stays in the buffer that it came into, and is sent on
from there. Only whole sums are written to the values: on one machine, whose ranks
share its memory, writing and reading 100 MB once more is what a ring's time goes to.

The least there can be of bytes is not the least of time when there are few of
them: then each of the 2(N-1) steps costs a way over the network and little
else. Up to DIRECT bytes all ranks send their values to all others at once, and
each adds them up by itself. For two ranks these are no more bytes than the ring's,
in one step instead of two: up to DIRECT_PAIR.

The order of addition is fixed by the position in the values (g0 + g1 + ... from
the rank of the chunk's number on; in order of ranks when direct). A sum is
made once and spread, or made of the same numbers in the same order: the same bits.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import torch

from fedtest.ring.exchanges.base import Exchange

if TYPE_CHECKING:
    from fedtest.ring.group import Group

Tensor = Any

DIRECT = 8 << 10  # bytes
DIRECT_PAIR = 1 << 20  # bytes; beyond, adding up has to go on while others come
SEGMENT = 16 << 20  # bytes, at most
SMALL = 4 << 20  # bytes of a chunk
FEW, MANY = 2, 16  # segments of a chunk, if that makes them no smaller than SMALLEST
SMALLEST = 160 << 10  # bytes


class Chunked(Exchange):
    """Keeps the buffers to receive into: 2 B/N bytes, B/2 with two ranks.

    All but the group are for tests.
    """

    def __init__(
        self,
        group: Group,
        *,
        segment: int = SEGMENT,
        small: int = SMALL,
        smallest: int = SMALLEST,
        direct: int | None = None,
    ) -> None:
        super().__init__(group)
        self._segment = segment
        self._small = small
        self._smallest = smallest
        few = DIRECT if group.size > 2 else DIRECT_PAIR
        self._few = few if direct is None else direct
        self._buffers: Tensor = torch.empty(0)

    def total(self, flat: Tensor, phase: str) -> None:
        if self.size == 1 or flat.numel() == 0:
            return
        if flat.numel() * flat.element_size() <= self._few:
            self._direct(flat, f"{phase}, direct")
        else:
            self._ring(flat, phase)

    def _ring(self, flat: Tensor, phase: str) -> None:
        size, group = self.size, self.group
        longest = -(-flat.numel() // size)
        chunk = longest * flat.element_size()
        # Of each chunk, on all ranks alike.
        several = min(MANY if chunk <= self._small else FEW, chunk // self._smallest)
        segments = max(-(-chunk // self._segment), several)
        half = (size - 1) * segments  # transfers of the reduce-scatter, then of the all-gather
        whole = half - segments  # from here on sums are whole
        # As many as a chunk has to receive into, and as many that are being sent on; a pair
        # sends none on.
        count = segments if size == 2 else 2 * segments
        free = self._slots(flat, count, -(-longest // segments))
        scatter, gather = f"{phase}, reduce-scatter", f"{phase}, all-gather"

        def part(transfer: int, first_chunk: int) -> Tensor:
            step, segment = divmod(transfer, segments)
            return _segment(flat, (first_chunk - step) % size, size, segment, segments)

        receives: deque[tuple[Any, Tensor | None]] = deque()
        sends: deque[tuple[Any, Tensor | None]] = deque()
        partial: deque[Tensor] = deque()  # sums in slots, in the order in which they go on
        posted = sent = 0
        for transfer in range(2 * half):
            name = scatter if transfer < half else gather
            while posted < min(2 * half, transfer + segments):
                slot = None
                if posted < half:
                    while not free:  # What the next rank has had before is waited for.
                        self._sent(sends, free, name)
                    slot = free.pop()
                # The sums begin with that of the previous rank.
                place = part(posted, self.rank - 1)
                into = place if slot is None else slot[: place.numel()]
                receives.append((group.start_receive(into, self.previous, name), slot))
                posted += 1
            # What is sent is what was received one chunk before.
            while sent < min(2 * half, transfer + segments):
                slot = partial.popleft() if segments <= sent < half else None
                values = part(sent, self.rank)
                values = values if slot is None else slot[: values.numel()]
                sends.append((group.start_send(values, self.next, name), slot))
                sent += 1
            work, slot = receives.popleft()
            group.wait_received(work, self.previous, name)
            if slot is None:
                continue
            place = part(transfer, self.rank - 1)
            if transfer < whole:
                slot[: place.numel()].add_(place)
                partial.append(slot)
            else:
                place.add_(slot[: place.numel()])
                free.append(slot)
        while sends:
            self._sent(sends, free, gather)

    def _sent(
        self, sends: deque[tuple[Any, Tensor | None]], free: list[Tensor], phase: str
    ) -> None:
        """Wait for the first of these, and have its slot back."""
        work, slot = sends.popleft()
        self.group.wait_sent(work, self.next, phase)
        if slot is not None:
            free.append(slot)

    def _slots(self, flat: Tensor, count: int, elements: int) -> list[Tensor]:
        wanted = count * elements
        if self._buffers.dtype != flat.dtype or self._buffers.numel() < wanted:
            self._buffers = torch.empty(wanted, dtype=flat.dtype)
        return [self._buffers[i * elements : (i + 1) * elements] for i in range(count)]

    def _direct(self, flat: Tensor, phase: str) -> None:
        group = self.group
        others = [(self.rank + i) % self.size for i in range(1, self.size)]
        parts = [flat if rank == self.rank else torch.empty_like(flat) for rank in range(self.size)]
        receives = [(peer, group.start_receive(parts[peer], peer, phase)) for peer in others]
        sends = [(peer, group.start_send(flat, peer, phase)) for peer in others]
        for peer, work in receives:
            group.wait_received(work, peer, phase)
        for peer, work in sends:
            group.wait_sent(work, peer, phase)
        total = parts[0]
        for part in parts[1:]:
            total.add_(part)
        if total is not flat:
            flat.copy_(total)


def _segment(flat: Tensor, chunk: int, chunks: int, segment: int, segments: int) -> Tensor:
    """The `segment`-th part of `segments` of the `chunk`-th part of `chunks`."""
    start, end = flat.numel() * chunk // chunks, flat.numel() * (chunk + 1) // chunks
    length = end - start
    return flat[start + length * segment // segments : start + length * (segment + 1) // segments]
