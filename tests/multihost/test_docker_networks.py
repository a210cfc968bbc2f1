"""Subnets on a shared engine: who gets them, who waits, and who is told why not."""

from __future__ import annotations

import dataclasses
import secrets
import threading
from typing import TYPE_CHECKING

import pytest
from docker.types import IPAMConfig, IPAMPool

from engine_contract import HOSTS, two_networks
from fedtest.engine.base import RunTag
from fedtest.engine.docker import labels
from fedtest.engine.docker.networks import make_networks
from fedtest.engine.owner import Owner
from fedtest.errors import DeadlineError, EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from ipaddress import IPv4Network

    from fedtest.engine.docker.client import DockerClient
    from fedtest.engine.docker.engine import DockerEngine
    from fedtest.engine.parallel import Workers
    from fedtest.plan import Plan

pytestmark = pytest.mark.docker


def fixed(plan: Plan) -> Plan:
    """The same plan, as if its scenario had asked for these very subnets."""
    networks = tuple(dataclasses.replace(network, fixed=True) for network in plan.networks)
    return dataclasses.replace(plan, networks=networks)


@pytest.fixture
def other(engine: DockerEngine) -> Iterator[RunTag]:
    tag = RunTag(secrets.token_hex(4), "other", Owner.me())
    yield tag
    engine.destroy(tag.id, 60)


def test_a_fixed_subnet_is_waited_for_until_its_run_gives_it_back(
    client: DockerClient, workers: Workers, engine: DockerEngine, run: RunTag, other: RunTag
) -> None:
    plan = fixed(two_networks(HOSTS))
    make_networks(client, workers, plan, run, progress=print, deadline=60)
    done = threading.Event()

    def queue() -> None:
        make_networks(client, workers, plan, other, progress=print, deadline=60)
        done.set()

    waiter = threading.Thread(target=queue)
    waiter.start()
    assert not done.wait(1)  # The first run still has it.
    engine.destroy(run.id, 60)
    assert done.wait(60)
    waiter.join()


def test_waiting_for_a_subnet_ends_at_its_deadline_and_names_the_holder(
    client: DockerClient, workers: Workers, run: RunTag, other: RunTag
) -> None:
    plan = fixed(two_networks(HOSTS))
    make_networks(client, workers, plan, run, progress=print, deadline=60)
    with pytest.raises(DeadlineError, match=f"is held by run {run.id} of scenario test"):
        make_networks(client, workers, plan, other, progress=print, deadline=0.5)


def test_a_subnet_of_somebody_elses_network_is_refused_and_named(
    client: DockerClient, workers: Workers, run: RunTag
) -> None:
    plan = fixed(two_networks(HOSTS))
    taken = plan.networks[0].subnet
    name = f"foreign-{run.id}"
    client.api.create_network(
        name,
        ipam=IPAMConfig(pool_configs=[IPAMPool(subnet=str(taken))]),
        labels={labels.HELPER: "test"},
    )
    try:
        with pytest.raises(EngineError, match=f"overlaps the engine's network '{name}'"):
            make_networks(client, workers, plan, run, progress=print, deadline=60)
    finally:
        client.api.remove_network(name)


def test_a_subnet_that_this_machine_routes_is_refused(
    client: DockerClient, workers: Workers, run: RunTag
) -> None:
    plan = fixed(two_networks(HOSTS))
    # Any connected route that is not the engine's: the one this test reaches the world by.
    route = _own_route()
    network = dataclasses.replace(plan.networks[0], subnet=route, gateway=route[1])
    with pytest.raises(EngineError, match="overlaps this machine's route"):
        make_networks(
            client,
            workers,
            dataclasses.replace(plan, networks=(network,)),
            run,
            progress=print,
            deadline=60,
        )


def _own_route() -> IPv4Network:
    from pathlib import Path

    from fedtest.engine.routes import routes

    found = [
        route.destination
        for route in routes(Path("/proc/net/route").read_text(encoding="ascii"))
        if not route.interface.startswith(("br-", "docker", "veth"))
    ]
    if not found:
        pytest.skip("this machine has no route of its own")
    return found[0]


def test_networks_are_internal_unless_asked_otherwise(
    client: DockerClient, workers: Workers, run: RunTag
) -> None:
    make_networks(client, workers, two_networks(HOSTS), run, progress=print, deadline=60)
    found = client.api.networks(filters={"label": f"{labels.RUN}={run.id}"})
    assert [network["Internal"] for network in found] == [True, True]
