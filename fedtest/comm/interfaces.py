"""This machine's interfaces and addresses, and which of them Gloo takes."""

from __future__ import annotations

import fcntl
import ipaddress
import os
import socket
import struct
from contextlib import suppress
from pathlib import Path

from fedtest.comm.errors import AddressError, InterfaceError

VARIABLE = "GLOO_SOCKET_IFNAME"
_SIOCGIFADDR = 0x8915
_LISTEN = "0A"


def addresses() -> dict[str, list[str]]:
    """The addresses of each interface: IPv4, then IPv6 but link-local ones."""
    found: dict[str, list[str]] = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            found[name] = []
            with suppress(OSError):  # it has none
                request = struct.pack("256s", os.fsencode(name))
                answer = fcntl.ioctl(any_socket.fileno(), _SIOCGIFADDR, request)
                found[name].append(socket.inet_ntoa(answer[20:24]))
    with suppress(OSError):  # no IPv6 here
        for line in Path("/proc/net/if_inet6").read_text(encoding="ascii").splitlines():
            digits, *_, name = line.split()
            address = ipaddress.IPv6Address(bytes.fromhex(digits))
            if not address.is_link_local:
                found.setdefault(name, []).append(str(address))
    return found


def check(names: str) -> str:
    """The address that Gloo takes for `names`: that of the first, of several with commas.

    Raises InterfaceError if one of them is not there or has no address.
    """
    here = addresses()
    asked = names.split(",")
    for name in asked:
        if name not in here:
            raise InterfaceError(f"no interface {name!r} here; there are {_listed(here)}")
        if not here[name]:
            raise InterfaceError(
                f"the interface {name!r} has no address; there are {_listed(here)}"
            )
    return here[asked[0]][0]


def default_address() -> str:
    """The address that Gloo takes when no interface is named: the own name's, or loopback."""
    with suppress(OSError):
        for family, _, _, _, place in socket.getaddrinfo(
            socket.gethostname(), None, type=socket.SOCK_STREAM
        ):
            if _is_local(family, str(place[0])):
                return str(place[0])
    return "127.0.0.1"


def interface_of(address: str) -> str | None:
    """The name of the interface with `address`."""
    wanted = ipaddress.ip_address(address)
    for name, found in addresses().items():
        if any(ipaddress.ip_address(each) == wanted for each in found):
            return name
    return "lo" if wanted.is_loopback else None


def check_own(host: str) -> None:
    """Raise AddressError unless `host` is this machine, where rank 0 is to listen."""
    try:
        places = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise AddressError(f"the address {host!r} of rank 0 does not resolve: {error}") from error
    if not any(_is_local(family, str(place[0])) for family, _, _, _, place in places):
        where = sorted({str(place[0]) for *_, place in places})
        means = "" if where == [host] else f" ({', '.join(where)})"
        raise AddressError(
            f"rank 0 is to listen at {host}{means}, which is no address of this machine; "
            f"it has {_listed(addresses())}"
        )


def listening() -> set[tuple[str, int]]:
    """The addresses at which this process listens, those for every address left out."""
    own = set()
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            own.add(str(entry.readlink()))
    found = set()
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in (Path("/proc/self/net") / table).read_text(encoding="ascii").splitlines():
                field = line.split()
                if field[3] == _LISTEN and f"socket:[{field[9]}]" in own:
                    found.add(_place(field[1]))
    return {place for place in found if not ipaddress.ip_address(place[0]).is_unspecified}


def _place(text: str) -> tuple[str, int]:
    digits, port = text.split(":")
    # Groups of 32 bits, each in the machine's own byte order.
    words = struct.unpack(f">{len(digits) // 8}I", bytes.fromhex(digits))
    packed = struct.pack(f"={len(words)}I", *words)
    address = ipaddress.ip_address(packed)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return str(address), int(port, 16)


def _is_local(family: int, address: str) -> bool:
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as trial:
        trial.bind((address, 0))
        return True
    return False


def _listed(found: dict[str, list[str]]) -> str:
    return ", ".join(
        f"{name} ({', '.join(each) or 'no address'})" for name, each in sorted(found.items())
    )
