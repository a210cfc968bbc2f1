"""Package: tensors of one dtype with a code, and how to read one that has come."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import distributed as dist

from fedtest.comm import codes, tensors, wire
from fedtest.comm.errors import PackageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedtest.comm.codes import MessageCode


class Package:
    """Tensors that travel together, with a message code.

    `header`   int32[5]: sender's rank (-1: not in a group yet), receiver's rank
               (-1: not sent yet), length of `slices`, message code, dtype code
               (-1: no tensor yet)
    `slices`   list of int: of each tensor its number of elements, its number of
               dimensions, its dimensions
    `content`  1-d tensor of all elements in order, or None
    `dtype`    that of the first tensor, which all others take; or None

    Tensors are copied when they are appended: what happens to them later does
    not change the package, nor the other way round. `strict` refuses tensors
    that would lose something by taking the dtype of the first; otherwise a
    CoercionWarning says what was lost.

    Raises PackageError for what is not a message code, not a tensor, or a
    tensor that cannot be sent: of a dtype beyond the seven (DtypeError), not
    dense, quantised, or not in the CPU's memory.
    """

    def __init__(
        self,
        message_code: MessageCode | int | None = None,
        content: torch.Tensor | Sequence[torch.Tensor] | None = None,
        *,
        strict: bool = False,
    ) -> None:
        sender = dist.get_rank() if dist.is_available() and dist.is_initialized() else -1
        code = codes.message_code(message_code).value
        self.header = wire.int32([sender, -1, 0, code, codes.NO_DTYPE])
        self.slices: list[int] = []
        self.dtype: torch.dtype | None = None
        self.strict = strict
        self._parts: list[torch.Tensor] = []  # what `content` is, not joined yet
        self._append(tensors.as_list(content), stacklevel=3)

    def append_tensor(self, tensor: torch.Tensor) -> None:
        """Append a copy of one tensor of any shape."""
        if not isinstance(tensor, torch.Tensor):
            raise PackageError(f"append_tensor takes a tensor, not {type(tensor).__name__}")
        self._append(tensors.as_list(tensor), stacklevel=3)

    def append_tensor_list(self, tensor_list: Sequence[torch.Tensor]) -> None:
        """Append copies of all tensors of a list or tuple."""
        if not isinstance(tensor_list, (list, tuple)):
            raise PackageError(
                f"append_tensor_list takes a list or tuple, not {type(tensor_list).__name__}"
            )
        self._append(tensors.as_list(tensor_list), stacklevel=3)

    @property
    def content(self) -> torch.Tensor | None:
        """All elements of all tensors, 1-d; None before there is a tensor."""
        if len(self._parts) > 1:
            self._parts = [torch.cat(self._parts)]
        return self._parts[0] if self._parts else None

    @content.setter
    def content(self, content: torch.Tensor | None) -> None:
        self._parts = [] if content is None else [content]

    def to(self, dtype: torch.dtype) -> None:
        """Change the dtype of the package and of all that it holds, as appending would."""
        code = codes.dtype_code(dtype)
        content = self.content
        if content is None:
            raise PackageError("a package without tensors has no dtype to change")
        self.content = tensors.flat([content], dtype, strict=self.strict, stacklevel=2)
        self.dtype = dtype
        self.header[wire.DTYPE] = code

    @staticmethod
    def parse_header(header: torch.Tensor) -> tuple[int, int, int, MessageCode, int]:
        """Sender, receiver, length of the slices, message code, dtype code of a header.

        Raises PackageError if those are not five numbers, or cannot begin a package.
        """
        numbers = header.tolist()
        if header.dim() != 1 or len(numbers) != wire.HEADER_SIZE:
            raise PackageError(f"a header has the shape (5,), not {tuple(header.shape)}")
        found = wire.Header(*(int(number) for number in numbers))
        wire.check_header(found)
        return (
            found.sender,
            found.receiver,
            found.length,
            codes.message_code(found.code),
            found.dtype,
        )

    @staticmethod
    def parse_content(
        slices: Sequence[int] | torch.Tensor, content: torch.Tensor | None
    ) -> list[torch.Tensor]:
        """The tensors in `content` by `slices`: views of it, with their own shapes.

        Raises PackageError if the slices contradict themselves or need more
        elements than there are.
        """
        numbers = [int(number) for number in slices]
        there = 0 if content is None else content.numel()
        layout = wire.check_slices(numbers)
        if layout.total > there:
            raise PackageError(f"the slices are of {layout.total} elements, there are {there}")
        return [] if content is None else wire.views(content.view(-1), layout)

    def _append(self, found: list[torch.Tensor], *, stacklevel: int) -> None:
        if not found:
            return
        slices = list(self.slices)
        for tensor in found:
            slices += wire.slices_of(tensor.shape, tensor.numel())
        if len(slices) > wire.MAX_SLICES:
            raise PackageError(f"slices of {len(slices)} numbers: at most {wire.MAX_SLICES}")
        dtype = self.dtype or found[0].dtype
        part = tensors.flat(found, dtype, strict=self.strict, stacklevel=stacklevel)
        self._parts.append(part)
        self.dtype = dtype
        self.slices = slices
        self.header[wire.DTYPE] = codes.dtype_code(dtype)
        self.header[wire.LENGTH] = len(slices)
