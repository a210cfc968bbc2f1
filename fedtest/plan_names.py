"""What names lead to, host by host: the whole of each /etc/hosts, and what DNS answers each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from fedtest.scenario.families import resolving
from fedtest.scenario.resolution import FAILURES, MISSING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fedtest.plan_addresses import Segment
    from fedtest.scenario.hosts import Host
    from fedtest.scenario.model import Scenario

DNS_ADDRESS = "127.0.0.53"
"""Where a host with DNS of its own asks."""

Names = tuple[tuple[str, tuple[str, ...]], ...]
"""Lines of an /etc/hosts: address, and the names that lead there."""


@dataclass(frozen=True, slots=True)
class DnsPlan:
    """What DNS answers to one name: addresses, or one of the failures."""

    name: str
    addresses: tuple[str, ...] = ()
    failure: Literal["nxdomain", "servfail", "silent"] | None = None


def resolved(scenario: Scenario, segments: Mapping[str, Segment]) -> dict[str, tuple[str, ...]]:
    """The addresses that each host's name leads to; none where it has none there."""
    return {
        name: tuple(
            str(item.ip) for item in segments[resolving(scenario.resolve, host.nics)].own[name]
        )
        for name, host in scenario.hosts.items()
    }


def usual_names(scenario: Scenario, known: Mapping[str, tuple[str, ...]]) -> Names:
    """What every host's /etc/hosts says, if it asks for nothing else.

    The own name resolves like the others: it, too, may lead to the wrong interface.
    """
    return tuple(
        (address, (name, *host.aliases))
        for name, host in scenario.hosts.items()
        for address in known[name]
    )


def own_names(usual: Names, host: Host, known: Mapping[str, tuple[str, ...]]) -> Names:
    """What this host's says."""
    return overridden(
        usual,
        {
            name: () if value == MISSING else known.get(value, (value,))
            for name, value in host.names.items()
        },
    )


def overridden(names: Names, changes: Mapping[str, tuple[str, ...]]) -> Names:
    """`names` where some lead to other addresses, or to none.

    What is changed comes first, as installers write it: the first line that has
    a name is the one that counts.
    """
    added = [(address, (name,)) for name, to in changes.items() for address in to]
    kept = [(to, tuple(name for name in some if name not in changes)) for to, some in names]
    return (*added, *(line for line in kept if line[1]))


def dns_plans(
    scenario: Scenario, host: Host, known: Mapping[str, tuple[str, ...]]
) -> tuple[DnsPlan, ...]:
    """What DNS answers to this host.

    A name that is missing must be missing there, too: engines have a DNS of their own that knows
    every host.
    """
    unknown = [name for name, value in host.names.items() if value == MISSING]
    for name, part in scenario.hosts.items():
        unknown += (
            []
            if known[name]
            else [item for item in (name, *part.aliases) if item not in host.names]
        )
    answers = {**dict.fromkeys(unknown, "nxdomain"), **scenario.dns, **host.dns}
    return tuple(
        DnsPlan(name, failure=cast('Literal["nxdomain", "servfail", "silent"]', value))
        if value in FAILURES
        else DnsPlan(name, known.get(value, (value,)))
        for name, value in answers.items()
    )
