"""Interfaces that change under running processes: down, renamed, with another address.

An interface that goes down loses its routes. They are kept beside the host and
put back when it is up again, under the name that it then has.
"""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

from fedtest.links.shell import state_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedtest.plan import AttachmentPlan

Change = tuple["AttachmentPlan", "AttachmentPlan"]
"""What the interface is, and what it is to be."""


def script(changes: Sequence[Change]) -> str:
    """Makes the changes and prints what is there for `differences`."""
    lines = ["set -eu"]
    for at, (before, after) in enumerate(changes):
        lines += _change(f"{state_of('routes')}-{after.network}", before, after)
        lines.append(f'echo "==> {at} <=="; ip -j address show dev {shlex.quote(after.interface)}')
    return "\n".join(lines) + "\n"


def differences(changes: Sequence[Change], told: str) -> list[str]:
    """What is not as asked for, in words; `told` is what `script` printed."""
    parts = told.split("==> ")[1:]
    found = []
    for (_, after), text in zip(changes, parts, strict=False):
        found += _differences(after, text.partition("<==")[2])
    if len(parts) != len(changes):
        found.append("the interfaces could not be read back")
    return found


def _change(kept: str, before: AttachmentPlan, after: AttachmentPlan) -> list[str]:
    old, new = shlex.quote(before.interface), shlex.quote(after.interface)
    lines = []
    if before.up:
        lines.append(f'ip -4 route show dev {old} | grep -v "proto kernel" > "{kept}" || true')
    if before.interface != after.interface:
        # Kernels before 6.2 rename none that is up.
        lines += [
            f"ip link set dev {old} name {new} 2>/dev/null || {{",
            f"  ip link set dev {old} down; ip link set dev {old} name {new}",
            "}",
        ]
    if before.address != after.address:
        lines += [
            f"ip -4 address flush dev {new} scope global",
            f"ip address add {after.address} brd + dev {new}",
        ]
    lines.append(f"ip link set dev {new} {'up' if after.up else 'down'}")
    if after.up:
        lines += [
            f'if [ -f "{kept}" ]; then',
            f'  while read -r route; do ip route replace $route dev {new}; done < "{kept}"',
            "fi",
        ]
    return lines


def _differences(wanted: AttachmentPlan, text: str) -> list[str]:
    where = f"interface {wanted.interface} (network {wanted.network})"
    try:
        there: dict[str, Any] = next(item for item in json.loads(text) if item)
        flags = there["flags"]
        addresses = [
            f"{item['local']}/{item['prefixlen']}"
            for item in there["addr_info"]
            if item["family"] == "inet"
        ]
    except (ValueError, LookupError, TypeError, StopIteration):
        return [f"{where} is not there"]
    found = []
    if ("UP" in flags) != wanted.up:
        found.append(f"{where} is {'down' if wanted.up else 'up'}")
    if wanted.ipv4 and str(wanted.address) not in addresses:
        has = ", ".join(addresses) or "no address"
        found.append(f"{where} should have {wanted.address}, it has {has}")
    return found
