"""Address ranges of our own for networks whose addresses do not matter.

Docker's default pools end at about 31 networks, and engines give the same ones
to everybody. Here every run draws small prefixes from 198.18.0.0/15, the range
that RFC 2544 keeps for testbeds and that is never routed on the Internet; where
it begins to look follows from the run's id, so that runs side by side rarely
meet, and look again where they do.
"""

from __future__ import annotations

import hashlib
from ipaddress import IPv4Network, collapse_addresses
from typing import TYPE_CHECKING

from fedtest.errors import InvalidError
from fedtest.scenario.addresses import BESIDE_HOSTS

if TYPE_CHECKING:
    from collections.abc import Collection

    from fedtest.scenario.model import Scenario

POOL = IPv4Network("198.18.0.0/15")
_LONGEST_PREFIX = 28


def needed(scenario: Scenario) -> dict[str, int]:
    """The length of the prefix for each network without a fixed subnet."""
    lengths = {}
    for name, network in scenario.networks.items():
        if network.subnet is None:
            hosts = sum(name in host.nics for host in scenario.hosts.values())
            lengths[name] = min(_LONGEST_PREFIX, 32 - (hosts + BESIDE_HOSTS - 1).bit_length())
    return lengths


def choose(scenario: Scenario, key: str, taken: Collection[IPv4Network]) -> dict[str, IPv4Network]:
    """A subnet for each network without a fixed one; the same for the same arguments.

    They overlap neither each other, nor `taken`, nor the scenario's fixed ones.
    When one proves to be somebody else's after all, call again with it added to
    `taken`. Raises InvalidError when the pool has no room.
    """
    fixed = [network.subnet for network in scenario.networks.values() if network.subnet]
    blocked = [*fixed, *taken]
    chosen = {}
    # Large ones first: they are the hardest to fit.
    for name, length in sorted(needed(scenario).items(), key=lambda item: item[1]):
        subnet = _free(f"{key}/{name}", length, blocked)
        if subnet is None:
            raise InvalidError(
                f"no /{length} is free in {POOL} for network {name}: {len(taken)} ranges are taken",
                remedy="Remove networks that nobody uses (fedtest clean), "
                f"or give networks.{name} a subnet of its own.",
            )
        chosen[name] = subnet
        blocked.append(subnet)
    return {name: chosen[name] for name in scenario.networks if name in chosen}


def _free(key: str, length: int, blocked: Collection[IPv4Network]) -> IPv4Network | None:
    """The first prefix at or after where `key` points, around the pool's end, that is free."""
    size = 1 << (32 - length)
    slots = POOL.num_addresses // size
    base = int(POOL.network_address)
    begin = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8]) % slots
    # The slots that are taken, as half-open ranges; disjoint and in order.
    ranges = [
        (
            (int(net.network_address) - base) // size,
            (int(net.broadcast_address) - base) // size + 1,
        )
        for net in collapse_addresses(net for net in blocked if net.overlaps(POOL))
    ]
    for first, last in ((begin, slots), (0, begin)):
        slot = first
        for low, high in ranges:
            if low <= slot < high:
                slot = high
        if slot < last:
            return IPv4Network((base + slot * size, length))
    return None
