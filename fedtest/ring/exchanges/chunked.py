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
receiver sends itself; so small chunks have MANY segments. Large ones (more than SMALL; all
gradients of a CNN on MNIST are less) have FEW, and ONE over loopback where ranks outnumber
processors: there nothing is idle that a segment could keep busy, and each costs processor
time (docs/benchmarks.md).

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
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch

from fedtest.comm import memory
from fedtest.ring.exchanges import processors
from fedtest.ring.exchanges.base import Exchange

if TYPE_CHECKING:
    from fedtest.ring.group import Group

Tensor = Any

DIRECT = 8 << 10  # bytes
DIRECT_PAIR = 1 << 20  # bytes; beyond, adding up has to go on while others come
SEGMENT = 32 << 20  # bytes, at most
SMALL = 4 << 20  # bytes of a chunk
ONE, FEW, MANY = 1, 3, 16  # segments of a chunk, if that makes them no smaller than SMALLEST
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
        oversubscribed: bool | None = None,
    ) -> None:
        super().__init__(group)
        self._segment = segment
        self._small = small
        self._smallest = smallest
        few = DIRECT if group.size > 2 else DIRECT_PAIR
        self._few = few if direct is None else direct
        self._oversubscribed = oversubscribed  # None: not asked yet
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
        chunk = -(-flat.numel() // size) * flat.element_size()
        # Of each chunk, on all ranks alike.
        several = min(self._wanted(chunk, phase), chunk // self._smallest)
        segments = max(-(-chunk // self._segment), several)
        half = (size - 1) * segments  # transfers of the reduce-scatter, then of the all-gather
        whole = half - segments  # from here on sums are whole
        # As many as a chunk has to receive into, and as many that are being sent on; a pair
        # sends none on.
        count = segments if size == 2 else 2 * segments
        lengths = _lengths(flat.numel(), size, segments)
        free = self._slots(flat, count, max(lengths))
        scatter, gather = f"{phase}, reduce-scatter", f"{phase}, all-gather"

        parts = flat.split(lengths)

        def part(transfer: int, first_chunk: int) -> Tensor:
            step, segment = divmod(transfer, segments)
            return parts[(first_chunk - step) % size * segments + segment]

        receives: deque[tuple[Any, Tensor, Tensor | None]] = deque()
        sends: deque[tuple[Any, Tensor | None]] = deque()
        # Sums in slots, in the order in which they go on.
        partial: deque[tuple[Tensor, Tensor]] = deque()
        posted = sent = 0
        for transfer in range(2 * half):
            name = scatter if transfer < half else gather
            while posted < min(2 * half, transfer + segments):
                # The sums begin with that of the previous rank.
                into, slot = part(posted, self.rank - 1), None
                if posted < half:
                    while not free:  # What the next rank has had before is waited for.
                        self._sent(sends, free, name)
                    slot = free.pop()
                    into = slot[: into.numel()]
                receives.append((group.start_receive(into, self.previous, name), into, slot))
                posted += 1
            # What is sent is what was received one chunk before.
            while sent < min(2 * half, transfer + segments):
                if segments <= sent < half:
                    values, slot = partial.popleft()
                else:
                    values, slot = part(sent, self.rank), None
                sends.append((group.start_send(values, self.next, name), slot))
                sent += 1
            work, into, slot = receives.popleft()
            group.wait_received(work, self.previous, name)
            if slot is None:
                continue
            own = part(transfer, self.rank - 1)
            if transfer < whole:
                partial.append((into.add_(own), slot))
            else:
                own.add_(into)
                free.append(slot)
        while sends:
            self._sent(sends, free, gather)

    def _wanted(self, chunk: int, phase: str) -> int:
        """Segments of a chunk of so many bytes."""
        if chunk <= self._small:
            return MANY
        if self._oversubscribed is None:
            self._oversubscribed = processors.oversubscribed(self.group, phase)
        return ONE if self._oversubscribed else FEW

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
            self._buffers = torch.empty(0)  # first, for never to hold both
            self._buffers = memory.empty(wanted, flat.dtype)  # huge pages are copied faster
        return list(self._buffers[:wanted].split(elements))

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


def _lengths(elements: int, chunks: int, segments: int) -> list[int]:
    """Of each segment of each chunk; chunks differ by at most one element, and so do segments."""
    found: list[int] = []
    for start, end in _cut(0, elements, chunks):
        found += [last - first for first, last in _cut(start, end, segments)]
    return found


def _cut(start: int, end: int, parts: int) -> list[tuple[int, int]]:
    return list(pairwise(start + (end - start) * part // parts for part in range(parts + 1)))
