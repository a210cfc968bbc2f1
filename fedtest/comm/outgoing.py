"""A package that is ready for the wire: everything is checked before the first byte goes out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fedtest.comm import codes, short, tensors, wire
from fedtest.comm.errors import PackageError

if TYPE_CHECKING:
    import torch

    from fedtest.comm.codes import MessageCode
    from fedtest.comm.memory import Memory
    from fedtest.comm.package import Package

EAGER_BYTES = 1 << 20
"""Packages with a content up to this size are copied and sent in the background."""


class Outgoing(NamedTuple):
    """What goes out; the ranks are put into the header when it does."""

    code: int
    dtype: int
    slices: torch.Tensor | None = None
    content: torch.Tensor | None = None
    volume: int = 0  # bytes of content

    @property
    def eager(self) -> bool:
        """Whether the sender need not wait: the content is a small copy."""
        return self.volume <= EAGER_BYTES

    def messages(self, sender: int, receiver: int, *, as_short: bool) -> list[torch.Tensor]:
        """What is sent, one after the other; in the short form if that may be and it fits."""
        if self.slices is None or self.content is None:
            return [wire.int32([sender, receiver, 0, self.code, self.dtype])]
        length = self.slices.numel()
        header = [sender, receiver, length, self.code, self.dtype]
        if as_short and short.size_of(length, self.volume) <= short.MOST:
            return [short.message(header, self.slices, self.content)]
        return [wire.int32(header), self.slices, self.content]


def prepare(
    content: object,
    code: MessageCode | int | None,
    *,
    strict: bool,
    limit: int,
    memory: Memory,
    stacklevel: int = 2,
) -> Outgoing:
    """Make `content` ready. Raises PackageError.

    A large contiguous tensor is not copied, nor are tensors that lie one after
    the other, as those of a package that has come do: they must not change
    until they are sent.
    """
    value = codes.message_code(code).value
    found = tensors.as_list(content)
    if not found:
        return Outgoing(value, codes.NO_DTYPE)
    dtype = found[0].dtype
    kind = codes.dtype_code(dtype)
    numbers: list[int] = []
    for tensor in found:
        numbers += wire.slices_of(tensor.shape, tensor.numel())
    size = _check(wire.Header(-1, -1, len(numbers), value, kind), numbers, limit)
    slices = wire.int32(numbers)
    if size > EAGER_BYTES:
        flat = tensors.joined(found)
        if flat is not None:
            return Outgoing(value, kind, slices, flat, size)
    flat = tensors.flat(
        found, dtype, strict=strict, allocate=memory.empty, stacklevel=stacklevel + 1
    )
    return Outgoing(value, kind, slices, flat, size)


def of_package(package: Package, limit: int) -> Outgoing:
    """The same for a Package, whatever was done to its attributes. Raises PackageError."""
    if package.header.numel() != wire.HEADER_SIZE:
        raise PackageError(f"a header has the shape (5,), not {tuple(package.header.shape)}")
    code = int(package.header[wire.CODE])
    codes.message_code(code)
    content = package.content
    if not package.slices:
        if content is not None:
            raise PackageError("a package with content but without slices")
        return Outgoing(code, codes.NO_DTYPE)
    if content is None:
        raise PackageError("a package with slices but without content")
    tensors.check(content)
    kind = codes.dtype_code(content.dtype)
    numbers = [int(number) for number in package.slices]
    size = _check(wire.Header(-1, -1, len(numbers), code, kind), numbers, limit)
    if content.numel() * content.element_size() != size:
        raise PackageError(
            f"the slices are of {size} bytes, the content has "
            f"{content.numel() * content.element_size()}"
        )
    flat = tensors.borrowed(content)
    if flat is None or size <= EAGER_BYTES:
        flat = tensors.flat([content], content.dtype, strict=True)
    return Outgoing(code, kind, wire.int32(numbers), flat, size)


def _check(header: wire.Header, slices: list[int], limit: int) -> int:
    wire.check_header(header)
    return wire.check_size(wire.check_slices(slices), header.dtype, limit)
