"""Tensors as callers have them, made into the one flat content of a package."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import torch

from fedtest.comm import coercion
from fedtest.comm.codes import dtype_code, name
from fedtest.comm.errors import PackageError
from fedtest.comm.memory import empty, item_size
from fedtest.comm.wire import MAX_DIMENSIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def as_list(content: object) -> list[torch.Tensor]:
    """The tensors of `content`: None, a tensor, or a list or tuple of tensors, checked.

    Raises PackageError, also for a kind of tensor that cannot be sent.
    """
    if content is None:
        return []
    if isinstance(content, torch.Tensor):
        check(content)
        return [content]
    if not isinstance(content, (list, tuple)):
        raise PackageError(
            "content must be a tensor, a list or a tuple of tensors, or None, "
            f"not {_kind(content)}{_hint(content)}"
        )
    for position, tensor in enumerate(content):
        if not isinstance(tensor, torch.Tensor):
            raise PackageError(
                f"content[{position}] must be a tensor, not {_kind(tensor)}{_hint(tensor)}"
            )
        check(tensor)
    return list(content)


def check(tensor: torch.Tensor) -> None:
    """Raise PackageError unless `tensor` can be sent."""
    if tensor.is_quantized:
        raise PackageError(
            f"a quantised tensor ({name(tensor.dtype)}) cannot be sent: dequantize() it"
        )
    dtype_code(tensor.dtype)
    if tensor.layout is not torch.strided or tensor.is_nested:
        layout = "nested" if tensor.is_nested else str(tensor.layout).removeprefix("torch.")
        raise PackageError(f"a {layout} tensor cannot be sent: make it dense first")
    if not tensor.is_cpu:
        what = "it has no values" if tensor.is_meta else "move it with cpu()"
        raise PackageError(f"a tensor on {tensor.device} cannot be sent: {what}")
    if tensor.dim() > MAX_DIMENSIONS:
        raise PackageError(f"a tensor of {tensor.dim()} dimensions: at most {MAX_DIMENSIONS}")


def borrowed(tensor: torch.Tensor) -> torch.Tensor | None:
    """The memory of `tensor` as it is, flat; None if it is not one piece in order."""
    if tensor.is_contiguous() and not tensor.is_neg():
        return tensor.detach().view(-1)
    return None


def joined(tensors: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """The memory of all of them as it is, flat; None if it is not one piece in order."""
    if len(tensors) == 1:
        return borrowed(tensors[0])
    there = [tensor for tensor in tensors if tensor.numel()]
    first = there[0]
    whole = _memory_of(first)
    end = first.storage_offset()
    for tensor in there:
        if (
            tensor.storage_offset() != end
            or tensor.dtype is not first.dtype
            or not tensor.is_contiguous()
            or tensor.is_neg()
            or _memory_of(tensor) != whole
        ):
            return None
        end += tensor.numel()
    begin = first.storage_offset()
    return first.detach().as_strided((end - begin,), (1,), begin)


def _memory_of(tensor: torch.Tensor) -> int:
    """Where the memory begins that `tensor` is somewhere in."""
    begin: int = tensor.data_ptr() - tensor.storage_offset() * tensor.element_size()
    return begin


def follows(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether `tensor` begins in memory where `other` ends, and is of its dtype."""
    return (
        tensor.dtype is other.dtype
        and other.is_contiguous()
        and tensor.storage_offset() == other.storage_offset() + other.numel()
        and _memory_of(tensor) == _memory_of(other)
    )


def flat(
    tensors: Sequence[torch.Tensor],
    dtype: torch.dtype,
    *,
    strict: bool,
    allocate: Callable[[int, torch.dtype], torch.Tensor] | None = None,
    stacklevel: int = 2,
) -> torch.Tensor:
    """A copy of all elements of `tensors`, in order, as one 1-d tensor of `dtype`.

    `allocate` gives the memory, for so many elements (default: new). Each dtype
    that can lose something is warned of once; `strict` raises CoercionError.
    """
    counts = [tensor.numel() for tensor in tensors]
    target = (allocate or empty)(sum(counts), dtype)
    losses = None
    place, size = target.data_ptr(), item_size(dtype)
    for tensor, count in zip(tensors, counts, strict=True):
        if tensor.dtype is dtype and tensor.is_contiguous() and not tensor.is_neg():
            # Not copy_(): its threads would fight with Gloo's for the processors.
            ctypes.memmove(place, tensor.data_ptr(), count * size)
        else:
            at = (place - target.data_ptr()) // size
            part = target.narrow(0, at, count).view(tensor.shape)
            with torch.no_grad():
                part.copy_(tensor)
            if tensor.dtype is not dtype:
                losses = losses or coercion.Losses(dtype, strict=strict)
                losses.note(tensor, part)
        place += count * size
    if losses is not None:
        losses.tell(stacklevel + 1)
    return target


def _kind(thing: object) -> str:
    kind = type(thing)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def _hint(thing: object) -> str:
    return ": give torch.from_numpy(array)" if hasattr(thing, "__array_interface__") else ""
