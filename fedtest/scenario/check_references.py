"""The names that checks refer to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.scenario.checks.files import FilesCheck
from fedtest.scenario.checks.log import LogCheck
from fedtest.scenario.checks.reach import ReachCheck
from fedtest.scenario.checks.time import TimeCheck
from fedtest.scenario.checks.traffic import BytesCheck, PacketsCheck
from fedtest.scenario.declared import attached, known
from fedtest.scenario.moment_references import of_moment, of_process
from fedtest.scenario.problems import Finding, listed, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fedtest.scenario.checks.traffic import TrafficCheck
    from fedtest.scenario.draft import Draft
    from fedtest.scenario.problems import Loc


def findings(draft: Draft) -> Iterator[Finding]:
    """What is wrong with them."""
    ids: set[str] = set()
    for at, check in enumerate(draft.checks):
        if check is None:
            continue
        loc: Loc = ("checks", at)
        if check.id is not None and check.id in ids:
            message = "another check has this id"
            yield Finding((*loc, "id"), message, found=shown(check.id), allowed="unique ids")
        ids.add(check.id or "")
        loc = (*loc, check.kind)
        spec = check.spec
        if isinstance(spec, (BytesCheck, PacketsCheck)):
            yield from _traffic(draft, loc, spec)
        elif isinstance(spec, FilesCheck):
            yield from _group_or_host(draft, loc, spec.group, spec.host)
        elif isinstance(spec, ReachCheck):
            yield from _reach(draft, loc, spec)
        elif isinstance(spec, TimeCheck):
            yield from of_moment(draft, (*loc, "from"), spec.start)
            yield from of_moment(draft, (*loc, "to"), spec.to)
        elif with_process := check.exit or check.log or check.value or check.sockets:
            yield from of_process(draft, loc, with_process.process, with_process.host)
        if isinstance(spec, LogCheck) and spec.since is not None:
            yield from of_moment(draft, (*loc, "since"), spec.since)


def _group_or_host(
    draft: Draft, loc: Loc, group: str | None, host: str | None
) -> Iterator[Finding]:
    """A group or a host."""
    if host is not None:
        yield from known((*loc, "host"), "host", host, draft.hosts)
    if group is not None:
        yield from known((*loc, "group"), "group", group, draft.groups)


def _reach(draft: Draft, loc: Loc, check: ReachCheck) -> Iterator[Finding]:
    yield from known((*loc, "from"), "host", check.start, draft.hosts)
    yield from known((*loc, "to"), "host", check.to, draft.hosts)
    if check.network is not None:
        yield from known((*loc, "network"), "network", check.network, draft.networks)
        yield from attached(draft, (*loc, "to"), check.to, check.network)
        return
    start, to = draft.hosts.get(check.start), draft.hosts.get(check.to)
    if start is not None and to is not None and not start.nics.keys() & to.nics.keys():
        message = f"hosts {check.start} and {check.to} are on no network together"
        allowed = f"with network, one of those of {check.to}: {listed(to.nics)}"
        yield Finding((*loc, "to"), message, found=shown(check.to), allowed=allowed)


def _traffic(draft: Draft, loc: Loc, check: TrafficCheck) -> Iterator[Finding]:
    yield from known((*loc, "network"), "network", check.network, draft.networks)
    if check.peer is not None:
        yield from known((*loc, "peer"), "host", check.peer, draft.hosts)
        yield from attached(draft, (*loc, "peer"), check.peer, check.network)
        if check.peer == check.host:
            message = "a host is no peer of its own"
            yield Finding((*loc, "peer"), message, found=shown(check.peer), allowed="another host")
    if check.host is not None:
        yield from known((*loc, "host"), "host", check.host, draft.hosts)
        yield from attached(draft, (*loc, "host"), check.host, check.network)
    if check.group is not None:
        yield from known((*loc, "group"), "group", check.group, draft.groups)
        group = draft.groups.get(check.group)
        for member in group.members if group else ():
            wrong = list(attached(draft, (*loc, "group"), member, check.network))
            if wrong:  # one is enough: the others are the same mistake
                yield from wrong
                return
