"""The ids of clients at the front of a package: exact, whatever dtype the package has.

A package has one dtype, that of its payload, so the ids in front take it:

    plain  dtype[n]     the ids as numbers, as FedLab has them; only if that is
                        exact, and none of them could have been another id
    wide   dtype[n, k]  each id as the 8 bytes of an int64, seen as k elements
                        of the dtype; only for ranks with this library

The two are told apart by their dimensions.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import torch

from fedtest.comm import codes, tensors
from fedtest.comm.errors import IdError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedtest.comm.codes import MessageCode
    from fedtest.comm.network import DistNetwork

_WIDE = 8  # bytes


def plain_limit(dtype: torch.dtype) -> int:
    """So many ids, from 0 on, are told apart as plain numbers of `dtype`."""
    if dtype.is_floating_point:
        # From here on a number may be what another one was rounded to.
        return int(2 / torch.finfo(dtype).eps)
    return int(torch.iinfo(dtype).max) + 1


def encode(ids: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """`ids` as a tensor of `dtype`: plain if that is exact, else wide. Raises IdError."""
    try:
        numbers = [whole(each) for each in ids]
    except TypeError as error:
        raise IdError(f"ids are a list of whole numbers, not {ids!r}") from error
    for each in numbers:
        if not 0 <= each < 1 << 63:
            raise IdError(f"{each} is no id: 0 to 2**63 - 1 can be")
    if all(each < plain_limit(dtype) for each in numbers):
        return torch.tensor(numbers, dtype=dtype)
    return torch.tensor(numbers, dtype=torch.int64).view(dtype).view(len(numbers), -1)


def whole(number: Any) -> int:
    """An id of Python, numpy or a tensor as an int. Raises IdError if it is no whole number."""
    try:
        return operator.index(number)
    except (TypeError, ValueError) as error:
        raise IdError(f"{number!r} is no id: ids are whole numbers") from error


def decode(tensor: torch.Tensor, *, most: int = 0) -> list[int]:
    """The ids in a tensor that has come.

    Raises IdError if those are no ids, or if they may have been others: of an
    integer dtype that `most` does not fit, which is the largest id that there
    can be, or of a float in which they were rounded.
    """
    dtype = tensor.dtype
    if tensor.dim() == 2 and tensor.shape[1] * tensor.element_size() == _WIDE:
        ids: list[int] = tensor.clone().view(-1).view(torch.int64).tolist()
    elif tensor.dim() == 1:
        values = tensor.tolist()
        ids = [int(value) if abs(value) < 1 << 63 else -1 for value in values]  # also for NaN
        if ids != values:
            raise IdError(f"a first tensor of {_some(values)}: ids are whole numbers")
        limit = plain_limit(dtype)
        lost = max(ids, default=0) if dtype.is_floating_point else most
        if lost >= limit:
            raise IdError(
                f"id {lost} does not fit into {codes.name(dtype)}, the dtype of the package, "
                f"which holds ids to {limit - 1}: they have been cut or rounded ({_some(ids)})"
            )
    else:
        raise IdError(f"a first tensor of shape {tuple(tensor.shape)}: that is no list of ids")
    if any(each < 0 for each in ids):
        raise IdError(f"a first tensor of {_some(ids)}: ids are 0 or more")
    return ids


def put_ids(
    ids: Sequence[int], content: torch.Tensor | Sequence[torch.Tensor] | None = None
) -> list[torch.Tensor]:
    """A content with `ids` in front. Raises IdError, PackageError.

    All of it has the dtype of the first tensor of `content`; without one,
    the ids are int64.
    """
    payload = tensors.as_list(content)
    return [encode(ids, payload[0].dtype if payload else torch.int64), *payload]


def take_ids(
    content: Sequence[torch.Tensor] | None, *, most: int = 0
) -> tuple[list[int], list[torch.Tensor]]:
    """The ids at the front of a content that has come, and what follows. Raises IdError."""
    if not content:
        raise IdError("a package without tensors has no ids")
    return decode(content[0], most=most), list(content[1:])


def send_to(
    network: DistNetwork,
    ids: Sequence[int],
    content: torch.Tensor | Sequence[torch.Tensor] | None,
    message_code: MessageCode,
    dst: int,
) -> None:
    """Send `content` to the clients `ids` of rank `dst`, by the numbers that it knows them under.

    Raises IdError if an id cannot be carried exactly: FedLab knows no wide ids.
    """
    whole = put_ids(ids, content)
    check_known(network, whole[0], dst)
    network.send(whole, message_code, dst)


def check_known(network: DistNetwork, encoded: torch.Tensor, dst: int) -> None:
    """Raise IdError if rank `dst` would not understand these ids."""
    if encoded.dim() > 1 and dst not in network.ours:
        largest = max(decode(encoded))
        raise IdError(
            f"id {largest} for rank {dst}: {codes.name(encoded.dtype)}, the dtype of the package, "
            "cannot hold it exactly, and FedLab knows ids only as numbers of that dtype"
        )


def _some(values: Sequence[object]) -> str:
    shown = ", ".join(map(str, values[:5]))
    return f"{shown}, ..." if len(values) > 5 else shown
