"""Everything that faults need, put together for a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.links.mechanism import refuse_impossible
from fedtest.run.conditions import ask_mechanism
from fedtest.run.faults.actions import Actions
from fedtest.run.faults.desired import desired
from fedtest.run.faults.driver import FaultDriver
from fedtest.run.faults.hands import Hands
from fedtest.run.faults.world import DEADLINE, World
from fedtest.scenario.faults import (
    BlockFault,
    CutFault,
    InterfaceFault,
    LinkFault,
    PartitionFault,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from fedtest.engine.base import Engine, Prepared, ProcessKey, RunTag
    from fedtest.links.mechanism import Mechanism
    from fedtest.plan import Plan
    from fedtest.run.bring_up import BringUp
    from fedtest.run.events import EventLog, Inbox
    from fedtest.run.evidence import Evidence

_NETWORK = (PartitionFault, CutFault, LinkFault, InterfaceFault)


def refuse_impossible_faults(plan: Plan, chosen: Mechanism) -> None:
    """InvalidError if some fault asks of links what cannot be made here."""
    for fault in plan.faults:
        if isinstance(fault.spec, LinkFault):
            refuse_impossible(desired(plan, [fault.spec]), chosen)


def provide_faults(  # noqa: PLR0917 - it is called in one place
    engine: Engine,
    run: RunTag,
    evidence: Evidence,
    prepared: Prepared,
    bring_up: BringUp,
    netem: bool | None,
    inbox: Inbox,
    events: EventLog,
    start_again: Callable[[ProcessKey], None],
    tell: Callable[[str], None],
    clock: Callable[[], float],
) -> FaultDriver:
    """The driver of the plan's faults; what changing networks needs is there when it returns."""
    plan = evidence.plan
    if hosts := _touched(plan):
        engine.condition(run, dict.fromkeys(hosts, "true"), DEADLINE)
    chosen = bring_up.links
    if any(isinstance(fault.spec, LinkFault) for fault in plan.faults):
        chosen = chosen or ask_mechanism(engine, run, plan, netem)
        refuse_impossible_faults(plan, chosen)
    world = World(engine, run, evidence, prepared, bring_up, chosen)
    hands = Hands(Actions(world, clock), inbox.put)
    return FaultDriver(evidence, hands, events, start_again, tell, clock)


def _touched(plan: Plan) -> list[str]:
    """The hosts whose networks faults change, or which are used to measure it."""
    found: dict[str, None] = {}
    for fault in plan.faults:
        spec = fault.spec
        networks: set[str] = set()
        if isinstance(spec, BlockFault):
            networks = {item.network for item in plan.host(spec.host).attachments}
        elif isinstance(spec, _NETWORK):
            networks = {spec.network}
        for host in plan.hosts:
            if any(item.network in networks for item in host.attachments):
                found[host.name] = None
    return list(found)
