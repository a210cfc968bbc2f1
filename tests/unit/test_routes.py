"""What the machine routes, and which of it a subnet would collide with."""

from __future__ import annotations

import os
import platform
import socket
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, cast

import pytest

from fedtest.engine.docker import machine_routes as module
from fedtest.engine.docker.endpoint import Endpoint
from fedtest.engine.docker.machine_routes import machine_routes
from fedtest.engine.routes import Route, collision, routes

if TYPE_CHECKING:
    from pathlib import Path

    from fedtest.engine.docker.client import DockerClient

HEAD = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
DEFAULT = "eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\n"
HALF = "tun0\t00000080\t00000000\t0001\t0\t0\t0\t00000080\n"
HOME = "eth0\t0000A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\n"


def test_routes_are_read_as_the_kernel_prints_them() -> None:
    assert routes(HEAD + DEFAULT + HALF + HOME) == [
        Route("tun0", IPv4Network("128.0.0.0/1"), connected=True),
        Route("eth0", IPv4Network("192.168.0.0/24"), connected=True),
    ]


@pytest.mark.parametrize(
    ("destination", "collides"),
    [
        ("192.168.77.0/24", True),  # the same
        ("192.168.77.128/25", True),  # wins from the network
        ("192.168.77.5/32", True),
        ("192.168.0.0/16", True),  # loses what is in the network
        ("192.0.0.0/8", True),
        ("192.168.78.0/24", False),
        ("128.0.0.0/1", False),  # a default route in two pieces
        ("192.0.0.0/2", False),
        ("192.0.0.0/7", False),
    ],
)
def test_a_subnet_collides_with_a_route_to_a_place(destination: str, *, collides: bool) -> None:
    route = Route("eth7", IPv4Network(destination), connected=False)
    found = collision(IPv4Network("192.168.77.0/24"), [route])
    assert found == (route if collides else None)


class Client:
    def __init__(self, path: Path, kernel: str = platform.release()) -> None:
        self.endpoint = Endpoint(f"unix://{path}")
        self.version = {"KernelVersion": kernel}


def seen(client: Client) -> list[str]:
    return [str(route.destination) for route in machine_routes(cast("DockerClient", client))]


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Routes of ours, and of the process that listens at `engine`, which is this very one."""
    for process, table in (("self", HEAD + HOME), (str(os.getpid()), HEAD + HOME + HALF)):
        directory = tmp_path / process / "net"
        directory.mkdir(parents=True)
        (directory / "route").write_text(table, encoding="ascii")
    monkeypatch.setattr(module, "_PROC", tmp_path)
    return tmp_path


def test_the_machine_has_our_routes_and_those_of_the_engines_process(proc: Path) -> None:
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(str(proc / "engine"))
        engine.listen()
        assert seen(Client(proc / "engine")) == ["192.168.0.0/24", "128.0.0.0/1"]
    assert seen(Client(proc / "nobody")) == ["192.168.0.0/24"]


def test_the_routes_of_another_machine_cannot_be_seen(proc: Path) -> None:
    assert seen(Client(proc / "nobody", kernel="6.6.87-linuxkit")) == []
    elsewhere = Client(proc)
    elsewhere.endpoint = Endpoint("tcp://far:2375")
    assert seen(elsewhere) == []
