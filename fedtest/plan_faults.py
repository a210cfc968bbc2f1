"""The timeline of faults: everything that is drawn, drawn from the scenario's seed.

Each fault draws from a source of its own, named after it, so that one more
fault in the file leaves the others as they were.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedtest.scenario.faults import AnyOf, KillFault, PauseFault, RestartFault, StopFault

if TYPE_CHECKING:
    from fedtest.scenario.base import Part
    from fedtest.scenario.faults import Fault
    from fedtest.scenario.faults.triggers import Occasion
    from fedtest.scenario.model import Scenario
    from fedtest.scenario.moments import FaultMoment


@dataclass(frozen=True, slots=True)
class Turn:
    """One time that a fault comes. `hosts`: whose processes, or which hosts, as was drawn.

    `after` seconds from the fault's moment for the first, from when the one
    before was applied for the others; `lasts` seconds, or None.
    """

    after: float
    lasts: float | None
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """A fault made concrete. `when` None: the start of the processes."""

    id: str
    kind: str
    spec: Part
    when: Occasion | FaultMoment | None
    until: Occasion | FaultMoment | None
    turns: tuple[Turn, ...]


def fault_plans(scenario: Scenario) -> tuple[FaultPlan, ...]:
    """The scenario's faults, in its order."""
    return tuple(
        FaultPlan(
            id=fault.id or f"{fault.kind}-{number}",
            kind=fault.kind,
            spec=fault.spec,
            when=fault.when,
            until=fault.until,
            turns=_turns(scenario, fault, f"{scenario.seed}/{fault.id or number}"),
        )
        for number, fault in enumerate(scenario.faults, start=1)
    )


def _turns(scenario: Scenario, fault: Fault, name: str) -> tuple[Turn, ...]:
    # Not for secrets: whoever has the seed is to get the same.
    source = random.Random(name)  # noqa: S311
    found = []
    for number in range(fault.repeat.times if fault.repeat else 1):
        span = fault.repeat.every if fault.repeat and number else fault.at
        after = span.drawn(source) if span is not None else 0.0
        lasts = fault.lasts.drawn(source) if fault.lasts is not None else None
        found.append(Turn(after, lasts, _hosts(scenario, fault.spec, source)))
    return tuple(found)


def _hosts(scenario: Scenario, spec: Part, source: random.Random) -> tuple[str, ...]:
    """The hosts of a fault of processes or hosts; none for the other kinds."""
    if not isinstance(spec, (KillFault, PauseFault, RestartFault, StopFault)):
        return ()
    chosen = spec.host
    if isinstance(chosen, AnyOf):
        some = scenario.groups[chosen.any].members if isinstance(chosen.any, str) else chosen.any
        return (source.choice(some),)
    if chosen is not None:
        return (chosen,)
    process = None if isinstance(spec, StopFault) else spec.process
    return scenario.hosts_of(process) if process is not None else ()
