"""How long until 8 hosts on 2 named networks are there, and until they are gone.

fedtest's Docker engine, Docker Compose and bare docker-py calls from threads
make the same topology from the same image on the same engine, in turns. Ready
means: every container runs, every interface has its name and address. Only
fedtest also reads the interfaces back and compares them with the plan.

    python benchmarks/bringup.py --compose docker-compose

needs an engine of API 1.48 or later (28.0) at DOCKER_HOST, and Compose 2.36 or
later (`interface_name`): `docker compose` or the binary `docker-compose`.
"""

from __future__ import annotations

import argparse
import json
import secrets
import shlex
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import IPv4Interface, IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING

from docker.types import IPAMConfig, IPAMPool
from report import median, report

from fedtest.engine.base import RunTag
from fedtest.engine.docker.client import DockerClient
from fedtest.engine.docker.engine import DockerEngine
from fedtest.engine.docker.hosts import API_NAMES
from fedtest.engine.owner import Owner
from fedtest.plan import AttachmentPlan, HostPlan, ImagePlan, NetworkPlan, Plan
from fedtest.run.readback import compare

if TYPE_CHECKING:
    from collections.abc import Callable

HOSTS = 8
NETWORKS = {"mgmt": "mgmt0", "data": "enps1"}
GOALS = {"up": {"compose": 0.7, "bare": 1.15}, "down": {"compose": 0.85, "bare": 1.15}}
DEADLINE = 120.0


def subnets(round_number: int) -> dict[str, IPv4Network]:
    """Each round and each peer the same sizes; never a subnet that is just being removed."""
    return {
        name: IPv4Network(f"198.19.{200 + round_number % 50}.{offset}/28")
        for name, offset in zip(NETWORKS, (0, 16), strict=True)
    }


class Fedtest:
    """Realise and destroy, as a run does, with the comparison of what is there."""

    def __init__(self) -> None:
        self.engine = DockerEngine()
        self.tag = RunTag(secrets.token_hex(4), "bringup", Owner.me())

    def plan(self, round_number: int) -> Plan:
        nets = subnets(round_number)
        networks = tuple(
            NetworkPlan(name, subnet, subnet[1], internal=True, fixed=False)
            for name, subnet in nets.items()
        )
        hosts = tuple(
            HostPlan(
                f"host{i}",
                ImagePlan(),
                tuple(
                    AttachmentPlan(name, NETWORKS[name], IPv4Interface(f"{subnet[2 + i]}/28"))
                    for name, subnet in nets.items()
                ),
                (),
                (),
            )
            for i in range(HOSTS)
        )
        return Plan("bringup", 0, 60.0, networks, hosts, (), ())

    def up(self, round_number: int) -> None:
        plan = self.plan(round_number)
        prepared = self.engine.prepare(plan, self.tag, lambda _: None)
        compare(plan, self.engine.realise(plan, self.tag, prepared, print, DEADLINE))

    def down(self) -> None:
        self.engine.destroy(self.tag.id, DEADLINE)


class Compose:
    """`up -d` and `down -t 0` of the same topology as a Compose file."""

    def __init__(self, command: list[str], image: str, directory: Path) -> None:
        self.command = command
        self.image = image
        self.file = directory / "compose.yaml"
        self.project = f"bringup{secrets.token_hex(4)}"

    def up(self, round_number: int) -> None:
        nets = subnets(round_number)
        service = {
            "image": self.image,
            "init": True,
            "entrypoint": ["sleep", "2147483647"],
        }
        content = {
            "services": {
                f"host{i}": {
                    **service,
                    "networks": {
                        name: {"interface_name": NETWORKS[name], "ipv4_address": str(subnet[2 + i])}
                        for name, subnet in nets.items()
                    },
                }
                for i in range(HOSTS)
            },
            "networks": {
                name: {"internal": True, "ipam": {"config": [{"subnet": str(subnet)}]}}
                for name, subnet in nets.items()
            },
        }
        self.file.write_text(json.dumps(content), encoding="utf-8")
        self._call("up", "-d")

    def down(self) -> None:
        self._call("down", "-t", "0")

    def _call(self, *words: str) -> None:
        command = [*self.command, "-p", self.project, "-f", str(self.file), *words]
        result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if result.returncode:
            sys.exit(f"{shlex.join(command)}: {result.stderr}")


class Bare:
    """The fewest docker-py calls that make the same: create and start, from threads."""

    def __init__(self, image: str) -> None:
        self.client = DockerClient()
        self.image = image
        self.prefix = f"bare-{secrets.token_hex(4)}"
        self.pool = ThreadPoolExecutor(8)

    def up(self, round_number: int) -> None:
        nets = subnets(round_number)
        for name, subnet in nets.items():
            self.client.api.create_network(
                f"{self.prefix}-{name}",
                internal=True,
                ipam=IPAMConfig(pool_configs=[IPAMPool(subnet=str(subnet))]),
            )
        list(self.pool.map(lambda i: self._host(i, nets), range(HOSTS)))

    def _host(self, i: int, nets: dict[str, IPv4Network]) -> None:
        api = self.client.api
        endpoints = {
            f"{self.prefix}-{name}": api.create_endpoint_config(
                ipv4_address=str(subnet[2 + i]),
                driver_opt={"com.docker.network.endpoint.ifname": NETWORKS[name]},
            )
            for name, subnet in nets.items()
        }
        api.create_container(
            self.image,
            name=f"{self.prefix}-{i}",
            entrypoint=["sleep", "2147483647"],
            networking_config=api.create_networking_config(endpoints),
            host_config=api.create_host_config(network_mode=next(iter(endpoints)), init=True),
        )
        api.start(f"{self.prefix}-{i}")

    def down(self) -> None:
        def remove(i: int) -> None:
            self.client.api.remove_container(f"{self.prefix}-{i}", force=True)

        list(self.pool.map(remove, range(HOSTS)))
        for name in NETWORKS:
            self.client.api.remove_network(f"{self.prefix}-{name}")


def timed(function: Callable[[], None]) -> float:
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--compose", default="docker compose", help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()

    fedtest = Fedtest()
    info = fedtest.engine.info()
    bare = Bare("")
    if bare.client.api_version < API_NAMES:
        sys.exit(
            f"engine {info.version} cannot name interfaces; this benchmark needs 28.0 or later"
        )
    first = fedtest.plan(0)
    image = fedtest.engine.prepare(first, fedtest.tag, print).images[ImagePlan()]
    bare.image = image
    with tempfile.TemporaryDirectory() as directory:
        compose = Compose(shlex.split(arguments.compose), image, Path(directory))
        peers = {"fedtest": fedtest, "compose": compose, "bare": bare}
        times: dict[str, dict[str, list[float]]] = {
            "up": {peer: [] for peer in peers},
            "down": {peer: [] for peer in peers},
        }
        # The first round warms every peer's caches and does not count.
        for round_number in range(arguments.rounds + 1):
            for name, peer in peers.items():
                try:
                    up = timed(partial(peer.up, round_number))
                finally:
                    down = timed(peer.down)
                if round_number:
                    times["up"][name].append(up)
                    times["down"][name].append(down)
    fedtest.engine.close()
    bare.client.close()

    medians = {
        way: {peer: median(found) for peer, found in by.items()} for way, by in times.items()
    }
    rows = []
    met = True
    for way, by in medians.items():
        for peer, seconds in by.items():
            ratio = by["fedtest"] / seconds
            goal = GOALS[way].get(peer)
            met &= goal is None or ratio <= goal
            spread = f"{min(times[way][peer]):.2f} to {max(times[way][peer]):.2f}"
            text = "" if goal is None else f"{ratio:.2f} (goal {goal})"
            rows.append([way, peer, f"{seconds:.3f}", spread, text])
    report(
        "bringup",
        ["", "peer", "median s", "range", "fedtest / peer"],
        rows,
        {"engine": f"{info.kind} {info.version}", "times": times, "medians": medians, "met": met},
    )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
