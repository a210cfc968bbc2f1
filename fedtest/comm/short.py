"""The short form of a package: all of it in one message, between ranks that both know it.

What a small package costs is its messages, not its bytes. So to a rank that
has said in joining that it takes it, one goes out as

    header   int32[5]   as always
    size     int32      bytes of the whole message
    slices   int32[n]   as always
    content  bytes      as always, as they lie in memory
    end      int32      END, after bytes that fill up the last four

Where a header is expected, a receive of MOST bytes is posted. Gloo does not tell
how many have come; but all have been UNSET before, and a header has no sixth number.

So the message is an extension of the wire: who has not said that it takes it,
FedLab's ranks for one, gets three messages, and whoever sends three is understood.
"""

from __future__ import annotations

import sys
from array import array
from os import environ
from typing import TYPE_CHECKING, NamedTuple

import torch

from fedtest.comm import wire
from fedtest.comm.errors import PackageError

if TYPE_CHECKING:
    from collections.abc import Sequence

# A message longer than the buffer posted for it ends the process, within Gloo.
# Buffers that are longer than what is due take that, and show it; the libuv
# transport of Gloo (not Linux's default) wants them exact.
EXACT = not sys.platform.startswith("linux") or environ.get("GLOO_DEVICE_TRANSPORT", "TCP") != "TCP"
MOST = 16 << 10  # bytes; to copy more costs as much as it saves
END = 0x0FED7E57
_NUMBER = 4  # bytes
_HEAD = (wire.HEADER_SIZE + 1) * _NUMBER
_UNSET = wire.UNSET_BYTES * (MOST // _NUMBER)
_END = array("i", [END]).tobytes()


class First(NamedTuple):
    """The first message of a package. `rest`: slices and content, if it was of the short form."""

    header: wire.Header
    rest: bytearray | None


def size_of(length: int, volume: int) -> int:
    """Bytes of a message with so many numbers of slices and bytes of content."""
    return _HEAD + length * _NUMBER + -(-volume // _NUMBER) * _NUMBER + _NUMBER


def message(header: Sequence[int], slices: torch.Tensor, content: torch.Tensor) -> torch.Tensor:
    """The short form, uint8[size]; `slices` is int32[n], `content` one dimension of any dtype."""
    start = _HEAD + slices.numel() * _NUMBER
    volume = content.numel() * content.element_size()
    memory = bytearray(size_of(slices.numel(), volume))
    memory[:_HEAD] = array("i", [*header, len(memory)]).tobytes()
    memory[-_NUMBER:] = _END
    whole = torch.frombuffer(memory, dtype=torch.uint8)
    whole[_HEAD:start] = slices.view(torch.uint8)
    if volume:
        whole[start : start + volume] = content.view(torch.uint8)
    return whole


def memory() -> bytearray:
    """What a first message is received in."""
    return bytearray(_UNSET[: wire.HEADER_SIZE * _NUMBER] if EXACT else _UNSET)


def take(memory: bytearray) -> First:
    """What has come in `memory`, which is as new then. Raises PackageError: what was sent."""
    numbers = array("i", memory[:_HEAD])
    size = numbers.pop() if len(numbers) > wire.HEADER_SIZE else wire.UNSET
    if wire.UNSET in numbers:
        raise PackageError(f"fewer than {wire.HEADER_SIZE} numbers as header")
    header, rest, used = wire.Header(*numbers), None, _HEAD - _NUMBER
    if size != wire.UNSET:
        if not _HEAD < size <= MOST or size % _NUMBER or memory[size - _NUMBER : size] != _END:
            raise PackageError(f"more than {wire.HEADER_SIZE} numbers as header")
        rest, used = memory[_HEAD : size - _NUMBER], size
    if memory[used:] != _UNSET[used : len(memory)]:
        raise PackageError(f"more than {used // _NUMBER} numbers as header")
    memory[:used] = _UNSET[:used]
    return First(header, rest)
