"""One thing to do for a fault, and what came of it: what the two sides tell each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from fedtest.scenario.faults import (
    BlockFault,
    FillFault,
    InterfaceFault,
    KillFault,
    LinkFault,
    PauseFault,
    ResolveFault,
    RestartFault,
)

if TYPE_CHECKING:
    from fedtest.engine.base import ProcessKey
    from fedtest.engine.snapshot import Snapshot
    from fedtest.errors import FedtestError
    from fedtest.plan import Plan
    from fedtest.plan_faults import FaultPlan, Turn


@dataclass(frozen=True, slots=True)
class Step:
    """To apply a fault or to heal it, for one of its turns.

    `pids` has the processes concerned, None for one that is not running.
    """

    fault: FaultPlan
    turn: Turn
    action: Literal["apply", "heal"]
    pids: dict[ProcessKey, int | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Done:
    """What came of a step.

    `at`: when it took effect, in seconds of the run. `found`: what was
    measured, in words; `error`: why it failed. `hosts`: those that were
    switched off and on, each as it was last seen before and as it was read back.
    """

    step: Step
    at: float
    found: str = ""
    error: FedtestError | None = None
    hosts: dict[str, tuple[Snapshot, Snapshot]] = field(default_factory=dict)


def within(fault: FaultPlan, turn: Turn, plan: Plan) -> frozenset[str]:
    """The hosts in which something is done for a fault: while one is paused nothing can be."""
    match fault.spec:
        case PauseFault(process=str()) | KillFault() | RestartFault(process=str()):
            return frozenset(turn.hosts)
        case FillFault(host=host) | ResolveFault(host=str(host)):
            return frozenset({host})
        case ResolveFault():
            return frozenset(host.name for host in plan.hosts)
    return frozenset()


def needed(fault: FaultPlan, turn: Turn) -> frozenset[str]:
    """The hosts that a fault is about by name: with one of them off it cannot be applied.

    Cuts and partitions are measured between those that are on; names that lead
    elsewhere on every host do so on these.
    """
    match fault.spec:
        case InterfaceFault(host=host) | BlockFault(host=host) | FillFault(host=host):
            return frozenset({host})
        case ResolveFault(host=str(host)):
            return frozenset({host})
        case LinkFault(sender=sender, receiver=receiver):
            return frozenset(host for host in (sender, receiver) if host is not None)
    return frozenset(turn.hosts)
