"""`sockets`: where a process listened while it ran, and between which addresses it spoke."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

from fedtest.run.checks.finding import Finding, by_host
from fedtest.scenario.template import expand_check

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

    from fedtest.engine.snapshot import TcpSocket
    from fedtest.run.evidence import Evidence
    from fedtest.scenario.checks.sockets import SocketsCheck
    from fedtest.scenario.model import Scenario


def check_sockets(check: SocketsCheck, scenario: Scenario, evidence: Evidence) -> Finding:
    """Passes when each instance was seen with sockets and each statement holds for them.

    Loopback sockets and those with the ignored port at either end do not count,
    but for where it listens.
    """
    seen: dict[str, str] = {}
    details: list[str] = []
    passed = True
    states = evidence.of_process(check.process, check.host)
    for host, state in states.items():
        counted = [item for item in state.sockets if _counts(item, check.ignore_port)]
        statements = []
        wrong: list[str] = []
        if check.local is not None:
            wanted = _address(expand_check(scenario, evidence.plan, check.local, host))
            statements.append(_addresses([item.local for item in counted]))
            wrong += [
                f"{_line(item)}, expected {wanted}" for item in counted if str(item.local) != wanted
            ]
        if check.remote is not None:
            connections = [item for item in counted if item.state != "listen"]
            statements.append(f"to {_addresses([item.remote for item in connections])}")
            passed &= bool(connections)
            wrong += _astray(check.remote, connections, scenario, evidence, host)
        if check.local is not None or check.remote is not None:
            passed &= bool(counted)
        if check.listen is not None:
            listening = [item for item in state.sockets if item.state == "listen"]
            at = ", ".join(sorted(_place(item.local, item.local_port) for item in listening))
            statements.append(f"listens at {at}" if at else "was not seen to listen")
            local = check.listen.local and _address(
                expand_check(scenario, evidence.plan, check.listen.local, host)
            )
            passed &= any(
                item.local_port == check.listen.port and _same(local, item) for item in listening
            )
        passed &= not wrong
        seen[host] = "; ".join(statements)
        details += [f"{host}: {line}" for line in sorted(wrong)]
    return Finding(
        passed=passed and bool(seen),
        expected=_expected(check),
        found=by_host(seen),
        details=details,
        unknown=not all(state.sockets for state in states.values()),
    )


def _expected(check: SocketsCheck) -> str:
    parts = []
    if check.local is not None:
        parts.append(f"every socket of {check.process} has local address {check.local}")
    if check.remote is not None:
        parts.append(f"every connection of {check.process} leads to {check.remote}")
    if check.listen is not None:
        where = f"{check.listen.local or 'any address'}, port {check.listen.port}"
        parts.append(f"{check.process} listens at {where}")
    return "; ".join(parts)


def _astray(
    remote: str, connections: list[TcpSocket], scenario: Scenario, evidence: Evidence, host: str
) -> list[str]:
    """Connections that lead to where they should not."""
    networks = {network.name: network.subnets for network in evidence.plan.networks}
    if remote in networks:
        subnets = networks[remote]
        return [
            f"{_line(item)}, expected one on {remote} ({' or '.join(map(str, subnets))})"
            for item in connections
            if not any(item.remote in subnet for subnet in subnets)
        ]
    wanted = _address(expand_check(scenario, evidence.plan, remote, host))
    return [
        f"{_line(item)}, expected to {wanted}" for item in connections if str(item.remote) != wanted
    ]


def _addresses(items: list[object]) -> str:
    return " and ".join(sorted({str(item) for item in items})) or "no socket seen"


def _address(text: str) -> str:
    """As the kernel's are written here: of IPv6 there are many spellings."""
    return str(ip_address(text))


def _same(wanted: str | None, item: TcpSocket) -> bool:
    """Whether it listens there; every address may be that of IPv4 or that of both."""
    if wanted is None or str(item.local) == wanted:
        return True
    return item.local.is_unspecified and ip_address(wanted).is_unspecified


def _counts(item: TcpSocket, ignored: int | None) -> bool:
    if item.local.is_loopback:
        return False
    return ignored not in {item.local_port, item.remote_port}


def _line(item: TcpSocket) -> str:
    local, remote = _place(item.local, item.local_port), _place(item.remote, item.remote_port)
    return f"{local} - {remote} {item.state}"


def _place(address: IPv4Address | IPv6Address, port: int) -> str:
    return f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"
