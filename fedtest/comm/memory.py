"""Memory for large contents. Its first use costs more than the transfer, page by page."""

from __future__ import annotations

import mmap
import weakref
from collections import deque
from contextlib import suppress
from functools import cache

import torch

_LARGE = 1 << 20  # bytes from which memory is kept, and the kernel asked for huge pages
_KEPT = 2  # pieces of it: one to send from, one to receive into


@cache
def item_size(dtype: torch.dtype) -> int:
    """Bytes of one element. (Not `dtype.itemsize`, which torch 1.13 has not.)"""
    size: int = torch.empty(0, dtype=dtype).element_size()
    return size


def empty(elements: int, dtype: torch.dtype) -> torch.Tensor:
    """So many elements, not initialised, 1-d; in huge pages where there are any."""
    size = elements * item_size(dtype)
    if size <= _LARGE:
        return torch.empty(elements, dtype=dtype)
    return torch.frombuffer(_mapped(size), dtype=dtype, count=elements)


class Memory:
    """Pieces of memory that are used again when no tensor is in them any more.

    The last two are kept, for contents of a quarter of their size and more.
    """

    def __init__(self) -> None:
        # Only appended to and popped from, both atomic: a tensor may end anywhere,
        # in the middle of what another thread does here.
        self._kept: deque[mmap.mmap] = deque(maxlen=_KEPT)
        self._closed = False

    def empty(self, elements: int, dtype: torch.dtype) -> torch.Tensor:
        """As `empty`, in memory that was used before if there is any."""
        size = elements * item_size(dtype)
        if size <= _LARGE:
            return torch.empty(elements, dtype=dtype)
        piece = self._take(size) or _mapped(size)
        # The tensors' storage holds `loan`, and nobody else does.
        loan = memoryview(piece)
        weakref.finalize(loan, self._give, piece).atexit = False
        return torch.frombuffer(loan, dtype=dtype, count=elements)

    def close(self) -> None:
        """Keep nothing from now on."""
        self._closed = True
        self._kept.clear()

    def _take(self, size: int) -> mmap.mmap | None:
        others = []
        found = None
        with suppress(IndexError):
            while found is None:
                piece = self._kept.pop()
                if size <= len(piece) <= 4 * size:
                    found = piece
                else:
                    others.append(piece)
        self._kept.extendleft(others)
        return found

    def _give(self, piece: mmap.mmap) -> None:
        if not self._closed:
            self._kept.append(piece)


def _mapped(size: int) -> mmap.mmap:
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without them
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory
