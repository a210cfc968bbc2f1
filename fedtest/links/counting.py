"""Bytes and packets between two hosts: counted by rules without a verdict in one of them.

What is received is counted before links lose or delay it, as the interface's
own counters do; bytes are those of IP, without what is around it on a wire.
"""

from __future__ import annotations

import shlex
from ipaddress import ip_address
from typing import TYPE_CHECKING, Literal, NamedTuple

from fedtest.links.shell import IPTABLES

if TYPE_CHECKING:
    from collections.abc import Sequence

_HOOKS = {"tx": "POSTROUTING", "rx": "PREROUTING"}


class Count(NamedTuple):
    """What a host sends to some addresses, or receives from them."""

    direction: Literal["tx", "rx"]
    addresses: tuple[str, ...]


class Counted(NamedTuple):
    """How many bytes and packets that were."""

    bytes: int
    packets: int


def start(counts: Sequence[Count]) -> str:
    """Script that counts from now on."""
    lines = ["set -eu"]
    for at, item in enumerate(counts):
        for command, address in _rules(item):
            chain, hook = _chain(at), _HOOKS[item.direction]
            lines.append(f"{command} -w -t mangle -N {chain} 2>/dev/null || true")
            rule = [command, "-w", "-t", "mangle", "-A", chain]
            lines.append(shlex.join([*rule, "-d" if item.direction == "tx" else "-s", address]))
            lines.append(
                f"{command} -w -t mangle -C {hook} -j {chain} 2>/dev/null || "
                f"{command} -w -t mangle -I {hook} 1 -j {chain}"
            )
    return "\n".join(lines) + "\n"


def read(counts: Sequence[Count]) -> str:
    """Script that prints, for each count, its number and what its rules have seen."""
    lines = ["set -eu"]
    for at, item in enumerate(counts):
        for command in dict.fromkeys(command for command, _ in _rules(item)):
            told = f"{command} -w -t mangle -nvxL {_chain(at)}"
            lines.append(f"{told} | awk 'NR > 2 {{print {at}, $2, $1}}'")
    return "\n".join(lines) + "\n"


def parse(counts: Sequence[Count], told: str) -> list[Counted | None]:
    """What `read` printed; None for a count that is not whole."""
    seen: list[list[tuple[int, int]]] = [[] for _ in counts]
    for line in told.splitlines():
        words = line.split()
        if len(words) == 3 and all(word.isdecimal() for word in words):
            at, size, packets = map(int, words)
            if at < len(seen):
                seen[at].append((size, packets))
    return [
        Counted(sum(item[0] for item in found), sum(item[1] for item in found))
        if len(found) == len(count.addresses) and found
        else None
        for count, found in zip(counts, seen, strict=True)
    ]


def _chain(at: int) -> str:
    return f"fedtest-pair-{at}"


def _rules(item: Count) -> list[tuple[str, str]]:
    return [(IPTABLES[ip_address(address).version], address) for address in item.addresses]
