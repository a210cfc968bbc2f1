"""The keeper of a run: the one process that makes its networks and hosts, and whose end is theirs.

It is the first process of a pid namespace that all hosts' are within: when it
is killed the kernel ends every process of the run, and with them go the
namespaces, the mounts and what was written. It listens at a socket in the run's
directory, so that any process that knows the run's tag finds it there.

Light on purpose: hosts' first processes are its forks.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import selectors
import signal
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from fedtest.engine.netns import channel, limits
from fedtest.engine.netns.agent import Agent
from fedtest.engine.netns.elsewhere import (
    NEW_IPC,
    NEW_MOUNTS,
    NEW_NAMES,
    NEW_NETWORK,
    NEW_PIDS,
    Elsewhere,
    join,
    leave,
)
from fedtest.engine.netns.halting import go_on, stop_all
from fedtest.engine.netns.netlink import others_at
from fedtest.engine.netns.tree import STORE, Contents, Tree, make_keepers_tree

if TYPE_CHECKING:
    from collections.abc import Callable

    from fedtest.engine.netns.channel import Message
    from fedtest.engine.netns.limits import Group

SOCKET = "keeper.sock"
HOSTS = "hosts"
BESIDE = ".beside"
_PATIENCE = 60.0
_OWN_SETTINGS = ("net/", "kernel/shm", "kernel/msg", "kernel/sem", "fs/mqueue/")
"""Of the kernel's settings those that a network or IPC namespace has for itself."""
_FOR_LOOKS = (
    *("concurrent.futures.thread", "runpy"),
    *(f"fedtest.probe.{name}" for name in ("facts", "files", "reach", "stacks")),
)
_SETTINGS = (
    ("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1"),
    # A host's own table of TCP connections, and a small one: who looks at its
    # sockets would else go through the machine's, which takes 10 ms a look.
    ("/proc/sys/net/ipv4/tcp_child_ehash_entries", "4096"),
    # Rules of packet filters are the hosts' own: a bridge need not look for any.
    *((f"/proc/sys/net/bridge/bridge-nf-call-{what}tables", "0") for what in ("ip", "ip6", "arp")),
)


@dataclass
class Host:
    """One host as it is now. `pids`: its first process, and the one beside it if there is one."""

    plan: Message
    pid: int
    link: socket.socket
    group: Group | None
    paused: bool = False
    beside: tuple[int, socket.socket] | None = None
    halted: list[int] = field(default_factory=list)


class Keeper:
    """Makes what it is told to make, one thing after the other."""

    def __init__(self, settings: Message, directory: int) -> None:
        self._settings = settings
        self._to = Elsewhere(settings["machine"])
        self._directory = directory
        self._ip: str = settings["ip"]
        self._networks: dict[str, str] = {}
        self._hosts: dict[str, Host] = {}
        self._ports = 0
        self._own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        for path, value in _SETTINGS:
            with contextlib.suppress(OSError):  # Not every kernel has them.
                self._to.setting(path, value)

    def serve(self, listener: socket.socket) -> NoReturn:
        """For ever."""
        selector = selectors.DefaultSelector()
        selector.register(listener, selectors.EVENT_READ)
        while True:
            selector.select()
            connection, _ = listener.accept()
            connection.settimeout(_PATIENCE)
            with connection, contextlib.suppress(channel.Gone, OSError, ValueError):
                order, _files = channel.receive(connection)
                channel.send(connection, self._obey(order))

    def _obey(self, order: Message) -> Message:
        known: dict[str, Callable[[], Message]] = {
            "realise": lambda: self._realise(order),
            "beside": lambda: self._beside(order["host"]),
            "power": lambda: self._power(order["hosts"]),
            "hosts": lambda: {name: self._state(name) for name in order["names"]},
            "count": lambda: {"count": len(self._hosts) + len(self._networks)},
        }
        try:
            return known[order["do"]]()
        except limits.Refused as error:
            return {"error": str(error), "planned": True}
        except (OSError, RuntimeError, ValueError, LookupError) as error:
            return {"error": str(error)}

    def _state(self, name: str) -> Message:
        host = self._hosts.get(name)
        if host is None:
            return {"power": None}
        self._look_after(host)
        if not host.pid:
            return {"power": "off"}
        return {
            "power": "paused" if host.paused else "on",
            "pid": host.pid,
            "groups": list(host.group.directories) if host.group else [],
        }

    def _look_after(self, host: Host) -> None:
        """A host whose first process has ended is off."""
        if host.pid and os.waitpid(host.pid, os.WNOHANG)[0]:
            host.pid = 0
            self._off(host)

    # Making

    def _realise(self, order: Message) -> Message:
        lines = []
        for network in order["networks"]:
            if network["name"] not in self._networks:
                bridge = f"br{len(self._networks)}"
                self._networks[network["name"]] = bridge
                lines.append(f"link add name {bridge} up type bridge mcast_snooping 0")
        if lines:
            self._to.ip(self._ip, lines)
        new: list[Host] = []
        try:
            for plan in order["hosts"]:
                host = self._hosts.get(plan["name"])
                if host is not None:
                    self._look_after(host)
                if host is None or not host.pid:
                    new.append(self._start(plan))
            self._wire(new, {network["name"]: network["mtu"] for network in order["networks"]})
        except BaseException:
            for host in new:
                self._off(host)
            raise
        return {"made": len(new)}

    def _wire(self, new: list[Host], mtus: dict[str, int | None]) -> None:
        """Interfaces for hosts that have their namespaces, all at once; then they are whole."""
        for host in new:
            _hear(host.link, f"host {host.plan['name']}")
        lines = [line for host in new for line in self._wires(host, mtus)]
        if lines:
            self._to.ip(self._ip, lines)
        everywhere = [item for host in self._hosts.values() for item in host.plan["attachments"]]
        for host in new:
            told = others_at(host.plan["attachments"], everywhere)
            channel.send(host.link, {"neighbours": told})
        for host in new:
            _hear(host.link, f"host {host.plan['name']}")

    def _wires(self, host: Host, mtus: dict[str, int | None]) -> list[str]:
        lines = []
        for item in host.plan["attachments"]:
            self._ports += 1
            mtu = mtus[item["network"]]
            size = f" mtu {mtu}" if mtu else ""
            lines.append(
                f"link add name p{self._ports}{size} master {self._networks[item['network']]} up "
                f"type veth peer name {item['interface']}{size} address {item['mac']} "
                f"netns {host.pid}"
            )
        return lines

    def _start(self, plan: Message) -> Host:
        name = plan["name"]
        try:
            group, _ = limits.make(self._settings["run"], name, plan["limits"])
        except limits.Refused as error:
            raise limits.Refused(f"host {name}: {error}") from error
        ours, theirs = socket.socketpair()
        ours.settimeout(_PATIENCE)
        pid = self._fork(f"{name}.sock", theirs, plan, group, beside=None)
        theirs.close()
        host = Host(plan, pid, ours, group)
        self._hosts[name] = host
        return host

    def _fork(
        self, listening: str, link: socket.socket, plan: Message, group: Group | None,
        *, beside: int | None,
    ) -> int:  # fmt: skip
        """A first process in namespaces of its own; `beside`: in the network of that process."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"/proc/self/fd/{self._directory}/{HOSTS}/{listening}")
        listener = channel.listen(self._directory, f"{HOSTS}/{listening}")
        leave(NEW_PIDS)  # Of our children, until we join our own again.
        try:
            pid = os.fork()
            if pid == 0:
                self._be(listener, link, plan, group, beside)
        finally:
            join(self._own_pids, NEW_PIDS)
        listener.close()
        return pid

    def _be(
        self, listener: socket.socket, link: socket.socket, plan: Message, group: Group | None,
        beside: int | None,
    ) -> NoReturn:  # fmt: skip
        try:
            # So that Ctrl-C of a terminal, and a group's signal, are not the hosts'.
            os.setsid()
            members = group.members() if group and beside is None else []
            if beside is None:
                leave(NEW_MOUNTS | NEW_NAMES | NEW_IPC | NEW_NETWORK)
                self._host(plan, group)
            else:
                network = os.open(f"/proc/{beside}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
                join(network, NEW_NETWORK)
                os.close(network)
                leave(NEW_MOUNTS | NEW_NAMES | NEW_IPC)
                contents = Contents(needed=plan["needed"])
                Tree(self._to, f"{STORE}/beside/{plan['name']}", contents).enter(beside=True)
            channel.send(link, {})
            if beside is None:
                told, _ = channel.receive(link)
                self._to.interface("lo")
                for item in plan["attachments"]:
                    self._to.interface(item["interface"], item["address"], item["mask"])
                for interface, known in told["neighbours"].items():
                    self._to.neighbours(interface, known)
                channel.send(link, {})
            Agent(
                listener, link, members, beside=beside is not None, mapped=self._settings["mapped"]
            ).serve()
        except BaseException as error:  # noqa: BLE001 - the keeper tells it to who asked
            planned = isinstance(error, limits.Refused)
            text = str(error) if planned else f"{type(error).__name__}: {error}"
            with contextlib.suppress(OSError):
                channel.send(link, {"error": text, "planned": planned})
        os._exit(1)

    def _host(self, plan: Message, group: Group | None) -> None:
        to = self._to
        to.hostname(plan["name"])
        # What Docker sets in a container, so that a scenario finds the same.
        everybodys = "0 0" if self._settings["mapped"] else "0 2147483647"
        for path, value, needed in (
            ("net/ipv4/ip_forward", "0", False),
            ("net/ipv6/conf/all/disable_ipv6", "1", False),
            ("net/ipv6/conf/default/disable_ipv6", "1", False),
            ("net/ipv4/ping_group_range", everybodys, False),
            ("net/ipv4/ip_unprivileged_port_start", "0", False),
            *((name.replace(".", "/"), value, True) for name, value in plan["sysctls"]),
        ):
            try:
                if needed and not path.startswith(_OWN_SETTINGS):
                    raise PermissionError
                to.setting(f"/proc/sys/{path}", value)
            except OSError as error:
                if needed:
                    name = path.replace("/", ".")
                    raise limits.Refused(f"sysctl {name}: {_why(error, value)}") from error
        contents = Contents(
            needed=plan["needed"],
            shown=[tuple(item) for item in plan["shown"]],
            small=[tuple(item) for item in plan["small"]],
            etc=plan["etc"],
            groups=group.shown if group else {},
            parcel=self._parcel(plan["parcel"]),
        )
        Tree(to, f"{STORE}/hosts/{plan['name']}", contents).enter()

    def _parcel(self, name: str) -> int:
        if not name:
            return -1
        return os.open(f"/proc/self/fd/{self._directory}/{name}", os.O_RDONLY | os.O_CLOEXEC)

    def _beside(self, name: str) -> Message:
        host = self._hosts.get(name)
        if host is not None:
            self._look_after(host)
        if host is None or not host.pid:
            raise OSError(f"host {name} is {'not there' if host is None else 'off'}")
        if host.beside is not None:
            if os.waitpid(host.beside[0], os.WNOHANG)[0] == 0:
                return {}
            host.beside[1].close()
        ours, theirs = socket.socketpair()
        ours.settimeout(_PATIENCE)
        pid = self._fork(f"{name}{BESIDE}.sock", theirs, host.plan, None, beside=host.pid)
        theirs.close()
        host.beside = pid, ours
        _hear(ours, f"beside host {name}")
        return {}

    # Switching

    def _power(self, wanted: dict[str, str]) -> Message:
        for name, state in wanted.items():
            host = self._hosts.get(name)
            if host is None:
                raise OSError(f"host {name} is not there")
            self._look_after(host)
            if state == "off":
                self._off(host)
                continue
            if not host.pid:
                raise OSError(f"host {name} should be {state}, it is off")
            if (state == "paused") != host.paused:
                self._halt(host, on=state == "paused")
        return {}

    def _off(self, host: Host) -> None:
        """As pulling the plug: its processes are killed, all at once."""
        if host.paused and host.pid:
            self._halt(host, on=False)
        if host.pid:
            os.kill(host.pid, signal.SIGKILL)
            os.waitpid(host.pid, 0)
            host.pid = 0
        host.link.close()
        if host.beside is not None:
            pid, link = host.beside
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
            link.close()
            host.beside = None
        if host.group is not None:
            host.group.remove()
            host.group = None
        host.paused = False

    def _halt(self, host: Host, *, on: bool) -> None:
        if host.group is not None and host.group.can_halt:
            host.group.halt(on=on)
        elif on:
            host.halted = stop_all(host.pid)
        else:
            go_on(host.halted)
            host.halted = []
        host.paused = on


def _why(error: OSError, value: str) -> str:
    return {
        "FileNotFoundError": "the kernel does not have it for a host",
        "PermissionError": "the kernel has it for the whole machine only",
    }.get(type(error).__name__, f"the kernel does not take {value!r} for it")


def _hear(link: socket.socket, whom: str) -> Message:
    """What a first process says; OSError if that is an error, or nothing."""
    try:
        told, _ = channel.receive(link)
    except (channel.Gone, TimeoutError) as error:
        raise OSError(f"{whom}: did not start") from error
    if "error" in told:
        kind = limits.Refused if told.get("planned") else OSError
        raise kind(f"{whom}: {told['error']}")
    return told


def keep(
    settings: Message, directory: int, listener: socket.socket, ready: Callable[[], None]
) -> NoReturn:
    """Be the keeper: within new namespaces already, outside which everything is left as it is."""
    to = Elsewhere(settings["machine"])
    make_keepers_tree(to, settings["at"], root=not settings["mapped"])
    to.interface("lo")
    keeper = Keeper(settings, directory)
    ready()
    # What a look from beside a host needs, once for all of them.
    for name in _FOR_LOOKS:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # Or each first process would copy all this, looking for garbage in it.
    keeper.serve(listener)
