"""Memory for large contents. Its first use costs more than the transfer, page by page."""

from __future__ import annotations

import mmap
import threading
from contextlib import suppress

import torch

_LARGE = 4 << 20  # bytes from which the kernel is asked for huge pages


def empty(elements: int, dtype: torch.dtype) -> torch.Tensor:
    """So many elements, not initialised, 1-d; in huge pages where there are any."""
    size = elements * dtype.itemsize
    if size < _LARGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return torch.empty(elements, dtype=dtype)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a kernel without them
        memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(memory, dtype=dtype, count=elements)


class Stage:
    """The memory in which lists of tensors are made one message; kept for the next.

    What is kept is at most four times what the last list needed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: torch.Tensor | None = None

    def take(self, size: int) -> torch.Tensor:
        """`size` bytes or more, for one package at a time."""
        with self._lock:
            kept, self._kept = self._kept, None
        if kept is not None and size <= kept.numel() <= 4 * size:
            return kept
        return empty(size, torch.uint8)

    def give(self, memory: torch.Tensor) -> None:
        """Nobody reads `memory` any more."""
        with self._lock:
            self._kept = memory
