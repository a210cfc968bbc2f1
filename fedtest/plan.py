"""A scenario made concrete: every host, interface, address and command.

Pure: the same scenario with the same subnets gives the same plan, and nothing
here knows of an engine. `--dry-run` prints it; an engine realises it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fedtest.plan_addresses import segments
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
from fedtest.plan_names import DnsPlan, dns_plans, own_names, resolved, usual_names
from fedtest.plan_preload import bundled
from fedtest.plan_provisions import (
    PLAIN_USER,
    FilePlan,
    LimitsPlan,
    MountPlan,
    TmpfsPlan,
    environment,
    file_plans,
    limits_plan,
    mount_plans,
    sysctl_plan,
    tmpfs_plans,
)
from fedtest.plan_routes import ForwardPlan, RoutePlan, closed_plans, forwarded, route_plans
from fedtest.scenario.template import expand, plan_lookups

if TYPE_CHECKING:
    from collections.abc import Mapping
    from ipaddress import (
        IPv4Address,
        IPv4Interface,
        IPv4Network,
        IPv6Address,
        IPv6Interface,
        IPv6Network,
    )

    from fedtest.plan_addresses import Segment
    from fedtest.scenario.hosts import Build, Host
    from fedtest.scenario.model import Scenario
    from fedtest.scenario.processes import Condition
    from fedtest.scenario.template import View


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

    `forwarded`: packets of other networks pass here, too, and must not be dropped.
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
    ipv4: bool = True
    subnet6: IPv6Network | None = None
    forwarded: bool = False

    @property
    def subnets(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """Where its hosts' addresses are."""
        ipv4 = (self.subnet,) if self.ipv4 else ()
        return ipv4 if self.subnet6 is None else (*ipv4, self.subnet6)


@dataclass(frozen=True, slots=True)
class AttachmentPlan:
    """One host on one network. `link`: what is done to all that it sends there.

    `up`: whether the interface is, which only a fault changes. `address` is
    what an engine gives it; it loses it again unless `ipv4`.
    """

    network: str
    interface: str
    address: IPv4Interface
    mtu: int | None = None
    link: LinkPlan = LinkPlan()  # noqa: RUF009 - it is frozen
    ipv4: bool = True
    address6: IPv6Interface | None = None
    mac: str | None = None
    up: bool = True

    @property
    def addresses(self) -> tuple[IPv4Interface | IPv6Interface, ...]:
        """Those that it has, IPv4 first."""
        ipv4 = (self.address,) if self.ipv4 else ()
        return ipv4 if self.address6 is None else (*ipv4, self.address6)

    @property
    def ip(self) -> IPv4Address | IPv6Address | None:
        """Where others reach it: the IPv4 address, or the IPv6 one where it has no other."""
        return self.addresses[0].ip if self.addresses else None

    @property
    def settled(self) -> bool:
        """Whether it is to have something that engines do not give."""
        return not self.ipv4 or self.address6 is not None or self.mac is not None


@dataclass(frozen=True, slots=True)
class HostPlan:
    """A machine of the testbed.

    `names` is the whole of its /etc/hosts beyond localhost, in order:
    (address, names). `closed` are ways out that must not be. `data` maps the
    name of a data set to its directory, `sysctls` settings of the kernel to
    their values. `barriers` are what faults put up.
    """

    name: str
    image: ImagePlan
    attachments: tuple[AttachmentPlan, ...]
    names: tuple[tuple[str, tuple[str, ...]], ...]
    data: tuple[tuple[str, str], ...]
    firewall: FirewallPlan | None = None
    ports_in_use: tuple[PortPlan, ...] = ()
    barriers: tuple[BarrierPlan, ...] = ()
    routes: tuple[RoutePlan, ...] = ()
    closed: tuple[RoutePlan, ...] = ()
    forward: ForwardPlan | None = None
    dns: tuple[DnsPlan, ...] = ()

    index: int = 0
    limits: LimitsPlan = LimitsPlan()  # noqa: RUF009 - it is frozen
    files: tuple[FilePlan, ...] = ()
    mounts: tuple[MountPlan, ...] = ()
    tmpfs: tuple[TmpfsPlan, ...] = ()
    sysctls: tuple[tuple[str, str], ...] = ()
    image_optional: bool = False

    @property
    def settled(self) -> bool:
        """Whether its network is to be set up beyond what engines do."""
        return bool(self.routes or self.closed or self.forward or self.dns) or any(
            item.settled for item in self.attachments
        )

    def on(self, network: str) -> AttachmentPlan:
        """Its attachment to a network that it is on."""
        return next(item for item in self.attachments if item.network == network)

    @property
    def looked_into(self) -> bool:
        """Whether it has something that only a look from beside it can tell of."""
        return bool(self.files or self.mounts or self.tmpfs)


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

    `secrets`: their names; texts have them as templates, and nothing here has their values.
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
    secrets: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()

    def host(self, name: str) -> HostPlan:
        """The host called `name`; KeyError if there is none."""
        return next(host for host in self.hosts if host.name == name)

    @property
    def needs_tools(self) -> bool:
        """Whether tools beside hosts are needed: to look into them, or to change them."""
        looked_into = any(host.looked_into for host in self.hosts)
        return looked_into or self.conditioned or self.settled or bool(self.faults)

    @property
    def settled(self) -> bool:
        """Whether any host's network is to be set up beyond what engines do."""
        return any(host.settled for host in self.hosts)

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
    addresses = segments(scenario, subnets)
    networks = tuple(
        NetworkPlan(
            name=name,
            subnet=addresses[name].subnet,
            gateway=addresses[name].gateway,
            internal=network.internal,
            fixed=network.subnet is not None,
            mtu=network_mtu(scenario, name),
            pairs=tuple(pair_plans(scenario, name)),
            ipv4=network.ipv4,
            subnet6=addresses[name].subnet6,
            forwarded=forwarded(scenario, name),
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
        hosts=_hosts(scenario, addresses),
        groups=groups,
        processes=(),
        faults=fault_plans(scenario),
        secrets=tuple(scenario.secrets),
    )
    lookups = plan_lookups(plan)
    views = {host.name: lookups.on(host.name) for host in plan.hosts}
    processes = _processes(scenario, views)
    return replace(
        plan,
        hosts=tuple(
            replace(host, files=file_plans(scenario, scenario.hosts[host.name], views[host.name]))
            for host in plan.hosts
        ),
        processes=processes,
        preload=bundled(processes) if scenario.preload is None else scenario.preload,
    )


def _hosts(scenario: Scenario, addresses: Mapping[str, Segment]) -> tuple[HostPlan, ...]:
    data = tuple(scenario.data.directories().items())
    known = resolved(scenario, addresses)
    usual = usual_names(scenario, known)
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
                    addresses[network].given[name],
                    nic_mtu(scenario, network, nic),
                    nic_link(scenario, network, nic),
                    any(item.version == 4 for item in addresses[network].own[name]),
                    addresses[network].ipv6(name),
                    nic.mac,
                )
                for network, nic in host.nics.items()
            ),
            names=own_names(usual, host, known),
            data=data,
            firewall=firewall_plan(host),
            ports_in_use=port_plans(host),
            routes=route_plans(scenario, addresses, name),
            closed=closed_plans(scenario, addresses, name),
            forward=_forward(host),
            dns=dns_plans(scenario, host, known),
            index=host.index,
            limits=limits_plan(host),
            mounts=mount_plans(scenario, host),
            tmpfs=tmpfs_plans(host),
            sysctls=sysctl_plan(scenario, host),
            image_optional=(host if host.image or host.build else scenario).image_optional,
        )
        for name, host in scenario.hosts.items()
    )


def _forward(host: Host) -> ForwardPlan | None:
    if host.forward is None:
        return None
    return ForwardPlan(host.nics[host.forward.nat].name if host.forward.nat else None)


def _image(image: str | None, build: Build | None) -> ImagePlan:
    if build is None:
        return ImagePlan(name=image)
    dockerfile = os.path.abspath(Path(build.context) / build.dockerfile)  # noqa: PTH100 - folds `..`
    return ImagePlan(build=BuildSpec(build.context, dockerfile))


def _processes(scenario: Scenario, views: Mapping[str, View]) -> tuple[ProcessPlan, ...]:
    """Each process on each of its hosts."""
    return tuple(
        ProcessPlan(
            name=name,
            host=host,
            argv=_argv(process.run, views[host]),
            env=tuple(environment(scenario, host, process.env, views[host]).items()),
            user=process.user or PLAIN_USER,
            deadline=process.deadline,
            after=process.conditions,
            service=process.service,
        )
        for name, process in scenario.processes.items()
        for host in scenario.hosts_of(name)
    )


def _argv(run: str | tuple[str, ...], view: View) -> tuple[str, ...]:
    if isinstance(run, str):
        return ("/bin/sh", "-c", expand(run, view))
    return tuple(expand(item, view) for item in run)
