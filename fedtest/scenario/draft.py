"""A scenario as far as it is right.

References are checked on this rather than on `Scenario`, so that a wrong part
of the file neither hides problems elsewhere nor causes any: a part that is
declared but wrong is None, and whatever refers to it is not judged by it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from fedtest.scenario.checks import Check
from fedtest.scenario.families import has_ipv4, has_ipv6
from fedtest.scenario.faults import Fault
from fedtest.scenario.hosts import Host, Network
from fedtest.scenario.model import Data, Scenario
from fedtest.scenario.processes import Group, Process
from fedtest.scenario.provisions import FileIn, MountIn
from fedtest.scenario.resolution import DnsAnswer, DomainName
from fedtest.scenario.template import Lookups, Nic

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from fedtest.scenario.base import Part
    from fedtest.scenario.hosts import Nic as ModelNic

_PartT = TypeVar("_PartT", bound="Part")

# Keys without which a part is still itself to all others.
_ALONE = frozenset(
    {"after", "aliases", "always", "build", "collect", "count", "cpus", "deadline", "dns", "env"}
    | {"eventually", "files", "firewall", "gateway", "id", "image", "index", "internal", "link"}
    | {"mac", "memory", "mounts", "names", "pairs", "pids", "ports_in_use", "routes", "service"}
    | {"image_optional", "sysctls", "tmpfs", "user"}
)

_ANSWERS = TypeAdapter(dict[DomainName, DnsAnswer])

# Stands for addresses that only a plan knows.
_SOME_ADDRESS = "198.18.0.1"
_SOME_ADDRESS6 = "fd00::1"


@dataclass(frozen=True, slots=True)
class Draft:
    """The parts of a scenario; None is one that is there but wrong.

    `fault_ids` has those of faults that are wrong, too.
    """

    networks: Mapping[str, Network | None]
    hosts: Mapping[str, Host | None]
    groups: Mapping[str, Group | None]
    processes: Mapping[str, Process | None]
    checks: Sequence[Check | None]
    data: Data | None
    dns: Mapping[str, str]
    seed: int
    resolve: str
    faults: Sequence[Fault | None] = ()
    fault_ids: Collection[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, FileIn | None] = field(default_factory=dict)
    mounts: Mapping[str, MountIn | None] = field(default_factory=dict)
    secrets: Collection[str] = ()

    @classmethod
    def of(cls, scenario: Scenario) -> Draft:
        """A scenario whose parts are all right."""
        return cls(
            scenario.networks,
            scenario.hosts,
            scenario.groups,
            scenario.processes,
            scenario.checks,
            scenario.data,
            scenario.dns,
            scenario.seed,
            scenario.resolve,
            scenario.faults,
            [fault.id for fault in scenario.faults if fault.id is not None],
            env=scenario.env,
            files=scenario.files,
            mounts=scenario.mounts,
            secrets=scenario.secrets,
        )

    @classmethod
    def salvage(cls, data: Mapping[str, Any]) -> Draft:
        """What is right in data that is not a scenario."""
        filled = Scenario.with_defaults(data)
        checks, faults = filled.get("checks"), filled.get("faults")
        resolve = filled.get("resolve")
        return cls(
            _parts(Network, filled.get("networks")),
            _parts(Host, filled.get("hosts")),
            _parts(Group, filled.get("groups")),
            _parts(Process, filled.get("processes")),
            [_part(Check, item) for item in checks] if isinstance(checks, list) else [],
            _part(Data, filled.get("data", {})),
            _answers(filled.get("dns", {})),
            0,
            resolve if isinstance(resolve, str) else "",
            [_part(Fault, item) for item in faults] if isinstance(faults, list) else [],
            _ids(faults),
            env={
                name: text
                for name, text in _mapping(filled, "env").items()
                if isinstance(text, str)
            },
            files=_parts(
                FileIn,
                {
                    path: {"content": item} if isinstance(item, str) else item
                    for path, item in _mapping(filled, "files").items()
                },
            ),
            mounts=dict.fromkeys(_mapping(filled, "mounts")),
            secrets=_mapping(filled, "secrets").keys(),
        )

    def hosts_of(self, process: str) -> tuple[str, ...] | None:
        """Where a process runs, or None if that cannot be said."""
        part = self.processes.get(process)
        if part is None:
            return None
        if not isinstance(part.hosts, str):
            return part.hosts
        group = self.groups.get(part.hosts)
        return None if group is None else group.members

    def lookups(self) -> Lookups:
        """What templates can name."""
        hosts = {
            name: None
            if host is None
            else {network: self._nic(network, nic) for network, nic in host.nics.items()}
            for name, host in self.hosts.items()
        }
        data = None if self.data is None else self.data.directories()
        indexes = {name: 0 if host is None else host.index for name, host in self.hosts.items()}
        return Lookups(hosts, self.groups, data, self.seed, indexes=indexes, secrets=self.secrets)

    def _nic(self, network: str, nic: ModelNic) -> Nic:
        part = self.networks.get(network)
        # Of a network that is wrong itself nobody knows what it has.
        ipv4 = part is None or has_ipv4(part, nic)
        ipv6 = part is None or has_ipv6(part, nic)
        return Nic(
            nic.name,
            str(nic.ip or _SOME_ADDRESS) if ipv4 else None,
            str(nic.ip6 or _SOME_ADDRESS6) if ipv6 else None,
        )


def _mapping(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    section = data.get(key)
    return section if isinstance(section, dict) else {}


def _ids(section: object) -> list[str]:
    items = section if isinstance(section, list) else []
    ids = [item.get("id") for item in items if isinstance(item, dict)]
    return [item for item in ids if isinstance(item, str)]


def _parts(model: type[_PartT], section: object) -> dict[str, _PartT | None]:
    if not isinstance(section, dict):
        return {}
    return {name: _part(model, item) for name, item in section.items()}


def _answers(section: object) -> dict[str, str]:
    try:
        return _ANSWERS.validate_python(section)
    except ValidationError:
        return {}


def _part(model: type[_PartT], item: object) -> _PartT | None:
    """The part, if need be without keys that nothing else is judged by."""
    try:
        return model.model_validate(item)
    except ValidationError as error:
        wrong = {details["loc"][0] for details in error.errors() if details["loc"]}
    if not wrong or not wrong <= _ALONE or not isinstance(item, dict):
        return None
    return _part(model, {key: value for key, value in item.items() if key not in wrong})
