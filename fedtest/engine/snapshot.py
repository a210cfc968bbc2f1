"""A host as it was read back: interfaces, counters, sockets, names.

Parsed from the text that `inside.SNAPSHOT` prints, so it is the same for every
engine, and the text itself is kept as an artifact.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface, ip_address

from fedtest.engine.inside import END
from fedtest.engine.routes import routes
from fedtest.sections import sections

_IFF_UP = 1
_LINK_LOCAL = 0x20
_TCP_STATES = {
    1: "established", 2: "syn-sent", 3: "syn-recv", 4: "fin-wait-1", 5: "fin-wait-2",
    6: "time-wait", 7: "close", 8: "close-wait", 9: "last-ack", 10: "listen", 11: "closing",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Interface:
    """One interface; the counters are the kernel's, since the interface was made.

    `addresses` are without those that the kernel gives every interface with IPv6 (link-local).
    """

    name: str
    mac: str
    mtu: int
    up: bool
    addresses: tuple[IPv4Interface | IPv6Interface, ...]
    rx_bytes: int
    rx_packets: int
    tx_bytes: int
    tx_packets: int


@dataclass(frozen=True, slots=True)
class TcpSocket:
    """One TCP socket. `session`: the session id of a process that holds it, or None."""

    local: IPv4Address | IPv6Address
    local_port: int
    remote: IPv4Address | IPv6Address
    remote_port: int
    state: str
    session: int | None


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """One process: its state (a letter, as `ps` shows it), its process group and session."""

    state: str
    group: int
    session: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One host at one moment. `uptime`: the source's monotonic clock, in seconds since `boot`.

    `born`: when the host was started, in clock ticks of the same clock. `processes`: those that
    have not ended, by process id; empty where nobody asked for them. `oom_kills`: how many of
    its processes the kernel has killed for want of memory; None if it does not say. `settings`:
    path -> content of files that were asked for, where they are.
    """

    uptime: float
    born: int
    boot: str
    interfaces: dict[str, Interface]
    sockets: tuple[TcpSocket, ...]
    hosts_file: str
    resolv_conf: str
    text: str
    processes: dict[int, ProcessFacts] = field(default_factory=dict)
    oom_kills: int | None = None
    settings: dict[str, str] = field(default_factory=dict)


def parse(text: str) -> Snapshot:
    """Read what `inside.SNAPSHOT` printed. ValueError if that is not whole."""
    if END not in text:
        raise ValueError("the host's description of itself was cut short")
    try:
        return _parse(text)
    except LookupError as error:
        raise ValueError(f"the host's description of itself lacks {error}") from error


def _parse(text: str) -> Snapshot:
    parts = sections(text)
    return Snapshot(
        uptime=float(parts["/proc/uptime"].split()[0]),
        born=int(parts["/proc/1/stat"].rpartition(")")[2].split()[19]),
        boot=parts["/proc/sys/kernel/random/boot_id"].strip(),
        interfaces=_interfaces(parts),
        sockets=_sockets(parts),
        hosts_file=parts["/etc/hosts"],
        resolv_conf=parts["/etc/resolv.conf"],
        text=text,
        processes=_processes(parts.get("stat", "")),
        oom_kills=_oom_kills(parts),
        settings={
            path: body
            for path, body in parts.items()
            if path.startswith(("/sys/fs/cgroup/", "/proc/sys/", "/proc/swaps"))
        },
    )


def _oom_kills(parts: dict[str, str]) -> int | None:
    for path in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        found = re.search(r"^oom_kill (\d+)$", parts.get(path, ""), flags=re.MULTILINE)
        if found:
            return int(found[1])
    return None


def _interfaces(parts: dict[str, str]) -> dict[str, Interface]:
    addresses = _addresses(parts["/proc/net/fib_trie"], parts["/proc/net/route"])
    addresses6 = _addresses6(parts.get("/proc/net/if_inet6", ""))
    counters = {}
    for line in parts["/proc/net/dev"].splitlines()[2:]:
        name, _, numbers = line.partition(":")
        counters[name.strip()] = [int(number) for number in numbers.split()]
    found = {}
    for line in parts["links"].splitlines():
        name, mac, mtu, flags = line.rsplit(" ", 3)
        if name not in counters or not (mtu and flags):
            continue  # It went away while we looked.
        rx_bytes, rx_packets, *_rest = counters[name]
        tx_bytes, tx_packets = counters[name][8:10]
        found[name] = Interface(
            name=name,
            mac=mac,
            mtu=int(mtu),
            up=bool(int(flags, 16) & _IFF_UP),
            addresses=(*addresses.get(name, ()), *addresses6.get(name, ())),
            rx_bytes=rx_bytes,
            rx_packets=rx_packets,
            tx_bytes=tx_bytes,
            tx_packets=tx_packets,
        )
    return found


def _addresses(fib_trie: str, route: str) -> dict[str, tuple[IPv4Interface, ...]]:
    """/proc names the local addresses without their interface: the connected route has it."""
    connected = [item for item in routes(route) if item.connected]
    found: dict[str, list[IPv4Interface]] = {}
    seen = set()
    last = ""
    for line in fib_trie.splitlines():
        stripped = line.strip()
        if stripped.startswith("|--"):
            last = stripped[3:].strip()
        elif stripped == "/32 host LOCAL" and last not in seen:
            seen.add(last)
            address = IPv4Address(last)
            within = [
                (item.destination.prefixlen, item.interface)
                for item in connected
                if address in item.destination
            ]
            if within:
                prefix, name = max(within)
                found.setdefault(name, []).append(IPv4Interface(f"{address}/{prefix}"))
    return {name: tuple(items) for name, items in found.items()}


def _addresses6(if_inet6: str) -> dict[str, list[IPv6Interface]]:
    """Lines of address, index, prefix, scope, flags and interface, all but the last in hex."""
    found: dict[str, list[IPv6Interface]] = {}
    for line in if_inet6.splitlines():
        digits, _, prefix, scope, _, name = line.split()
        if int(scope, 16) != _LINK_LOCAL:
            address = IPv6Interface((int(digits, 16), int(prefix, 16)))
            found.setdefault(name, []).append(address)
    return {name: sorted(items) for name, items in found.items()}


def _sockets(parts: dict[str, str]) -> tuple[TcpSocket, ...]:
    holder = _holders(parts.get("fd", ""), parts.get("stat", ""))
    found = []
    for section in ("/proc/net/tcp", "/proc/net/tcp6"):
        # A machine without IPv6 has no second one.
        for line in parts.get(section, "").splitlines()[1:]:
            words = line.split()
            local, local_port = _endpoint(words[1])
            remote, remote_port = _endpoint(words[2])
            state = _TCP_STATES.get(int(words[3], 16), words[3])
            session = holder.get(int(words[9]))
            found.append(TcpSocket(local, local_port, remote, remote_port, state, session))
    return tuple(found)


def _endpoint(word: str) -> tuple[IPv4Address | IPv6Address, int]:
    digits, port = word.split(":")
    words = [int(digits[i : i + 8], 16) for i in range(0, len(digits), 8)]
    address = ip_address(struct.pack(f"<{len(words)}I", *words))
    # A dual-stack socket speaks IPv4 under a mapped address.
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address, int(port, 16)


def _holders(fd: str, stat: str) -> dict[int, int]:
    """Inode of a socket -> session id of the process that has it open."""
    session = {pid: facts.session for pid, facts in _processes(stat).items()}
    found = {}
    pid = 0
    for line in fd.splitlines():
        if match := re.fullmatch(r"/proc/(\d+)/fd:", line):
            pid = int(match[1])
        elif (match := re.search(r"-> socket:\[(\d+)\]$", line)) and pid in session:
            found[int(match[1])] = session[pid]
    return found


def _processes(stat: str) -> dict[int, ProcessFacts]:
    """Lines of /proc/PID/stat; what has ended and is only not yet waited for is left out."""
    found = {}
    for line in stat.splitlines():
        head, _, tail = line.rpartition(")")
        pid, words = head.split("(")[0].strip(), tail.split()
        if pid.isdigit() and len(words) > 3 and words[0] not in {"Z", "X"}:
            found[int(pid)] = ProcessFacts(words[0], int(words[2]), int(words[3]))
    return found
