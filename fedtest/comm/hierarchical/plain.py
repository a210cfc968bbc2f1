"""Small messages as connectors put them, in one datagram and without a pickle.

    kind uint8, dtype code, sender, message code, how many numbers follow
    numbers int32[n]   as the slices of a package on the wire
    content            all elements of all tensors, one after the other

Whatever else is put into a queue is pickled (parcels.py).
"""

from __future__ import annotations

import math
import struct
from array import array
from typing import TYPE_CHECKING, Any

import torch

from fedtest.comm import wire
from fedtest.comm.codes import DTYPES, ITEM_SIZES, NO_DTYPE, MessageCode, message_code

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEAD = struct.Struct("=B3xiqii")
_NOBODY = -1  # the sender None
_NO_PAYLOAD = -1  # the payload None, instead of how many numbers
_PARTS = 64  # tensors; more are pickled, for a datagram takes no end of parts
_CODES = {dtype: code for code, dtype in enumerate(DTYPES)}


def pack(item: Any, kind: int, limit: int) -> list[Any] | None:
    """The parts of the datagram; None if it is something else, or more than `limit` bytes."""
    if type(item) is not tuple or len(item) != 3:
        return None
    sender, code, payload = item
    if type(code) is not MessageCode or not (sender is None or _is_rank(sender)):
        return None
    who = _NOBODY if sender is None else sender
    if payload is None:
        return [_HEAD.pack(kind, NO_DTYPE, who, code.value, _NO_PAYLOAD)]
    found = _flat(payload, limit) if type(payload) is list else None
    if found is None:
        return None
    number, numbers, parts = found
    return [_HEAD.pack(kind, number, who, code.value, len(numbers)), numbers, *parts]


def _is_rank(sender: Any) -> bool:
    return type(sender) is int and 0 <= sender < 1 << 31


def _flat(payload: list[Any], limit: int) -> tuple[int, array[int], list[Any]] | None:
    """Dtype code, numbers and elements of tensors that are of one dtype."""
    if not 0 < len(payload) <= _PARTS or not all(map(is_plain, payload)):
        return None
    dtype = payload[0].dtype
    number = _CODES.get(dtype, NO_DTYPE)
    numbers = array("i")
    elements = 0
    for tensor in payload:
        count = tensor.numel()
        elements += count
        if tensor.dtype is not dtype or elements > limit or not _can_be_told(tensor.shape, count):
            return None
        numbers.extend(wire.slices_of(tensor.shape, count))
    size = 4 * len(numbers) + elements * ITEM_SIZES[number]
    if number == NO_DTYPE or size > limit:
        return None
    return number, numbers, [each.detach().contiguous().numpy() for each in payload]


def _can_be_told(shape: Sequence[int], count: int) -> bool:
    """Whether the wire's slices hold such a shape."""
    if len(shape) > wire.MAX_DIMENSIONS:
        return False
    return count > 0 or math.prod(size or 1 for size in shape) < 1 << 31


def unpack(space: bytearray, length: int) -> Any:
    """What was put in, from the first `length` bytes of `space`; nothing of it is referred to."""
    _, number, who, code, count = _HEAD.unpack_from(space)
    sender = None if who == _NOBODY else who
    if count == _NO_PAYLOAD:
        return sender, message_code(code), None
    begin = _HEAD.size + 4 * count
    layout = wire.check_slices(memoryview(space)[_HEAD.size : begin].cast("i").tolist())
    if layout.total:
        content = torch.frombuffer(space[begin:length], dtype=DTYPES[number])
    else:
        content = torch.empty(0, dtype=DTYPES[number])
    return sender, message_code(code), wire.views(content, layout)


def is_plain(tensor: Any) -> bool:
    """Whether it is a tensor that is nothing but its elements in the memory of the processor."""
    return (
        type(tensor) is torch.Tensor
        and tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        and not tensor.is_quantized
        and not tensor.is_nested
        and not tensor.is_neg()
        and not tensor.is_conj()
    )
