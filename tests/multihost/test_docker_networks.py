"""Subnets on a shared engine: who gets them, who waits, and who is told why not."""

from __future__ import annotations

import dataclasses
import re
import secrets
import threading
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from docker.types import IPAMConfig, IPAMPool

from engine_contract import HOSTS, two_networks
from fedtest.engine.base import RunTag
from fedtest.engine.docker import labels
from fedtest.engine.docker.machine_routes import listener
from fedtest.engine.docker.networks import make_networks
from fedtest.engine.owner import Owner
from fedtest.engine.routes import routes
from fedtest.errors import DeadlineError, EngineError, SubnetTaken

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def alone(subnet: IPv4Network, **changed: bool) -> Plan:
    """A plan of one network."""
    plan = two_networks(HOSTS)
    network = dataclasses.replace(plan.networks[0], subnet=subnet, gateway=subnet[1], **changed)
    return dataclasses.replace(plan, networks=(network,))


def test_with_a_way_out_a_subnet_that_this_machine_routes_is_refused(
    client: DockerClient, workers: Workers, run: RunTag
) -> None:
    # Any connected route that is not the engine's: the one this test reaches the world by.
    plan = alone(_own_route(), internal=False, fixed=True)
    with pytest.raises(EngineError, match="overlaps this machine's route"):
        make_networks(client, workers, plan, run, progress=print, deadline=60)


def test_with_a_way_out_a_subnet_of_ours_that_this_machine_routes_is_to_be_chosen_again(
    client: DockerClient, workers: Workers, run: RunTag
) -> None:
    route = _own_route()
    plan = alone(next(route.subnets(new_prefix=28)), internal=False, fixed=False)
    with pytest.raises(SubnetTaken) as caught:
        make_networks(client, workers, plan, run, progress=print, deadline=60)
    assert caught.value.subnet == route


@pytest.mark.parametrize("forwarded", [False, True])
def test_without_a_way_out_the_machine_gets_no_address_and_no_route(
    client: DockerClient, workers: Workers, run: RunTag, *, forwarded: bool
) -> None:
    plan = alone(_own_route(), fixed=True, forwarded=forwarded)
    before = _routes_and_addresses(client, plan)
    assert before
    make_networks(client, workers, plan, run, progress=print, deadline=60)
    assert _routes_and_addresses(client, plan) == before
    # With a way out it would get both, so the look is one that sees them.
    fresh = alone(IPv4Network("198.19.255.240/28"), internal=False)
    assert not _routes_and_addresses(client, fresh)
    make_networks(
        client,
        workers,
        dataclasses.replace(fresh, networks=(dataclasses.replace(fresh.networks[0], name="out"),)),
        run,
        progress=print,
        deadline=60,
    )
    assert len(_routes_and_addresses(client, fresh)) == 2


def _routes_and_addresses(client: DockerClient, plan: Plan) -> list[str]:
    """What the engine's machine has of the plan's one subnet, by the kernel's own tables."""
    subnet = plan.networks[0].subnet
    process = listener(client.endpoint.socket or "")
    if process == "0":
        pytest.skip("the engine is not on this machine")
    routed = [
        str(route)
        for route in routes(Path(f"/proc/{process}/net/route").read_text(encoding="ascii"))
        if route.destination.overlaps(subnet)
    ]
    tree = Path(f"/proc/{process}/net/fib_trie").read_text(encoding="ascii")
    own = re.findall(r"\|-- (\S+)\s+/32 host LOCAL", tree)
    return routed + sorted({address for address in own if IPv4Address(address) in subnet})


def _own_route() -> IPv4Network:
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
