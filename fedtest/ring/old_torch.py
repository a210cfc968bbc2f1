"""What the communication library asks of torch's stores, for a torch that is too old for it.

Debian 12 has torch 1.13, and servers are seldom new. Since 2.2 a store can be
asked to do without libuv, and whether it has a key.
"""

from __future__ import annotations

from typing import Any

from torch import distributed as dist

_NO_VALUE = "no value is this one"


def allow() -> None:
    """Give the stores of an old torch what they lack; nothing if they lack nothing."""
    if not hasattr(dist.Store, "check"):
        dist.TCPStore, dist.PrefixStore = _TCPStore, _PrefixStore


class _TCPStore(dist.TCPStore):  # type: ignore[misc]
    def __init__(self, *arguments: Any, use_libuv: bool = False, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)


class _PrefixStore(dist.PrefixStore):  # type: ignore[misc]
    def check(self, keys: list[str]) -> bool:
        # Where there is no such key the store answers with what was expected, and sets nothing.
        return all(
            self.compare_set(key, _NO_VALUE, _NO_VALUE) != _NO_VALUE.encode() for key in keys
        )
