"""The file system of a host: the machine's, read-only, but for directories of its own.

A run's keeper first makes itself a tree without what other programs mounted on
the machine; every host's is made from that one. What a host writes lies in the
keeper's memory and goes with it; it outlives the host's own restart, as a disk
does.
"""

from __future__ import annotations

import errno
import os
import stat
import tarfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fedtest.engine.netns.elsewhere import NO_DEVICES, NO_EXEC, NO_SUID, READ_ONLY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from fedtest.engine.netns.elsewhere import Elsewhere

STORE = "/.fedtest"
"""In the keeper's tree: what hosts have of their own."""

OWN = {"/tmp": 0o1777, "/var/tmp": 0o1777, "/home": 0o755, "/root": 0o755}  # noqa: S108 - a host's
"""Directories of every host's own, on its disk. /run and /dev/shm are new at each start."""

_HIDDEN = (*OWN, "/run")
HOME = "/home/fedtest"
_SHM = 1 << 29  # torch's data loaders share memory; as much as with Docker.
_VIRTUAL = ("proc", "sys", "dev", "run")
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_READ_ONLY = ("sys", "sysrq-trigger", "irq", "bus", "fs")
_NO_DISK = frozenset(
    (
        *("autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts"),
        *("devtmpfs", "efivarfs", "fusectl", "hugetlbfs", "mqueue", "nsfs", "overlay", "proc"),
        *("pstore", "ramfs", "rpc_pipefs", "securityfs", "squashfs", "sysfs", "tmpfs", "tracefs"),
    )
)


@dataclass(frozen=True)
class Contents:
    """What a host's tree is to have beside the machine's files.

    `needed`: paths of the machine that must be seen even under a directory that
    is hidden. `shown`: (path, directory of the machine, whether it may be
    written to). `small`: (path, bytes) of file systems in memory. `etc`: files
    of /etc, by name. `groups`: where a control group is shown -> where it is.
    `parcel`: a tar file, open for reading, of what is put there; -1 for none.
    """

    needed: Sequence[str] = ()
    shown: Sequence[tuple[str, str, bool]] = ()
    small: Sequence[tuple[str, int]] = ()
    etc: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)
    parcel: int = -1

    @property
    def places(self) -> list[str]:
        """Directories that must be there for something to be mounted on."""
        return [item[0] for item in self.shown] + [item[0] for item in self.small]


def make_keepers_tree(to: Elsewhere, at: str, *, root: bool) -> None:
    """The machine's own file systems, and nothing that is mounted for others; then go there.

    `at`: a directory at the top, not seen in the new tree; else the tree would be in itself.
    """
    to.follow_only()
    to.mount("tmpfs", at, NO_DEVICES, "mode=755")
    for name, path in _entries("/"):
        new = f"{at}/{name}"
        if os.path.islink(path):
            os.symlink(os.readlink(path), new)
        elif os.path.isdir(path) and path != at:
            os.mkdir(new)
            # Without root what others mounted below cannot be left out.
            to.bind(path, new, recursive=not root or name == "dev")
    if root:
        for path in _disks():
            if os.path.isdir(at + path):
                with suppress(PermissionError):
                    to.bind(path, at + path, recursive=False)
    for name in ("proc", "sys"):
        os.mkdir(f"{at}/{name}")
    to.mount("proc", f"{at}/proc", NO_SUID | NO_DEVICES | NO_EXEC)
    to.mount("sysfs", f"{at}/sys", NO_SUID | NO_DEVICES | NO_EXEC)
    _control_groups(to, f"{at}/sys/fs/cgroup")
    os.mkdir(at + STORE)
    os.mkdir(f"{at}{STORE}/root")
    to.pivot(at)


def _entries(directory: str) -> Iterator[tuple[str, str]]:
    for name in sorted(os.listdir(directory)):
        if name not in {"proc", "sys", "lost+found", STORE[1:]}:
            yield name, f"{directory.rstrip('/')}/{name}"


def _disks() -> Iterator[str]:
    """Where file systems with files of their own are mounted below the root, outermost first."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            words = line.split()
            path, kind = words[4], words[words.index("-") + 1]
            top = path.split("/")[1]
            # Of file systems in memory those like /tmp, and not what containers have.
            disk = kind not in _NO_DISK or (kind == "tmpfs" and path.count("/") <= 2)
            if path != "/" and top not in _VIRTUAL and disk and "\\" not in path:
                yield path


def _control_groups(to: Elsewhere, at: str) -> None:
    """Where they can be seen, so that hosts can be put into some."""
    if os.path.isdir(at):
        with suppress(OSError):
            to.bind("/sys/fs/cgroup", at)


class Tree:
    """Makes one host's tree, within the host's namespaces, and goes there."""

    def __init__(self, to: Elsewhere, store: str, contents: Contents) -> None:
        self._to = to
        self._store = store
        self._contents = contents
        self._new = f"{STORE}/root"
        self._rooms: list[str] = []
        self._given = f"{store}/given"
        self._again = os.path.exists(self._given)

    def enter(self, *, beside: bool = False) -> None:
        """`beside`: a tree for scripts, where the kernel's settings may be written."""
        to, new = self._to, self._new
        to.mount("tmpfs", new, NO_DEVICES, "mode=755")
        for name, path in _entries("/"):
            if os.path.islink(path):
                os.symlink(os.readlink(path), f"{new}/{name}")
            elif os.path.isdir(path):
                os.mkdir(f"{new}/{name}")
                if name not in _VIRTUAL and f"/{name}" not in OWN:
                    to.bind(path, f"{new}/{name}")
        for name in ("proc", "sys", "dev", "run"):
            os.makedirs(f"{new}/{name}", exist_ok=True)
        self._before_it_is_read_only()
        to.read_only(new)
        self._own()
        self._etc()
        for path, source, write in self._contents.shown:
            to.bind(source, new + path)
            (to.no_devices if write else to.read_only)(new + path)
        for path, size in self._contents.small:
            to.mount("tmpfs", new + path, NO_SUID | NO_DEVICES, f"mode=1777,size={size}")
        self._devices()
        flags = NO_SUID | NO_DEVICES | NO_EXEC
        to.mount("proc", f"{new}/proc", flags)
        to.mount("sysfs", f"{new}/sys", flags | (0 if beside else READ_ONLY))
        if not beside:
            for name in _READ_ONLY:
                if os.path.exists(f"{new}/proc/{name}"):
                    to.bind(f"{new}/proc/{name}", f"{new}/proc/{name}")
                    to.read_only(f"{new}/proc/{name}")
        self._groups()
        _touch(self._given)
        to.pivot(new)

    def _before_it_is_read_only(self) -> None:
        """Places for what is mounted later, where the machine has none."""
        for top in OWN:
            os.makedirs(self._new + top, exist_ok=True)
        if not all(_is_plain(f"/etc/{name}") for name in self._contents.etc):
            self.room("/etc")
            for name in self._contents.etc:
                with suppress(FileNotFoundError):
                    os.unlink(f"{self._new}/etc/{name}")
                with open(f"{self._new}/etc/{name}", "w", encoding="utf-8"):
                    pass
        for path in self._contents.places:
            if not _under(path, _HIDDEN):
                self.directory(path)
        self._put(hidden=False)

    def directory(self, path: str) -> None:
        """A directory at `path`, made where there is none, but never on the machine."""
        if os.path.isdir(self._new + path):
            return
        parent = os.path.dirname(path)
        while not os.path.isdir(self._new + parent):
            parent = os.path.dirname(parent)
        if not _under(path, _HIDDEN):
            self.room(parent)
        os.makedirs(self._new + path, exist_ok=True)

    def room(self, path: str) -> None:
        """What is added to this directory of the machine is the host's alone."""
        if _under(path, self._rooms) or path == "/" or not self._is_machines(path):
            return
        place = f"{self._store}/rooms/{path.strip('/').replace('/', '.')}"
        for name in ("added", "work"):
            os.makedirs(f"{place}/{name}", exist_ok=True)
        _like(self._new + path, f"{place}/added")
        data = f"lowerdir={self._new}{path},upperdir={place}/added,workdir={place}/work"
        if os.geteuid() == 0 and not _is_machines_root():
            data += ",userxattr"
        try:
            self._to.mount("overlay", self._new + path, 0, data)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            # Without root, not over a directory in which something is mounted.
            self._mirror(path, f"{place}/mirror{time.monotonic_ns()}")
        self._rooms.append(path)

    def _mirror(self, path: str, place: str) -> None:
        """A directory of the host's own with all that is in the machine's."""
        os.makedirs(place)
        _like(path, place)
        self._to.bind(place, self._new + path)
        for name in os.listdir(path):
            old, new = f"{path}/{name}", f"{self._new}{path}/{name}"
            if os.path.islink(old):
                os.symlink(os.readlink(old), new)
            elif os.path.isdir(old) or os.path.isfile(old):
                (os.mkdir if os.path.isdir(old) else _touch)(new)
                self._to.bind(old, new)

    def _is_machines(self, path: str) -> bool:
        """And not one that was made in the host's own root, which is in memory."""
        return os.stat(self._new + path).st_dev != os.stat(self._new).st_dev

    def _put(self, *, hidden: bool) -> None:
        """What the scenario puts there: under directories of the host's own, or elsewhere."""
        if self._contents.parcel < 0:
            return
        os.lseek(self._contents.parcel, 0, os.SEEK_SET)
        with (
            open(self._contents.parcel, "rb", closefd=False) as file,
            tarfile.open(fileobj=file) as tar,
        ):
            for item in tar:
                path = f"/{item.name}"
                # On the host's disk they are its processes' from the first start on.
                kept = self._again and _under(path, OWN)
                if _under(path, _HIDDEN) is hidden and not kept:
                    self._put_one(path, item, tar)

    def _put_one(self, path: str, item: tarfile.TarInfo, tar: tarfile.TarFile) -> None:
        new = self._new + path
        if item.isdir():
            self.directory(path)
            if not _under(path, _HIDDEN):
                self.room(path)
        else:
            self.directory(os.path.dirname(path))
            if not _under(path, _HIDDEN):
                self.room(os.path.dirname(path))
            with suppress(FileNotFoundError):
                os.unlink(new)
            content = tar.extractfile(item)
            with open(new, "xb") as file:
                file.write(content.read() if content else b"")
        with suppress(OSError):  # Without root there is one user; reading back tells.
            os.chown(new, item.uid, item.gid)
        os.chmod(new, item.mode)

    def _own(self) -> None:
        for path, mode in OWN.items():
            mine = f"{self._store}/own{path}"
            if not os.path.isdir(mine):
                os.makedirs(mine)
                os.chmod(mine, mode)
                if path == "/home":
                    os.mkdir(f"{mine}/fedtest", 0o755)
                    with suppress(OSError):  # Without root it is the user's own already.
                        os.chown(f"{mine}/fedtest", 1000, 1000)
            if os.path.isdir(self._new + path):
                self._to.bind(mine, self._new + path)
        self._to.mount("tmpfs", f"{self._new}/run", NO_SUID | NO_DEVICES, "mode=755")
        for path in self._contents.places:
            if _under(path, _HIDDEN):
                os.makedirs(self._new + path, exist_ok=True)
        self._put(hidden=True)
        self._needed()

    def _needed(self) -> None:
        """Nothing of the machine is seen in hidden directories but what must be."""
        closed = sorted({top for path in self._contents.needed if (top := _closed(path))})
        for path in closed:
            if not _under(path, _HIDDEN):
                self._to.mount("tmpfs", self._new + path, NO_DEVICES, "mode=755")
        hidden = [*_HIDDEN, *closed]
        done: list[str] = []
        for path in sorted(self._contents.needed):
            if not _under(path, hidden) or _under(path, done) or not os.path.exists(path):
                continue
            os.makedirs(os.path.dirname(self._new + path), exist_ok=True)
            self._show(path, mounted=path in closed and not _under(path, _HIDDEN))
            done.append(path)
        for path in closed:
            if not _under(path, _HIDDEN):
                self._to.read_only(self._new + path)

    def _show(self, path: str, *, mounted: bool = False) -> None:
        """What the machine has at `path`, also if not everybody may pass to it there.

        `mounted`: a directory is there that everybody may pass.
        """
        new = self._new + path
        if not os.path.isdir(path):
            _touch(new)
        else:
            os.makedirs(new, exist_ok=True)
            if not os.stat(path).st_mode & 0o001:
                if not mounted:
                    self._to.mount("tmpfs", new, NO_DEVICES, "mode=755")
                for name in sorted(os.listdir(path)):
                    if not os.path.islink(f"{path}/{name}"):
                        self._show(f"{path}/{name}")
                    elif not os.path.lexists(f"{new}/{name}"):
                        os.symlink(os.readlink(f"{path}/{name}"), f"{new}/{name}")
                if not mounted:
                    self._to.read_only(new)
                return
        self._to.bind(path, new)
        self._to.read_only(new)

    def _etc(self) -> None:
        for name, text in self._contents.etc.items():
            mine = f"{self._store}/own/etc/{name}"
            os.makedirs(os.path.dirname(mine), exist_ok=True)
            with open(mine, "w", encoding="utf-8") as file:
                file.write(text)
            self._to.bind(mine, f"{self._new}/etc/{name}")

    def _devices(self) -> None:
        dev = f"{self._new}/dev"
        # Those that there are come by themselves: none that root makes here is one.
        self._to.mount("tmpfs", dev, NO_SUID | NO_DEVICES, "mode=755,size=64k")
        for name in _DEVICES:
            _touch(f"{dev}/{name}")
            self._to.bind(f"/dev/{name}", f"{dev}/{name}")
        for name, target in (
            ("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2"),
            ("ptmx", "pts/ptmx"),
        ):  # fmt: skip
            os.symlink(target, f"{dev}/{name}")
        for name in ("pts", "shm"):
            os.mkdir(f"{dev}/{name}")
        with suppress(OSError):  # Terminals are for people; some kernels have none to give.
            data = "newinstance,ptmxmode=0666,mode=620"
            self._to.mount("devpts", f"{dev}/pts", NO_SUID | NO_EXEC, data)
        flags = NO_SUID | NO_DEVICES | NO_EXEC
        self._to.mount("tmpfs", f"{dev}/shm", flags, f"mode=1777,size={_SHM}")

    def _groups(self) -> None:
        """A host sees its own control groups where it would see the machine's."""
        at = f"{self._new}/sys/fs/cgroup"
        if not self._contents.groups or not os.path.isdir(at):
            return
        if set(self._contents.groups) != {""}:
            self._to.mount("tmpfs", at, NO_SUID | NO_DEVICES, "mode=755,size=64k")
        for shown, place in self._contents.groups.items():
            os.makedirs(f"{at}/{shown}".rstrip("/"), exist_ok=True)
            self._to.bind(place, f"{at}/{shown}".rstrip("/"))
        self._to.read_only(at)


def _under(path: str, tops: Iterable[str]) -> bool:
    return any(path == top or path.startswith(f"{top}/") for top in tops)


def _is_plain(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _closed(path: str) -> str | None:
    """The first directory on the way there that not everybody may pass."""
    parts = path.split("/")[1:]
    for count in range(1, len(parts) + 1):
        here = "/" + "/".join(parts[:count])
        try:
            found = os.stat(here)
        except OSError:
            return None
        if stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o001:
            return here
    return None


def _like(model: str, path: str) -> None:
    found = os.stat(model)
    os.chmod(path, stat.S_IMODE(found.st_mode))
    with suppress(OSError):
        os.chown(path, found.st_uid, found.st_gid)


def _touch(path: str) -> None:
    with open(path, "w", encoding="ascii"):
        pass


def _is_machines_root() -> bool:
    """Whether root here is root of the machine: all ids are mapped to themselves."""
    with open("/proc/self/uid_map", encoding="ascii") as file:
        return file.read().split() == ["0", "0", "4294967295"]
