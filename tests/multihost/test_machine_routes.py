"""A machine whose own networks are those that a scenario asks for, and one with a VPN."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fedtest.errors import ExitCode

if TYPE_CHECKING:
    from conftest import CommandLine, Outcome

SCENARIO = """
fedtest: 1
name: routed-machine
networks: {lan: {subnet: 192.168.77.0/24MORE}}
hosts:
  a: {nics: {lan: {name: eth0, ip: 192.168.77.1}}}
  b: {nics: {lan: {name: eth0, ip: 192.168.77.2}}}
processes:
  serve: {hosts: [a], run: "exec python3 -m http.server 8000", service: true}
  ask:
    hosts: [b]
    deadline: 20s
    run: |
      until python3 -c "import socket; socket.create_connection(('a', 8000), 2)"; do sleep 0.1; done
checks: [exit: {process: ask}]
"""
VPN = (
    "ip address add 10.8.0.2/24 dev v0",
    "ip route add 0.0.0.0/1 via 10.8.0.1",
    "ip route add 128.0.0.0/1 via 10.8.0.1",
)
HOME = ("ip address add 192.168.77.50/24 dev v0",)


def on_machine(fedtest: CommandLine, commands: tuple[str, ...], more: str = "") -> Outcome:
    """A run in a network namespace of its own, in place of a machine."""
    path = fedtest.scenario("routed", SCENARIO.replace("MORE", more))
    lines = ["set -e", "ip link set lo up", "ip link add v0 type veth peer name v1",
             "ip link set v0 up", "ip link set v1 up", *commands]  # fmt: skip
    script = "\n".join([*lines, 'exec "$@"'])
    return fedtest.end(
        fedtest.start("run", path, before=("unshare", "-n", "sh", "-c", script, "sh"))
    )


@pytest.mark.parametrize("commands", [VPN, HOME], ids=["vpn", "home"])
def test_where_a_network_has_no_way_out_the_machines_routes_are_no_reason(
    fedtest: CommandLine, commands: tuple[str, ...]
) -> None:
    found = on_machine(fedtest, commands)
    assert found.code == ExitCode.PASSED, found.out + found.err


@pytest.mark.docker
def test_with_a_way_out_the_machines_own_network_is_refused(fedtest: CommandLine) -> None:
    found = on_machine(fedtest, HOME, ", internal: false")
    assert found.code == ExitCode.INVALID
    assert "overlaps this machine's route 192.168.77.0/24 dev v0" in found.out
    assert "internal: false" in found.out


@pytest.mark.docker
def test_with_a_way_out_a_vpn_is_no_reason(fedtest: CommandLine) -> None:
    found = on_machine(fedtest, VPN, ", internal: false")
    assert found.code == ExitCode.PASSED, found.out + found.err
