"""Every name in the scenario that refers to something declared elsewhere in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.scenario import (
    addresses,
    check_references,
    fault_references,
    host_references,
    ipv6_references,
    link_references,
    process_references,
    provision_references,
)
from fedtest.scenario.declared import attached, known
from fedtest.scenario.ip_types import address_in
from fedtest.scenario.problems import Finding, listed, shown
from fedtest.scenario.template import OPEN, TemplateError, errors, expand

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fedtest.scenario.checks.sockets import SocketsCheck
    from fedtest.scenario.draft import Draft
    from fedtest.scenario.problems import Loc
    from fedtest.scenario.processes import Group, Process

# Templates filled in on all hosts together: far beyond what a machine could run.
_MOST_LOOKUPS = 100_000
_MOST_CHARACTERS = 20_000_000


def findings(draft: Draft) -> Iterator[Finding]:
    """Everything that is wrong between the parts of a scenario."""
    yield from addresses.findings(draft)
    yield from ipv6_references.findings(draft)
    yield from link_references.findings(draft)
    yield from host_references.findings(draft)
    if draft.resolve:
        yield from known(("resolve",), "network", draft.resolve, draft.networks)
    yield from _hosts(draft)
    yield from _groups(draft)
    yield from _processes(draft)
    yield from process_references.findings(draft)
    yield from provision_references.findings(draft)
    yield from check_references.findings(draft)
    yield from fault_references.findings(draft)
    yield from _Templates(draft).findings()


def _known_once(loc: Loc, names: Sequence[str], draft: Draft) -> Iterator[Finding]:
    """A list of hosts."""
    for at, name in enumerate(names):
        yield from known((*loc, at), "host", name, draft.hosts)
    yield from _once(loc, names)


def _once(loc: Loc, names: Sequence[str]) -> Iterator[Finding]:
    seen: set[str] = set()
    for at, name in enumerate(names):
        if name in seen:
            message = "the host is in the list twice"
            yield Finding((*loc, at), message, found=shown(name), allowed="each host once")
        seen.add(name)


def _hosts(draft: Draft) -> Iterator[Finding]:
    for host_name, host in draft.hosts.items():
        first: dict[str, str] = {}
        for name, nic in host.nics.items() if host else ():
            loc: Loc = ("hosts", host_name, "nics", name)
            yield from known(loc, "network", name, draft.networks, at_key=True)
            other = first.setdefault(nic.name, name)
            if other != name:
                message = f"the host's interface on network {other} is called that, too"
                allowed = "interface names that are unique in their host"
                yield Finding((*loc, "name"), message, found=shown(nic.name), allowed=allowed)


def _groups(draft: Draft) -> Iterator[Finding]:
    stores: dict[tuple[str, int], str] = {}
    for name, group in draft.groups.items():
        if group is None:
            continue
        loc: Loc = ("groups", name)
        yield from _known_once((*loc, "members"), group.members, draft)
        if group.network:
            yield from known((*loc, "network"), "network", group.network, draft.networks)
            for at, member in enumerate(group.members):
                yield from attached(draft, (*loc, "members", at), member, group.network)
        elif draft.networks:
            message = "a required key is missing, because there are several networks"
            yield Finding((*loc, "network"), message, allowed=listed(draft.networks))
        yield from _store(stores, loc, name, group)


def _store(
    stores: dict[tuple[str, int], str], loc: Loc, name: str, group: Group
) -> Iterator[Finding]:
    """The master's store listens on all its addresses: one group per host and port."""
    other = stores.setdefault((group.members[0], group.port), name)
    if other != name:
        message = f"group {other} has the same master, {group.members[0]}, and the same port"
        yield Finding((*loc, "port"), message, found=str(group.port), allowed="a port of its own")


def _processes(draft: Draft) -> Iterator[Finding]:
    for name, process in draft.processes.items():
        if process is None:
            continue
        loc: Loc = ("processes", name, "hosts")
        if isinstance(process.hosts, str):
            single = process.hosts in draft.hosts
            hint = f"a single host is written [{process.hosts}]" if single else ""
            yield from known(loc, "group", process.hosts, draft.groups, hint=hint)
        else:
            yield from _known_once(loc, process.hosts, draft)


class _Templates:
    """Every template, filled in on every host where it will be."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._lookups = draft.lookups()
        self._budget = _MOST_LOOKUPS
        self._characters = _MOST_CHARACTERS

    def findings(self) -> Iterator[Finding]:
        for name, process in self._draft.processes.items():
            hosts = self._draft.hosts_of(name)
            if process is not None:
                for at, text in _texts(name, process):
                    yield from self._text(at, text, hosts)
        for at, text, some in _provided(self._draft):
            yield from self._text(at, text, some)
        for number, check in enumerate(self._draft.checks):
            spec = None if check is None else check.sockets
            if spec is None:
                continue
            loc: Loc = ("checks", number, "sockets")
            if spec.local is not None:
                yield from self._address((*loc, "local"), spec.local, spec)
            if spec.listen is not None and spec.listen.local is not None:
                yield from self._address((*loc, "listen", "local"), spec.listen.local, spec)
            if spec.remote is not None and spec.remote not in self._draft.networks:
                yield from self._address((*loc, "remote"), spec.remote, spec, or_network=True)

    def _text(self, loc: Loc, text: str, hosts: Sequence[str] | None) -> Iterator[Finding]:
        known = [host for host in hosts or () if host in self._draft.hosts]
        if self._budget < 0 or self._characters < 0:
            return
        self._characters -= len(text) * len(known)
        if self._characters < 0:
            message = "too much text on too many hosts"
            yield Finding(loc, message, allowed=f"{_MOST_CHARACTERS} characters in all")
            return
        self._budget -= max(text.count(OPEN), 1) * len(known)
        if self._budget < 0:
            message = "too many templates on too many hosts"
            yield Finding(loc, message, allowed=f"{_MOST_LOOKUPS} look-ups in all")
            return
        if OPEN not in text:
            return
        failed: dict[tuple[int, str], tuple[TemplateError, list[str]]] = {}
        for host in known:
            for error in errors(text, self._lookups.on(host)):
                failed.setdefault((error.number, error.message), (error, []))[1].append(host)
        for error, on in failed.values():
            # Where the whole text is wrong everywhere, no host is to be singled out.
            alone = error.names is None and not error.allowed
            where = f" (on {listed(on)})" if alone or len(on) < len(known) else ""
            yield Finding(
                loc,
                error.message + where,
                error.found,
                error.allowed,
                template=error.number,
                wrong=error.wrong,
                names=error.names,
            )

    def _address(
        self, loc: Loc, text: str, spec: SocketsCheck, *, or_network: bool = False
    ) -> Iterator[Finding]:
        """An address that sockets must have: a template that gives one."""
        hosts = self._draft.hosts_of(spec.process)
        if hosts is None or self._budget < 0 or self._characters < 0:
            return
        if spec.host is not None:
            hosts = tuple(host for host in hosts if host == spec.host)
        found = list(self._text(loc, text, hosts))
        yield from found
        for host in hosts if not found else ():
            if self._draft.hosts.get(host) is None:
                continue
            filled = expand(text, self._lookups.on(host))
            if address_in(filled) is None:
                message = f"not an address on host {host}"
                allowed = "an address, or a template that gives one: ${{ nics.NETWORK.ip }}"
                if or_network:
                    allowed += f"; or a network: {listed(self._draft.networks)}"
                yield Finding(loc, message, found=shown(filled), allowed=allowed)
                return


def _texts(name: str, process: Process) -> Iterator[tuple[Loc, str]]:
    """Where templates may be in a process."""
    loc: Loc = ("processes", name)
    if isinstance(process.run, str):
        yield (*loc, "run"), process.run
    else:
        for at, item in enumerate(process.run):
            yield (*loc, "run", at), item
    for key, value in process.env.items():
        yield (*loc, "env", key), value


def _provided(draft: Draft) -> Iterator[tuple[Loc, str, Sequence[str]]]:
    """Where templates may be in what hosts are given, and on which hosts."""
    # A host's own at the same key is instead of it.
    for key, text in draft.env.items():
        names = [name for name, host in draft.hosts.items() if host and key not in host.env]
        yield ("env", key), text, names
    for path, file in draft.files.items():
        if file is not None and file.content is not None:
            names = [name for name, host in draft.hosts.items() if host and path not in host.files]
            yield ("files", path, "content"), file.content, names
    for name, host in draft.hosts.items():
        for key, text in host.env.items() if host else ():
            yield ("hosts", name, "env", key), text, [name]
        for path, file in host.files.items() if host else ():
            if file.content is not None:
                yield ("hosts", name, "files", path, "content"), file.content, [name]
