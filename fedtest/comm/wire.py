"""The layout of a package on the wire, and the checks that both ends make.

A package is up to three messages (or one that holds them: short.py):

    header   int32[5]   sender's rank, receiver's rank, length of the slices,
                        message code, dtype code
    slices   int32[n]   of each tensor: number of elements, number of
                        dimensions, each dimension
    content  dtype[m]   all elements of all tensors, one after the other

Without tensors the header is all; its length is 0, its dtype code -1. Tensors
that have no elements still make slices and a content, of zero bytes.
"""

from __future__ import annotations

import math
from array import array
from typing import TYPE_CHECKING, NamedTuple

import torch

from fedtest.comm.codes import DTYPES, ITEM_SIZES, message_code
from fedtest.comm.errors import PackageError

if TYPE_CHECKING:
    from collections.abc import Sequence

HEADER_SIZE = 5
SENDER, RECEIVER, LENGTH, CODE, DTYPE = range(HEADER_SIZE)

MAX_DIMENSIONS = 64  # what torch's own operations take
MAX_SLICES = 1 << 22  # numbers: a million tensors; each is a Python object while it is checked
MAX_PACKAGE_BYTES = 1 << 32  # content, unless a network is told otherwise
_INT32 = (1 << 31) - 1
_INT64 = (1 << 63) - 1

UNSET = -(1 << 31)
"""What buffers of int32 are filled with before a receive: a number that none may hold."""
UNSET_BYTES = array("i", [UNSET]).tobytes()


class Header(NamedTuple):
    """The five numbers."""

    sender: int
    receiver: int
    length: int  # of the slices
    code: int
    dtype: int


class Layout(NamedTuple):
    """The tensors of a content: elements and shape of each, elements of all."""

    counts: list[int]
    shapes: list[tuple[int, ...]]
    total: int


def check_header(header: Header) -> None:
    """Raise PackageError unless the numbers can begin a package. Ranks are not looked at."""
    if not 0 <= header.length <= MAX_SLICES:
        raise PackageError(f"a length of slices of {header.length}: 0 to {MAX_SLICES} can be")
    message_code(header.code)
    if header.length and not 0 <= header.dtype < len(DTYPES):
        raise PackageError(f"{header.dtype} is no dtype code: 0 to {len(DTYPES) - 1} are")


def check_slices(slices: Sequence[int]) -> Layout:
    """The layout that `slices` describe. Raises PackageError if they contradict themselves."""
    counts: list[int] = []
    shapes: list[tuple[int, ...]] = []
    total = at = 0
    end = len(slices)
    while at < end:
        which = f"tensor {len(counts)}"
        if at + 2 > end:
            raise PackageError(f"the slices end within {which}")
        count, dimensions = slices[at], slices[at + 1]
        if not 0 <= count <= _INT32:
            raise PackageError(f"{which} has {count} elements: 0 to {_INT32} can be")
        if not 0 <= dimensions <= MAX_DIMENSIONS:
            raise PackageError(f"{which} has {dimensions} dimensions: 0 to {MAX_DIMENSIONS} can be")
        at += 2
        shape = tuple(slices[at : at + dimensions])
        at += dimensions
        if at > end:
            raise PackageError(f"the slices end within the shape of {which}")
        if shape and (min(shape) < 0 or max(shape) > _INT32):
            raise PackageError(f"{which} has the shape {shape}")
        if math.prod(shape) != count:
            raise PackageError(f"{which} has {count} elements but the shape {shape}")
        if not count and math.prod(size or 1 for size in shape) > _INT64:
            raise PackageError(f"{which} has the shape {shape}, which no tensor can have")
        total += count
        counts.append(count)
        shapes.append(shape)
    return Layout(counts, shapes, total)


def check_size(layout: Layout, dtype: int, limit: int) -> int:
    """The bytes of a content of dtype code `dtype`. PackageError if those are over `limit`."""
    size: int = layout.total * ITEM_SIZES[dtype]
    if size > limit:
        raise PackageError(f"a content of {size} bytes: max_package_bytes is {limit}")
    return size


def slices_of(shape: Sequence[int], count: int) -> list[int]:
    """What the slices say of one tensor."""
    return [count, len(shape), *shape]


def int32(numbers: Sequence[int]) -> torch.Tensor:
    """The numbers as int32[n]; they must fit."""
    if not numbers:
        return torch.empty(0, dtype=torch.int32)
    return torch.frombuffer(array("i", numbers), dtype=torch.int32)


def views(content: torch.Tensor, layout: Layout) -> list[torch.Tensor]:
    """The tensors in `content`, which holds at least `layout.total` elements: views, no copies."""
    if content.numel() != layout.total:
        content = content.narrow(0, 0, layout.total)
    parts = content.split_with_sizes(layout.counts) if len(layout.counts) != 1 else [content]
    return [
        part if len(shape) == 1 else part.view(shape)
        for part, shape in zip(parts, layout.shapes, strict=True)
    ]
