"""What is looked at before joining, so that nobody has to do it by hand.

The interfaces of this machine, and which of them to use; whether names resolve
to what they should; whether the port is free (rank 0), or somebody answers
there (the others); and, when nobody does, whether that looks like a firewall.
"""

from __future__ import annotations

import errno
import fcntl
import ipaddress
import os
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from fedtest.comm import PortTaken, interfaces
from fedtest.ring.errors import StartError

Say = Callable[[str], None]

_SIOCGIFNETMASK = 0x891B
_TRY = 2.0  # seconds for one connection
_PAUSE = 0.2  # seconds between two
_TELL = 10.0  # seconds between two lines about waiting
_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")


def networks() -> dict[str, list[ipaddress.IPv4Interface | ipaddress.IPv6Interface]]:
    """The addresses of each interface with their networks."""
    found = {}
    lengths = _ipv6_lengths()
    for name, addresses in interfaces.addresses().items():
        found[name] = [
            ipaddress.ip_interface(f"{each}/{lengths.get(each) or _ipv4_mask(name) or 32}")
            for each in addresses
        ]
    return found


def proposed(master: str) -> str | None:
    """The interface whose network holds the address `master`; the smallest, if several do."""
    address = ipaddress.ip_address(master)
    holding = [
        (each.network.prefixlen, name)
        for name, addresses in networks().items()
        for each in addresses
        if address in each.network
    ]
    return max(holding)[1] if holding else None


def resolve(host: str, rank: int) -> str:
    """The address of rank 0, numeric. Raises StartError that says what /etc/hosts lacks."""
    try:
        places = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise StartError(
            f"the name {host!r} does not resolve here ({error.strerror or error}): is the alias "
            f"missing from /etc/hosts? Add a line like `192.168.0.1 {host}` there, on every "
            "server, or give rank 0's address in --init-method"
        ) from error
    address = str(places[0][4][0])
    if rank > 0 and host != address and ipaddress.ip_address(address).is_loopback:
        raise StartError(
            f"the name {host!r} of rank 0 resolves to {address}, which is this machine itself; "
            "in /etc/hosts it has to have rank 0's address on the network that is used"
        )
    return address


def look(say: Say, master: str, asked: str | None, size: int) -> None:
    """Say what interfaces there are, which one to use, and what is wrong with the own name."""
    here = networks()
    listed = ", ".join(
        f"{name} {' '.join(map(str, found)) or '(no address)'}" for name, found in here.items()
    )
    say(f"interfaces: {listed}")
    wanted = proposed(master)
    if asked is not None:
        if wanted is not None and asked not in (wanted, "lo") and size > 1 and asked in here:
            say(
                f"note: rank 0's address {master} is in the network of {wanted}, "
                f"not of {asked}; are the ranks to connect over another one?"
            )
        return
    if wanted is not None:
        say(f"proposal: --gloo_socket_ifname {wanted}, whose network holds rank 0's {master}")
    elif size > 1:
        say(f"note: no interface here is in one network with rank 0's {master}")
    own = interfaces.default_address()
    taken = interfaces.interface_of(own)
    say(f"without it Gloo takes {taken}: the host's own name leads to {own}")
    if size > 1 and ipaddress.ip_address(own).is_loopback and not _loopback(master):
        say(
            f"note: other servers cannot reach {own}; is {socket.gethostname()!r} missing from "
            "/etc/hosts, or there with a loopback address?"
        )


def port_is_free(host: str, port: int) -> None:
    """Raise PortTaken unless rank 0 can listen there."""
    for family, kind, _, _, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        with socket.socket(family, kind) as trial:
            # As the store does: a port on which connections have just ended is free.
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind((str(place[0]), port))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    raise PortTaken(
                        f"port {port} is in use on this machine: `ss -tlnp sport = {port}` says "
                        "by whom; end that, or choose another port, the same on every server"
                    ) from error
                if error.errno == errno.EACCES:
                    raise StartError(
                        f"port {port}: {error.strerror}; take one from 1024 up"
                    ) from error
        return


def wait_for_master(say: Say, host: str, port: int, seconds: float) -> float:
    """Until somebody listens there; how long that took. Raises StartError that says why not.

    A refusal means that the machine is there and rank 0 is not, yet. Silence, or
    a router's word, is what a firewall or a wrong address looks like.
    """
    began = told = time.monotonic()
    while True:
        left = began + seconds - time.monotonic()
        try:
            socket.create_connection((host, port), timeout=max(0.001, min(_TRY, left))).close()
        except OSError as error:
            what = _explained(error, host, port)
        else:
            return time.monotonic() - began
        now = time.monotonic()
        if now >= began + seconds:
            raise StartError(f"rank 0 is not there after {seconds:g} s: {what}")
        if now - told >= _TELL:
            told = now
            say(f"waiting for rank 0 for {now - began:.0f} s: {what}")
        time.sleep(min(_PAUSE, max(0.0, began + seconds - now)))


def firewall_hint() -> str:
    """What it looks like when only the master's port is let through."""
    low, high = _local_ports()
    return (
        "all have met at rank 0's port, but could not connect to one another: that is what a "
        f"firewall on the other ports looks like. Gloo takes any of {low} to {high}; let them "
        "through between these servers"
    )


def _explained(error: OSError, host: str, port: int) -> str:
    where = f"{host}:{port}"
    if isinstance(error, ConnectionRefusedError):
        return (
            f"{where} refuses connections: the machine is there, but nothing listens; does rank 0 "
            "run, with this address and port? (A firewall that rejects looks the same)"
        )
    if isinstance(error, TimeoutError):
        return (
            f"{where} does not answer at all: that is what a firewall that drops packets looks "
            f"like, or an address that nobody has. Let TCP port {port} through on rank 0, and "
            "all ports between the servers, or try without the firewall"
        )
    return (
        f"{where} cannot be reached: {error.strerror or error}; is it the right address, is there "
        "a way to its network, does a firewall reject?"
    )


def _loopback(address: str) -> bool:
    return ipaddress.ip_address(address).is_loopback


def _ipv4_mask(name: str) -> str | None:
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("256s", os.fsencode(name))
        return socket.inet_ntoa(fcntl.ioctl(any_socket, _SIOCGIFNETMASK, request)[20:24])
    return None


def _ipv6_lengths() -> dict[str, int]:
    found = {}
    with suppress(OSError):
        for line in Path("/proc/net/if_inet6").read_text(encoding="ascii").splitlines():
            digits, _, length, *_ = line.split()
            found[str(ipaddress.IPv6Address(bytes.fromhex(digits)))] = int(length, 16)
    return found


def _local_ports() -> tuple[int, int]:
    with suppress(OSError, ValueError):
        low, high = _PORTS.read_text(encoding="ascii").split()
        return int(low), int(high)
    return 32768, 60999
