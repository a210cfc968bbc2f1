"""The numbers that stand for messages and dtypes on the wire. They are FedLab's."""

from __future__ import annotations

from enum import Enum

import torch

from fedtest.comm.errors import DtypeError, PackageError


class MessageCode(Enum):
    """What a package is about."""

    ParameterRequest = 0
    GradientUpdate = 1
    ParameterUpdate = 2
    EvaluateParams = 3
    Exit = 4
    SetUp = 5
    Activation = 6


DTYPES = (
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.float32,
    torch.float64,
)
"""The dtypes of the wire; the code of each is its position."""

NO_DTYPE = -1
"""The code in the header of a package without content."""

_CODES = {dtype: code for code, dtype in enumerate(DTYPES)}
_MESSAGES = {code.value: code for code in MessageCode}
ITEM_SIZES = tuple(torch.empty(0, dtype=dtype).element_size() for dtype in DTYPES)
"""Bytes of one element, by dtype code."""


def dtype_code(dtype: torch.dtype) -> int:
    """The code of `dtype`. Raises DtypeError if it has none."""
    code = _CODES.get(dtype)
    if code is None:
        allowed = ", ".join(name(each) for each in DTYPES)
        raise DtypeError(f"{name(dtype)} tensors cannot be sent; what can: {allowed}")
    return code


def message_code(code: MessageCode | int | None) -> MessageCode:
    """`code` as a MessageCode; None is the first. Raises PackageError for any other number."""
    if isinstance(code, MessageCode):
        return code
    if code is None:
        return MessageCode.ParameterRequest
    found = _MESSAGES.get(code) if type(code) is int else None
    if found is None:
        known = ", ".join(f"{each.value} {each.name}" for each in MessageCode)
        raise PackageError(f"{code!r} is no message code; those are {known}")
    return found


def name(dtype: torch.dtype) -> str:
    """`torch.float32` as `float32`."""
    return str(dtype).removeprefix("torch.")
