"""Whether a name in the scenario is that of something declared in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.scenario.problems import Finding, listed, shown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from fedtest.scenario.draft import Draft
    from fedtest.scenario.problems import Loc


def known(
    loc: Loc,
    kind: str,
    name: str,
    declared: Collection[str],
    *,
    at_key: bool = False,
    hint: str = "",
) -> Iterator[Finding]:
    if name not in declared:
        message = f"no {kind} is called that"
        yield Finding(loc, message, at_key=at_key, hint=hint, wrong=name, names=declared)


def attached(draft: Draft, loc: Loc, host: str, network: str) -> Iterator[Finding]:
    """The host is on the network, as far as both are known."""
    part = draft.hosts.get(host)
    if part is not None and network in draft.networks and network not in part.nics:
        message = f"host {host} is not on network {network}"
        yield Finding(
            loc,
            message,
            found=shown(host),
            allowed=f"a host on it; this one is on {listed(part.nics)}",
        )
