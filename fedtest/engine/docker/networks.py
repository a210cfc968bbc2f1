"""Bridge networks: made in one order, waited for where somebody else holds the subnet."""

from __future__ import annotations

import re
import time
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

from docker.errors import APIError
from docker.types import IPAMConfig, IPAMPool

from fedtest.engine.docker import labels
from fedtest.engine.docker.client import engine_errors, explanation
from fedtest.engine.docker.machine_routes import machine_routes
from fedtest.engine.owner import Owner
from fedtest.engine.routes import collision
from fedtest.errors import DeadlineError, EngineError, SubnetTaken

if TYPE_CHECKING:
    from collections.abc import Callable

    from fedtest.engine.base import RunTag
    from fedtest.engine.docker.client import DockerClient
    from fedtest.engine.parallel import Workers
    from fedtest.plan import NetworkPlan, Plan

_MTU = "com.docker.network.driver.mtu"
_API_MODES = (1, 48)
_MODE = "com.docker.network.bridge.gateway_mode_ipv4"
_MASQUERADE = "com.docker.network.bridge.enable_ip_masquerade"
_NO_ADDRESS = "com.docker.network.bridge.inhibit_ipv4"
"""Without an address of its own the machine's end of a bridge is no way into the machine, and
the machine gets no route to the bridge (an `internal` network alone gives it both)."""
_TAKEN = ("overlaps with other one", "networks have overlapping")
"""The engine's words for a subnet that is held: by its address ranges, or by a bridge that is
still there when its range has been given back already."""
_POLL = 0.2
_CALL = 120.0


def make_networks(
    client: DockerClient,
    workers: Workers,
    plan: Plan,
    run: RunTag,
    *,
    progress: Callable[[str], None],
    deadline: float,
) -> None:
    """Make the plan's networks that are not there yet.

    In the order of their subnets: runs that want the same fixed subnets take
    them in one order, so that none waits for one that waits for it. `deadline`
    is for that waiting; `progress` says whom for.
    """
    end = time.monotonic() + deadline
    with engine_errors("listing the run's networks"):
        present = client.api.networks(filters={"label": f"{labels.RUN}={run.id}"})
    there = {network["Labels"].get(labels.NETWORK) for network in present}
    for network in sorted(plan.networks, key=lambda item: item.subnet):
        if network.name not in there:
            _make(client, workers, network, run, progress=progress, end=end)


def _make(
    client: DockerClient,
    workers: Workers,
    network: NetworkPlan,
    run: RunTag,
    *,
    progress: Callable[[str], None],
    end: float,
) -> None:
    _refuse_routes(client, network)
    said = ""
    while True:
        try:
            # By a worker, so that an interruption does not leave a call under way
            # whose network nobody would find.
            workers.each(
                lambda item: _create(client, item, run),
                [network],
                doing="making networks",
                deadline=_CALL,
            )
        except SubnetTaken:
            if not network.fixed:
                raise
        else:
            return
        holder = _holder(client, network.subnet)
        if holder is not None and holder["Labels"].get(labels.RUN) is None:
            raise EngineError(
                f"network {network.name}: subnet {network.subnet} overlaps the engine's "
                f"network {holder['Name']!r}",
                remedy="Choose another `subnet`, or leave it out where the address "
                "does not matter.",
            )
        whom = _who(holder)
        if time.monotonic() > end:
            raise DeadlineError(
                f"network {network.name}: subnet {network.subnet} is held by {whom}",
                remedy="Wait for that run, or end it; `fedtest clean` removes what dead runs left.",
            )
        if whom != said:
            progress(f"subnet {network.subnet} is held by {whom}; waiting for it")
            said = whom
        time.sleep(_POLL)


def _create(client: DockerClient, network: NetworkPlan, run: RunTag) -> None:
    pool = IPAMPool(subnet=str(network.subnet), gateway=str(network.gateway))
    with engine_errors(f"making network {network.name} ({network.subnet})"):
        try:
            client.api.create_network(
                labels.network_name(run.id, network.name),
                driver="bridge",
                ipam=IPAMConfig(pool_configs=[pool]),
                # The engine drops packets of other networks on an internal one, where the
                # kernel shows it bridged packets. Where some must pass there is no way out
                # either: nothing is masqueraded, and hosts' default routes are taken away.
                internal=network.internal and not network.forwarded,
                options=_options(network, client.api_version >= _API_MODES),
                labels={**labels.of_run(run), labels.NETWORK: network.name},
            )
        except APIError as error:
            if any(words in explanation(error) for words in _TAKEN):
                raise SubnetTaken(
                    f"making network {network.name}: subnet {network.subnet} is in use",
                    subnet=network.subnet,
                ) from error
            raise


def _options(network: NetworkPlan, has_modes: bool) -> dict[str, str]:
    found = {}
    if network.mtu is not None:
        found[_MTU] = str(network.mtu)
    if network.internal:
        found[_NO_ADDRESS] = "true"
    if network.internal and network.forwarded:
        found[_MASQUERADE] = "false"
        if has_modes:
            # Otherwise what comes from another bridge is dropped before it is forwarded.
            found[_MODE] = "nat-unprotected"
    return found


def _holder(client: DockerClient, subnet: IPv4Network) -> dict[str, Any] | None:
    with engine_errors("looking for the network that holds a subnet"):
        for network in client.api.networks():
            for config in (network["IPAM"] or {}).get("Config") or []:
                taken = config.get("Subnet", "")
                if ":" not in taken and taken and IPv4Network(taken).overlaps(subnet):
                    return dict(network)
    return None


def _who(network: dict[str, Any] | None) -> str:
    """Whose it is. The engine takes an address range before it lists its network, so: None."""
    if network is None:
        return "a network that is being made or removed"
    owner = Owner.parse(network["Labels"].get(labels.OWNER, ""))
    run, scenario = network["Labels"][labels.RUN], network["Labels"].get(labels.SCENARIO)
    if owner is not None and owner.is_dead():
        return f"run {run} of scenario {scenario}, whose process is dead (`fedtest clean`)"
    return f"run {run} of scenario {scenario} (process {owner.pid if owner else 'unknown'})"


def _refuse_routes(client: DockerClient, network: NetworkPlan) -> None:
    """A network with a way out gives the machine an address in its subnet, and a route to it.

    One without gives it neither (see _NO_ADDRESS), so whatever the machine routes is no
    reason against it. Routes of engines' bridges do not count: the engine refuses those itself.
    """
    if network.internal:
        return
    # Routes first: a bridge is there before the engine lists its network, and
    # gone only after it has stopped to.
    found = machine_routes(client)
    with engine_errors("listing the engine's networks"):
        bridges = {
            (item.get("Options") or {}).get("com.docker.network.bridge.name", "")
            for item in client.api.networks()
        }
    taken = collision(
        network.subnet,
        [
            route
            for route in found
            if route.interface not in bridges
            and not re.fullmatch(r"br-[0-9a-f]{12}", route.interface)
        ],
    )
    if taken is None:
        return
    message = (
        f"network {network.name}: subnet {network.subnet} overlaps this machine's route "
        f"{taken.destination} dev {taken.interface}"
    )
    if not network.fixed:
        raise SubnetTaken(message, subnet=taken.destination)
    raise EngineError(
        f"{message}, and with `internal: false` the machine gets a route to it",
        remedy="Choose another `subnet`, leave it out where the address does not matter, or "
        "leave out `internal: false` where no way out is needed.",
    )
