"""The names that moments refer to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.scenario.declared import known
from fedtest.scenario.moments import FaultMoment
from fedtest.scenario.problems import Finding, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fedtest.scenario.draft import Draft
    from fedtest.scenario.moments import Moment
    from fedtest.scenario.problems import Loc


def of_moment(draft: Draft, loc: Loc, moment: Moment | FaultMoment) -> Iterator[Finding]:
    """What is wrong with a moment's names."""
    if isinstance(moment, FaultMoment):
        yield from known(loc, "fault", moment.fault, draft.fault_ids)
    elif moment.process is not None:
        yield from of_process(draft, loc, moment.process, moment.host)
    else:
        yield from _somebody_on(draft, loc, moment.host or "")


def of_process(draft: Draft, loc: Loc, process: str, host: str | None) -> Iterator[Finding]:
    """A process, and maybe one host it runs on."""
    yield from known((*loc, "process"), "process", process, draft.processes)
    if host is None:
        return
    yield from known((*loc, "host"), "host", host, draft.hosts)
    hosts = draft.hosts_of(process)
    if hosts is not None and host in draft.hosts and host not in hosts:
        message = f"process {process} does not run on this host"
        yield Finding((*loc, "host"), message, wrong=host, names=hosts)


def _somebody_on(draft: Draft, loc: Loc, host: str) -> Iterator[Finding]:
    yield from known((*loc, "host"), "host", host, draft.hosts)
    runs = [draft.hosts_of(name) for name in draft.processes]
    if host in draft.hosts and all(hosts is not None and host not in hosts for hosts in runs):
        message = "no process runs on this host"
        yield Finding((*loc, "host"), message, found=shown(host), allowed="a host with a process")
