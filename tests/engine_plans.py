"""Plans and processes that tests of engines share."""

from __future__ import annotations

import os
import secrets
import threading
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import TYPE_CHECKING

from fedtest.plan import AttachmentPlan, HostPlan, ImagePlan, NetworkPlan, Plan, ProcessPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fedtest.engine.base import ProcessKey

DEADLINE = 60.0


class Listener:
    """A Sink that keeps what it is told, and lets a test wait for it."""

    def __init__(self) -> None:
        self.streams: dict[tuple[ProcessKey, str], bytes] = {}
        self.status: dict[ProcessKey, int] = {}
        self._changed = threading.Condition()

    def output(self, key: ProcessKey, stream: str, data: bytes) -> None:
        with self._changed:
            self.streams[key, stream] = self.streams.get((key, stream), b"") + data
            self._changed.notify_all()

    def exited(self, key: ProcessKey, status: int) -> None:
        with self._changed:
            self.status[key] = status
            self._changed.notify_all()

    def lost(self, key: ProcessKey, error: Exception) -> None:
        raise AssertionError(f"{key} was lost: {error}")

    def text(self, key: ProcessKey, stream: str = "stdout") -> str:
        return self.streams.get((key, stream), b"").decode()

    def wait(self, what: str, condition: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, DEADLINE), f"waited for {what} in vain"

    def wait_exit(self, key: ProcessKey) -> int:
        self.wait(f"the end of {key}", lambda: key in self.status)
        return self.status[key]


def two_networks(names: Mapping[str, tuple[str, str]]) -> Plan:
    """Hosts on `one` and `two`; `names` gives each host's interface on either."""
    # Tests side by side, each in a worker of its own, do not draw the same.
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 8
    octet = 32 * worker + secrets.randbelow(32)
    subnets = [IPv4Network(f"198.19.{octet}.{first}/28") for first in (0, 16)]
    networks = tuple(
        NetworkPlan(name, subnet, subnet[1], internal=True, fixed=False)
        for name, subnet in zip(("one", "two"), subnets, strict=True)
    )
    entries = tuple((str(subnets[0][2 + i]), (name,)) for i, name in enumerate(names))
    hosts = tuple(
        HostPlan(
            name=name,
            image=ImagePlan(),
            attachments=tuple(
                AttachmentPlan(network.name, interface, _address(network.subnet, 2 + i))
                for network, interface in zip(networks, interfaces, strict=True)
            ),
            names=entries,
            data=(),
        )
        for i, (name, interfaces) in enumerate(names.items())
    )
    return Plan("contract", 0, 60.0, networks, hosts, (), ())


def _address(subnet: IPv4Network, index: int) -> IPv4Interface:
    return IPv4Interface(f"{IPv4Address(subnet[index])}/{subnet.prefixlen}")


def shell(script: str, host: str = "a", name: str = "p", **env: str) -> ProcessPlan:
    """A process that runs a shell script."""
    return ProcessPlan(name, host, ("/bin/sh", "-c", script), tuple(env.items()), "1000:1000", None)


HOSTS = {"a": ("eth0", "enps1"), "b": ("mgmt0", "eth0")}
