"""What is put into a queue, taken apart: a pickle without its tensors, and where those are."""

from __future__ import annotations

import ctypes
import io
import pickle
from typing import TYPE_CHECKING, Any

import torch

from fedtest.comm import codes
from fedtest.comm.hierarchical.plain import is_plain
from fedtest.comm.memory import item_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from fedtest.comm.hierarchical.segments import Segment, Segments

_ALIGN = 64  # bytes
HERE = -1  # instead of a segment's number: in the parcel itself


class Parcel(pickle.Pickler):
    """`item` taken apart. Tensors in `segments` stay where they are, others are to be copied."""

    def __init__(self, item: object, segments: Segments) -> None:
        self._buffer = io.BytesIO()
        super().__init__(self._buffer, protocol=5)
        self._segments = segments
        self._copied: list[tuple[torch.Tensor, int]] = []  # and at which byte of the copy
        self._kept: list[torch.Tensor] = []
        self.shared: dict[int, Segment] = {}
        """The segments that tensors are in."""
        self.shared_bytes = 0
        self.copied_bytes = 0
        self.dump(item)
        self.pickled = self._buffer.getbuffer()

    def persistent_id(self, obj: Any) -> tuple[str, tuple[int, ...], int, int] | None:
        if not is_plain(obj):
            return None
        tensor = obj.detach()
        name, shape = codes.name(tensor.dtype), tuple(tensor.shape)
        size = tensor.numel() * tensor.element_size()
        if tensor.is_contiguous():
            found = self._segments.where(tensor) if size else None
            if found is not None:
                segment, at = found
                self.shared[segment.number] = segment
                self.shared_bytes += size
                return name, shape, segment.number, at
        else:
            tensor = tensor.contiguous()
        at = self.copied_bytes
        self._copied.append((tensor, at))
        self.copied_bytes = at + -(-size // _ALIGN) * _ALIGN
        return name, shape, HERE, at

    def copy_to(self, address: int) -> None:
        """Copy the tensors that are to be copied to that place in memory."""
        for tensor, at in self._copied:
            ctypes.memmove(address + at, tensor.data_ptr(), tensor.numel() * tensor.element_size())


class _Unpickler(pickle.Unpickler):
    def __init__(
        self, pickled: memoryview | bytes, copied: torch.Tensor, of: Callable[[int], torch.Tensor]
    ) -> None:
        super().__init__(io.BytesIO(pickled))
        self._copied = copied
        self._of = of
        self._found: dict[int, torch.Tensor] = {}

    def persistent_load(self, pid: tuple[str, tuple[int, ...], int, int]) -> torch.Tensor:
        name, shape, number, at = pid
        dtype = getattr(torch, name)
        if number == HERE:
            whole = self._copied
        else:
            if number not in self._found:
                self._found[number] = self._of(number)
            whole = self._found[number]
        count = 1
        for size in shape:
            count *= size
        if not count:
            return torch.empty(shape, dtype=dtype)
        tensor = whole[at : at + count * item_size(dtype)].view(dtype)
        return tensor if len(shape) == 1 else tensor.view(shape)


def unpack(
    pickled: memoryview | bytes, copied: torch.Tensor, of: Callable[[int], torch.Tensor]
) -> Any:
    """What was put in. `copied` are the bytes that were copied, `of` gives those of a segment."""
    return _Unpickler(pickled, copied, of).load()
