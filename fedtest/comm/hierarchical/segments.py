"""Memory that two processes share. It has no name: when both have ended, nothing of it is left.

One side makes segments and fills them, the other maps them. A segment is used
again as soon as no tensor on either side is in it, for its first use costs
more than what is done with it afterwards.
"""

from __future__ import annotations

import mmap
import os
import threading
import weakref
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from fedtest.comm.memory import item_size

if TYPE_CHECKING:
    from collections.abc import Callable

_STEP = 1 << 16  # bytes that sizes are multiples of
_LOOSE = 4  # a segment is used for what needs at least a fourth of it


@dataclass
class Segment:
    """A piece of shared memory, seen from the side that made it."""

    number: int
    memory: mmap.mmap
    size: int
    fd: int  # until the other side has it; -1 afterwards
    address: int = field(init=False)
    here: int = 0  # tensors of this side that are in it, by their memory
    there: int = 0  # messages with tensors in it that the other side has, or will have

    def __post_init__(self) -> None:
        self.address = lease(self.memory, _nothing).data_ptr()


def lease(whole: mmap.mmap, done: Callable[[], object]) -> torch.Tensor:
    """All of `whole` as bytes; `done` is called when nothing sees them any more."""
    view = memoryview(whole)
    weakref.finalize(view, done).atexit = False
    return torch.frombuffer(view, dtype=torch.uint8)


class Segments:
    """The segments that this side has made; those that nobody uses are kept up to `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = threading.RLock()  # the end of a tensor may be noticed anywhere
        self._all: dict[int, Segment] = {}
        self._next = 0
        self._left: deque[int] = deque()  # segments that a tensor of this side was in
        self._dropped: deque[int] = deque()  # that the other side need not keep

    def empty(self, elements: int, dtype: torch.dtype) -> torch.Tensor:
        """So many elements, in a segment."""
        size = elements * item_size(dtype)
        with self._lock:
            self._collect()
            tensor = self._tensor(self._find(size) or self._make(size))
        return tensor[:size].view(dtype)

    def take(self, size: int) -> tuple[Segment, torch.Tensor]:
        """A segment of at least `size` bytes, and its memory."""
        with self._lock:
            self._collect()
            segment = self._find(size) or self._make(size)
            return segment, self._tensor(segment)

    def where(self, tensor: torch.Tensor) -> tuple[Segment, int] | None:
        """The segment that `tensor` is in, and at which byte."""
        begin = tensor.data_ptr()
        end = begin + tensor.numel() * tensor.element_size()
        with self._lock:
            for segment in self._all.values():
                if segment.address <= begin and end <= segment.address + segment.size:
                    return segment, begin - segment.address
        return None

    def sent(self, segment: Segment) -> None:
        with self._lock:
            segment.there += 1

    def returned(self, number: int) -> None:
        with self._lock:
            self._all[number].there -= 1

    def dropped(self) -> deque[int]:
        """Segments that are gone on this side; who tells the other takes them out."""
        return self._dropped

    def _tensor(self, segment: Segment) -> torch.Tensor:
        segment.here += 1
        return lease(segment.memory, _Noted(self._left, segment.number))

    def _collect(self) -> None:
        while self._left:
            self._all[self._left.popleft()].here -= 1

    def _find(self, size: int) -> Segment | None:
        fitting = [
            each
            for each in self._all.values()
            if not each.here and not each.there and size <= each.size <= _LOOSE * max(size, _STEP)
        ]
        return min(fitting, key=lambda each: each.size, default=None)

    def _make(self, size: int) -> Segment:
        size = max(1, -(-size // _STEP)) * _STEP
        total = size + sum(each.size for each in self._all.values())
        for each in list(self._all.values()):
            if total > self.limit and not each.here and not each.there:
                self._drop(each)
                total -= each.size
        fd = os.memfd_create("fedtest.comm")
        try:
            os.ftruncate(fd, size)
            segment = Segment(self._next, mmap.mmap(fd, size), size, fd)
        except BaseException:
            os.close(fd)
            raise
        self._next += 1
        self._all[segment.number] = segment
        return segment

    def _drop(self, segment: Segment) -> None:
        del self._all[segment.number]
        if segment.fd >= 0:
            os.close(segment.fd)
        else:
            self._dropped.append(segment.number)


class Mapped:
    """The segments of the other side, seen from this one."""

    def __init__(self, done: Callable[[int], object]) -> None:
        self._done = done  # called with a segment's number when a message in it is gone
        self._all: dict[int, mmap.mmap] = {}

    def add(self, number: int, fd: int) -> None:
        try:
            self._all[number] = mmap.mmap(fd, os.fstat(fd).st_size)
        finally:
            os.close(fd)

    def drop(self, number: int) -> None:
        """Tensors that are in it keep it for themselves."""
        self._all.pop(number, None)

    def tensor(self, number: int) -> torch.Tensor:
        return lease(self._all[number], _Called(self._done, number))


@dataclass(frozen=True)
class _Noted:
    where: deque[int]
    number: int

    def __call__(self) -> None:
        self.where.append(self.number)


@dataclass(frozen=True)
class _Called:
    what: Callable[[int], object]
    number: int

    def __call__(self) -> None:
        self.what(self.number)


def _nothing() -> None:
    """Nobody waits for it."""
