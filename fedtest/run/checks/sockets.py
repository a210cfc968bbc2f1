"""`sockets`: which local address the TCP sockets of a process had while it ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.run.checks.finding import Finding, by_host
from fedtest.scenario.template import expand_check

if TYPE_CHECKING:
    from fedtest.engine.snapshot import TcpSocket
    from fedtest.run.evidence import Evidence
    from fedtest.scenario.model import Scenario, SocketsCheck


def check_sockets(check: SocketsCheck, scenario: Scenario, evidence: Evidence) -> Finding:
    """Passes when each instance was seen with sockets and all have the address.

    Loopback sockets and those with the ignored port at either end do not count.
    """
    seen: dict[str, str] = {}
    details = []
    passed = True
    for host, state in evidence.of_process(check.process, check.host).items():
        wanted = expand_check(scenario, evidence.plan, check.local, host)
        counted = [item for item in state.sockets if _counts(item, check.ignore_port)]
        wrong = [item for item in counted if str(item.local) != wanted]
        passed &= bool(counted) and not wrong
        addresses = sorted({str(item.local) for item in counted})
        seen[host] = " and ".join(addresses) or "no socket seen"
        details += [f"{host}: {_line(item)}, expected {wanted}" for item in wrong]
    return Finding(
        passed=passed and bool(seen),
        expected=f"every socket of {check.process} has local address {check.local}",
        found=by_host(seen),
        details=details,
    )


def _counts(item: TcpSocket, ignored: int | None) -> bool:
    if item.local.is_loopback:
        return False
    return ignored not in {item.local_port, item.remote_port}


def _line(item: TcpSocket) -> str:
    return f"{item.local}:{item.local_port} - {item.remote}:{item.remote_port} {item.state}"
