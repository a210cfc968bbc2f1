"""A scenario made concrete: every host, interface, address and command.

Pure: the same scenario with the same subnets gives the same plan, and nothing
here knows of an engine. `--dry-run` prints it; an engine realises it.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, fields, is_dataclass, replace
from ipaddress import IPv4Interface
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedtest.plan_addresses import allocate
from fedtest.plan_faults import FaultPlan, fault_plans
from fedtest.plan_links import (
    BarrierPlan,
    FirewallPlan,
    LinkPlan,
    PairPlan,
    PortPlan,
    firewall_plan,
    network_mtu,
    nic_link,
    nic_mtu,
    pair_plans,
    port_plans,
)
from fedtest.scenario.base import Part
from fedtest.scenario.template import expand, plan_lookups

if TYPE_CHECKING:
    from collections.abc import Mapping
    from ipaddress import IPv4Address, IPv4Network

    from fedtest.plan_addresses import Allocation
    from fedtest.scenario.hosts import Build
    from fedtest.scenario.model import Scenario
    from fedtest.scenario.processes import Condition
    from fedtest.scenario.template import View

# By number, so that it needs no entry in an image's /etc/passwd; in the node
# image it is the user `fedtest`.
PLAIN_USER = "1000:1000"

BUNDLED_IMPORTS = ("torch", "torchvision")
_BUNDLED = re.compile(r"\bfedtest\.(?:comm|ring)\b")


@dataclass(frozen=True, slots=True)
class BuildSpec:
    """An image that is built: `context` and `dockerfile` are absolute paths."""

    context: str
    dockerfile: str


@dataclass(frozen=True, slots=True)
class ImagePlan:
    """What a host runs from: the node image (both None), a named image, or one to build."""

    name: str | None = None
    build: BuildSpec | None = None


@dataclass(frozen=True, slots=True)
class NetworkPlan:
    """One layer-2 segment. `fixed`: the scenario asked for this very subnet.

    `mtu` None: the engine's usual one. `pairs` has each way between hosts that
    is not as the sender's attachment says.
    """

    name: str
    subnet: IPv4Network
    gateway: IPv4Address
    internal: bool
    fixed: bool
    mtu: int | None = None
    pairs: tuple[PairPlan, ...] = ()


@dataclass(frozen=True, slots=True)
class AttachmentPlan:
    """One host on one network. `link`: what is done to all that it sends there.

    `up`: whether the interface is, which only a fault changes.
    """

    network: str
    interface: str
    address: IPv4Interface
    mtu: int | None = None
    link: LinkPlan = LinkPlan()  # noqa: RUF009 - it is frozen
    up: bool = True


@dataclass(frozen=True, slots=True)
class HostPlan:
    """A machine of the testbed.

    `names` is the whole of its /etc/hosts beyond localhost, in order:
    (address, names). `data` maps the name of a data set to its directory.
    `barriers` are what faults put up.
    """

    name: str
    image: ImagePlan
    attachments: tuple[AttachmentPlan, ...]
    names: tuple[tuple[str, tuple[str, ...]], ...]
    data: tuple[tuple[str, str], ...]
    firewall: FirewallPlan | None = None
    ports_in_use: tuple[PortPlan, ...] = ()
    barriers: tuple[BarrierPlan, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """The members of a process group, in rank order; the first is the master."""

    name: str
    members: tuple[str, ...]
    network: str
    port: int


@dataclass(frozen=True, slots=True)
class ProcessPlan:
    """One command on one host, templates filled in. `deadline` in seconds, or None.

    It starts when all of `after` has happened; a `service` ends when all others have.
    """

    name: str
    host: str
    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    user: str
    deadline: float | None
    after: tuple[Condition, ...] = ()
    service: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything an engine and the runner need. `deadline` in seconds for all processes.

    `preload`: modules that Python processes may find imported when they start.
    """

    scenario: str
    seed: int
    deadline: float
    networks: tuple[NetworkPlan, ...]
    hosts: tuple[HostPlan, ...]
    groups: tuple[GroupPlan, ...]
    processes: tuple[ProcessPlan, ...]
    faults: tuple[FaultPlan, ...] = ()
    preload: tuple[str, ...] = ()

    def host(self, name: str) -> HostPlan:
        """The host called `name`; KeyError if there is none."""
        return next(host for host in self.hosts if host.name == name)

    @property
    def changes_networks(self) -> bool:
        """Whether tools beside hosts will be needed: for conditions, or for faults."""
        return self.conditioned or bool(self.faults)

    @property
    def conditioned(self) -> bool:
        """Whether any network or host is to be more than there."""
        return any(network.pairs for network in self.networks) or any(
            host.firewall is not None
            or host.ports_in_use
            or any(item.mtu is not None or not item.link.empty for item in host.attachments)
            for host in self.hosts
        )


def make_plan(scenario: Scenario, subnets: Mapping[str, IPv4Network]) -> Plan:
    """The scenario with `subnets` for the networks that have none of their own."""
    allocations = {
        name: allocate(
            network.subnet or subnets[name],
            network.gateway,
            {
                host: part.nics[name].ip
                for host, part in scenario.hosts.items()
                if name in part.nics
            },
        )
        for name, network in scenario.networks.items()
    }
    networks = tuple(
        NetworkPlan(
            name=name,
            subnet=network.subnet or subnets[name],
            gateway=allocations[name].gateway,
            internal=network.internal,
            fixed=network.subnet is not None,
            mtu=network_mtu(scenario, name),
            pairs=tuple(pair_plans(scenario, name)),
        )
        for name, network in scenario.networks.items()
    )
    groups = tuple(
        GroupPlan(name, group.members, group.network, group.port)
        for name, group in scenario.groups.items()
    )
    plan = Plan(
        scenario=scenario.name,
        seed=scenario.seed,
        deadline=scenario.deadline,
        networks=networks,
        hosts=_hosts(scenario, allocations, {item.name: item.subnet for item in networks}),
        groups=groups,
        processes=(),
        faults=fault_plans(scenario),
    )
    processes = _processes(scenario, plan)
    preload = _preload(processes) if scenario.preload is None else scenario.preload
    return replace(plan, processes=processes, preload=preload)


def plan_to_dict(plan: Plan) -> dict[str, Any]:
    """The plan as plain data for JSON, for people and for artifacts."""
    plain: dict[str, Any] = _plain(plan)
    for host, part in zip(plain["hosts"], plan.hosts, strict=True):
        host["data"] = dict(part.data)
        for attachment, nic in zip(host["attachments"], part.attachments, strict=True):
            # Where nothing is asked for, there is nothing to read.
            if nic.link.empty:
                del attachment["link"]
            if nic.mtu is None:
                del attachment["mtu"]
            if nic.up:
                del attachment["up"]
        if not part.barriers:
            del host["barriers"]
    for process, item in zip(plain["processes"], plan.processes, strict=True):
        process["env"] = dict(item.env)
        if not item.after:
            del process["after"]
        if not item.service:
            del process["service"]
    return plain


def _plain(value: object) -> Any:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Part):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value if isinstance(value, (str, int, float, type(None))) else str(value)


def _hosts(
    scenario: Scenario, allocations: Mapping[str, Allocation], subnets: Mapping[str, IPv4Network]
) -> tuple[HostPlan, ...]:
    data = tuple(scenario.data.directories().items())
    names = []
    for name, host in scenario.hosts.items():
        # The own name resolves like the others: it, too, may lead to the wrong interface.
        network = scenario.resolve if scenario.resolve in host.nics else next(iter(host.nics))
        names.append((str(allocations[network].hosts[name]), (name,)))
    return tuple(
        HostPlan(
            name=name,
            image=_image(host.image, host.build)
            if host.image or host.build
            else _image(scenario.image, scenario.build),
            attachments=tuple(
                AttachmentPlan(
                    network,
                    nic.name,
                    IPv4Interface((allocations[network].hosts[name], subnets[network].prefixlen)),
                    nic_mtu(scenario, network, nic),
                    nic_link(scenario, network, nic),
                )
                for network, nic in host.nics.items()
            ),
            names=tuple(names),
            data=data,
            firewall=firewall_plan(host),
            ports_in_use=port_plans(host),
        )
        for name, host in scenario.hosts.items()
    )


def _image(image: str | None, build: Build | None) -> ImagePlan:
    if build is None:
        return ImagePlan(name=image)
    dockerfile = os.path.abspath(Path(build.context) / build.dockerfile)  # noqa: PTH100 - folds `..`
    return ImagePlan(build=BuildSpec(build.context, dockerfile))


def _processes(scenario: Scenario, plan: Plan) -> tuple[ProcessPlan, ...]:
    """Each process on each of its hosts; `plan` has everything that templates name."""
    lookups = plan_lookups(plan)
    views = {host.name: lookups.on(host.name) for host in plan.hosts}
    return tuple(
        ProcessPlan(
            name=name,
            host=host,
            argv=_argv(process.run, views[host]),
            env=tuple((key, expand(value, views[host])) for key, value in process.env.items()),
            user=process.user or PLAIN_USER,
            deadline=process.deadline,
            after=process.conditions,
            service=process.service,
        )
        for name, process in scenario.processes.items()
        for host in scenario.hosts_of(name)
    )


def _preload(processes: tuple[ProcessPlan, ...]) -> tuple[str, ...]:
    """What the bundled trainer and library import, if a process says that it runs them."""
    words = (word for process in processes for word in process.argv)
    return BUNDLED_IMPORTS if any(map(_BUNDLED.search, words)) else ()


def _argv(run: str | tuple[str, ...], view: View) -> tuple[str, ...]:
    if isinstance(run, str):
        return ("/bin/sh", "-c", expand(run, view))
    return tuple(expand(item, view) for item in run)
