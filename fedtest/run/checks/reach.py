"""`reach`: a connection that was tried from beside a host, in its network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.engine.examine import CONNECTED, Target
from fedtest.run.checks.finding import Finding

if TYPE_CHECKING:
    from fedtest.plan import Plan
    from fedtest.run.evidence import Evidence
    from fedtest.scenario.checks.reach import ReachCheck


def check_reach(check: ReachCheck, evidence: Evidence) -> Finding:
    """Passes when a connection came to be, or none did, as is expected."""
    target = target_of(check, evidence.plan)
    outcome = evidence.examined[check.start].reach[target]
    verb = "reaches" if check.reachable else "does not reach"
    return Finding(
        passed=(outcome == CONNECTED) == check.reachable,
        expected=f"{check.start} {verb} {check.to} at {target.address}, port {check.port}",
        found=outcome,
    )


def target_of(check: ReachCheck, plan: Plan) -> Target:
    """The address to connect to."""
    network = check.network or _shared(check, plan)
    address = next(
        str(item.ip) for item in plan.host(check.to).attachments if item.network == network
    )
    return Target(address, check.port, check.timeout)


def _shared(check: ReachCheck, plan: Plan) -> str:
    """The network where the other's name resolves, or else the first that both are on."""
    own = [item.network for item in plan.host(check.start).attachments]
    others = {
        str(address.ip): item.network
        for item in plan.host(check.to).attachments
        for address in item.addresses
    }
    resolved = [
        others[address]
        for address, names in plan.host(check.start).names
        if check.to in names and others.get(address) in own
    ]
    return next(iter(resolved), None) or next(name for name in own if name in others.values())
