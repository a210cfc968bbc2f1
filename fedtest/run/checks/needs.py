"""What checks need to be looked for while processes run, said before they start."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fedtest.engine.examine import Examination, Target
from fedtest.run.checks.moments import looking_for, states_of
from fedtest.run.checks.reach import target_of
from fedtest.run.checks.traffic import hosts_of
from fedtest.run.faults.occasions import hosts_watched
from fedtest.run.history import History
from fedtest.run.watch import LogWatch, Looking
from fedtest.scenario.checks import BytesCheck, PacketsCheck
from fedtest.scenario.moments import Moment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from fedtest.run.evidence import Evidence
    from fedtest.scenario.checks import Check
    from fedtest.scenario.checks.log import LogCheck
    from fedtest.scenario.model import Scenario


def declare(scenario: Scenario, evidence: Evidence) -> None:
    """Every process gets the watches and histories that a check or another process asks of it."""
    for process in scenario.processes.values():
        for condition in process.conditions:
            declare_moment(condition, evidence)
    for fault in scenario.faults:
        for occasion in (fault.when, fault.until):
            if isinstance(occasion, Moment):
                declare_moment(occasion, evidence)
    for check in scenario.checks:
        for moment in moments(check):
            declare_moment(moment, evidence)
        if check.log:
            for state in evidence.of_process(check.log.process, check.log.host).values():
                for looking in lookings(check.log):
                    state.watches.setdefault(looking, LogWatch(looking))
        if check.value and check.value.monotonic:
            for state in evidence.of_process(check.value.process, check.value.host).values():
                state.histories.setdefault(check.value.name, History())


def declare_moment(moment: Moment, evidence: Evidence) -> None:
    """Whoever a moment is about gets what it takes to know of it."""
    for state in states_of(moment, evidence).values():
        if moment.log is not None:
            looking = looking_for(moment)
            state.watches.setdefault(looking, LogWatch(looking))
        if moment.value is not None and moment.is_ is not None:
            state.reached.setdefault((moment.value, moment.is_), History())
        elif moment.value is not None:
            state.histories.setdefault(moment.value, History())


def moments(check: Check) -> Iterator[Moment]:
    """The moments of processes that a check speaks of."""
    for name in type(check.spec).model_fields:
        value = getattr(check.spec, name)
        if isinstance(value, Moment):
            yield value


def lookings(check: LogCheck) -> list[Looking]:
    """What a check of logs looks for, in its order."""
    if check.absent is not None:
        return [Looking(check.absent, literal=True, stream=check.stream)]
    if check.match is not None:
        return [Looking(check.match, stream=check.stream, where=tuple(check.where.items()))]
    return [Looking(text, stream=check.stream) for text in check.order or ()]


@dataclass(frozen=True, slots=True)
class Looks:
    """What is looked at again and again while processes run.

    `closely`: somebody waits for something to happen, or to stop.
    """

    hosts: tuple[str, ...] = ()
    beside: Mapping[str, Examination] = field(default_factory=dict)
    closely: bool = False


def looks(scenario: Scenario, evidence: Evidence) -> Looks:
    """The hosts to look at: for sockets, checks that are repeated, and who waits for a port."""
    hosts: list[str] = []
    repeated = [check for check in scenario.checks if check.repeated]
    for check in scenario.checks:
        if check.sockets:
            hosts += evidence.of_process(check.sockets.process, check.sockets.host)
    for check in repeated:
        if isinstance(check.spec, (BytesCheck, PacketsCheck)):
            hosts += hosts_of(check.spec, evidence)
    awaited = [
        condition.host
        for process in scenario.processes.values()
        for condition in process.conditions
        if condition.port is not None and condition.host is not None
    ]
    awaited += hosts_watched(evidence.plan.faults)
    return Looks(
        tuple(dict.fromkeys([*hosts, *awaited])),
        examinations(repeated, evidence),
        bool(repeated or awaited),
    )


def examinations(checks: Iterable[Check], evidence: Evidence) -> dict[str, Examination]:
    """What has to be looked at from beside hosts, by host."""
    files: dict[str, list[str]] = {}
    reach: dict[str, list[Target]] = {}
    for check in checks:
        if check.files:
            for host in hosts_of(check.files, evidence):
                files.setdefault(host, []).append(check.files.path)
        if check.reach:
            target = target_of(check.reach, evidence.plan)
            reach.setdefault(check.reach.start, []).append(target)
    return {
        host: Examination(
            files=tuple(dict.fromkeys(files.get(host, ()))),
            reach=tuple(dict.fromkeys(reach.get(host, ()))),
        )
        for host in dict.fromkeys([*files, *reach])
    }
