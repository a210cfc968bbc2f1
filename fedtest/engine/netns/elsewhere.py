"""System calls that change mounts, names and networks, none of them in the machine's own.

Every change goes through an `Elsewhere`, which knows the namespaces of the
process that asked for it and refuses to touch them. Nothing else in fedtest
mounts, renames, pivots or configures an interface.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
from typing import TYPE_CHECKING

from fedtest.engine.netns import netlink

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NEW_MOUNTS = 0x00020000
NEW_NAMES = 0x04000000
NEW_IPC = 0x08000000
NEW_USERS = 0x10000000
NEW_PIDS = 0x20000000
NEW_NETWORK = 0x40000000

KINDS = ("ipc", "mnt", "net", "uts")

READ_ONLY = 1
NO_SUID = 2
NO_DEVICES = 4
NO_EXEC = 8
_REMOUNT = 32
_BIND = 4096
_RECURSIVE = 16384
_SLAVE = 1 << 19
_DETACH = 2
_AT_RECURSIVE = 0x8000
_SETATTR = 442  # The same number on every architecture.
_PIVOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "ppc64le": 203, "s390x": 217}
_CAPBSET_DROP = 24
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _SIOCSIFADDR, _SIOCSIFNETMASK = 0x8913, 0x8914, 0x8916, 0x891C
_UP = 1

_libc = ctypes.CDLL(None, use_errno=True)


def _called(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def leave(flags: int) -> None:
    """Go into new namespaces; of process ids, only children do."""
    _called(_libc.unshare(flags), "leaving the machine's namespaces")


def join(descriptor: int, kind: int) -> None:
    """Go into the namespace that is open there."""
    _called(_libc.setns(descriptor, kind), "joining a namespace")


def map_ids(user: int, group: int, own_user: int, own_group: int) -> None:
    """In a user namespace of our own: be `user` and `group`, who outside are our own."""
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {own_user} 1"),
        ("gid_map", f"{group} {own_group} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def drop_capabilities(kept: frozenset[int]) -> None:
    """Whatever is executed from here on has no others."""
    for number in range(64):
        if number not in kept and _libc.prctl(_CAPBSET_DROP, number, 0, 0, 0) < 0:
            return  # The kernel knows no more of them.


def namespaces(process: str = "self") -> dict[str, int]:
    """What tells a process's namespaces from others."""
    return {kind: os.stat(f"/proc/{process}/ns/{kind}").st_ino for kind in KINDS}


class MachinesOwnError(RuntimeError):
    """A change was about to be made in a namespace of the machine itself."""


class Elsewhere:
    """Changes, each refused in a namespace of `machine`."""

    def __init__(self, machine: Mapping[str, int]) -> None:
        self._machine = machine

    def check(self, kind: str, doing: str) -> None:
        """MachinesOwnError if this process's namespace of that kind is the machine's."""
        if os.stat(f"/proc/self/ns/{kind}").st_ino == self._machine[kind]:
            raise MachinesOwnError(f"{doing}: refused in the machine's own namespace ({kind})")

    def mount(
        self, kind: str, target: str, flags: int = 0, data: str = "", source: str = ""
    ) -> None:
        """A file system of that kind."""
        doing = f"mounting {kind} at {target}"
        self.check("mnt", doing)
        arguments = ((source or kind).encode(), target.encode(), kind.encode())
        _called(_libc.mount(*arguments, flags, data.encode()), doing)

    def bind(self, source: str, target: str, *, recursive: bool = True) -> None:
        """What is at `source` also at `target`."""
        doing = f"binding {source} to {target}"
        self.check("mnt", doing)
        flags = _BIND | (_RECURSIVE if recursive else 0)
        _called(_libc.mount(source.encode(), target.encode(), None, flags, None), doing)

    def read_only(self, target: str) -> None:
        """Nothing can be changed there any more, and no device be reached."""
        self._restrict(target, READ_ONLY | NO_DEVICES, f"making {target} read-only")

    def no_devices(self, target: str) -> None:
        """What is or will be a device there is none."""
        self._restrict(target, NO_DEVICES, f"keeping devices from {target}")

    def _restrict(self, target: str, flags: int, doing: str) -> None:
        """With all that is mounted below."""
        self.check("mnt", doing)
        # The attributes that are to be set have the numbers of the flags.
        attributes = struct.pack("=QQQQ", flags, 0, 0, 0)
        done = _libc.syscall(
            ctypes.c_long(_SETATTR), -100, target.encode(), _AT_RECURSIVE, attributes,
            len(attributes),
        )  # fmt: skip
        _called(done, doing)

    def follow_only(self) -> None:
        """What is mounted here from now on is not seen outside; what is outside, here."""
        self.check("mnt", "cutting off mounts")
        _called(_libc.mount(None, b"/", None, _RECURSIVE | _SLAVE, None), "cutting off mounts")

    def pivot(self, new: str) -> None:
        """`new` becomes the root, and nothing of the old one stays."""
        self.check("mnt", f"making {new} the root")
        os.chdir(new)
        number = ctypes.c_long(_PIVOT[os.uname().machine])
        _called(_libc.syscall(number, b".", b"."), f"making {new} the root")
        _called(_libc.umount2(b".", _DETACH), "letting go of the old root")
        os.chdir("/")

    def hostname(self, name: str) -> None:
        """The host's name."""
        self.check("uts", f"naming the host {name}")
        _called(_libc.sethostname(name.encode(), len(name)), f"naming the host {name}")

    def setting(self, path: str, value: str) -> None:
        """Write one of the kernel's settings that a namespace has for itself."""
        for kind in ("ipc", "net", "uts"):
            self.check(kind, f"writing {path}")
        with open(path, "w", encoding="ascii") as file:
            file.write(value)

    def ip(self, program: str, lines: list[str]) -> None:
        """Many changes of the network by one `ip`. OSError with its words."""
        self.check("net", "changing the network")
        try:
            done = subprocess.run(
                [program, "-batch", "-"], input="\n".join(lines) + "\n",
                capture_output=True, text=True, errors="replace", timeout=120, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise OSError("ip: not done after 120 s") from error
        if done.returncode:
            raise OSError(f"ip: {done.stderr.strip()}")

    def interface(self, name: str, address: str = "", mask: str = "") -> None:
        """Give an interface its address, if it is to have one, and switch it on."""
        self.check("net", f"setting up {name}")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            for request, text in ((_SIOCSIFADDR, address), (_SIOCSIFNETMASK, mask)):
                if text:
                    where = struct.pack("=HH4s8x", socket.AF_INET, 0, socket.inet_aton(text))
                    fcntl.ioctl(control, request, struct.pack("16s16s8x", name.encode(), where))
            asked = fcntl.ioctl(control, _SIOCGIFFLAGS, struct.pack("16s24x", name.encode()))
            flags = struct.unpack_from("=H", asked, 16)[0] | _UP
            fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("=16sH22x", name.encode(), flags))

    def neighbours(self, interface: str, known: Iterable[tuple[str, str]]) -> None:
        """Tell the kernel others' link addresses there: (address, link address) each."""
        doing = f"telling {interface} its neighbours"
        self.check("net", doing)
        index = socket.if_nametoindex(interface)
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
            for address, link in known:
                kernel.send(netlink.neighbour(index, address, link))
                if error := netlink.error(kernel.recv(1 << 12)):
                    raise OSError(error, f"{doing}: {address}: {os.strerror(error)}")
