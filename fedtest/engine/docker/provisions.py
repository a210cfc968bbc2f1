"""What a container is given beside networks: limits, settings, directories, files."""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from docker.types import Mount

from fedtest.engine.docker.client import engine_errors
from fedtest.engine.docker.files import read_file, write_tar
from fedtest.engine.parcel import Entry, archive, entries, owner_ids
from fedtest.engine.settings import sysctl_file
from fedtest.errors import EngineError, NotAsPlanned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from fedtest.engine.docker.client import DockerClient
    from fedtest.plan import HostPlan
    from fedtest.plan_provisions import FilePlan

_EVERYBODYS = 0o1777


_PIDS = 2048
"""Processes and threads of a host that asks for no limit: many a torch process with all its
threads, and far from the 32768 that a small machine has for everybody."""

_SAME_SWITCH = "net.ipv4.conf.all.forwarding"


def limits(host: HostPlan) -> dict[str, Any]:
    """Of a host's configuration: its limits and settings."""
    wanted: dict[str, Any] = {}
    if host.limits.cpus is not None:
        wanted["nano_cpus"] = round(host.limits.cpus * 1e9)
    if host.limits.memory is not None:
        # Without swap, or a process would go on there, slowly.
        wanted |= {"mem_limit": host.limits.memory, "memswap_limit": host.limits.memory}
    wanted["pids_limit"] = _PIDS if host.limits.pids is None else host.limits.pids
    # The machine itself forwards, for its containers, and a host would, too. The engine keeps no
    # order among settings, and these two are one switch: the host's own must be alone.
    own = dict(host.sysctls)
    usual = {} if _SAME_SWITCH in own else {"net.ipv4.ip_forward": "0"}
    wanted["sysctls"] = usual | own
    return wanted


def mounts(host: HostPlan, data: Mapping[str, str]) -> list[Mount]:
    """Of a host's configuration: data sets, directories of the machine, small file systems."""
    return [
        *(Mount(path, data[name], type="volume", read_only=True) for name, path in host.data),
        # Not as `binds`: there the engine makes a directory that is missing.
        *(
            Mount(item.path, item.source, type="bind", read_only=not item.write)
            for item in host.mounts
        ),
        *(
            Mount(item.path, None, type="tmpfs", tmpfs_size=item.size, tmpfs_mode=_EVERYBODYS)
            for item in host.tmpfs
        ),
    ]


def refuse_warnings(host: HostPlan, created: Mapping[str, Any]) -> None:
    """What the engine leaves out with a warning is not as planned."""
    said = [
        str(text)
        for text in created.get("Warnings") or ()
        # Whether anything is swapped at all is read back.
        if "not support" in str(text) and "swap" not in str(text)
    ]
    if said and not host.limits.empty:
        raise NotAsPlanned(
            f"host {host.name}: its limits cannot be kept here: {' '.join(said)}",
            remedy="Control groups must be enabled in the kernel (cgroup_enable=memory on the "
            "kernel's command line, on some machines); or leave out the limit.",
        )


@contextmanager
def told_apart(host: HostPlan) -> Iterator[None]:
    """What the engine refuses of a host, by what of the host it is."""
    try:
        yield
    except EngineError as error:
        refusal = _refusal(host, error.message)
        if refusal is None:
            raise
        raise refusal from error


def _shown_as(sysctl: str) -> str:
    """How an engine names the file: `/proc/sys/net`, or since 28 `proc/./sys/net`."""
    return re.escape(sysctl_file(sysctl).removeprefix("/proc/"))


def _refusal(host: HostPlan, said: str) -> NotAsPlanned | None:
    for name, value in host.sysctls:
        if match := re.search(_shown_as(name) + r": ([a-z ]+)", said):
            what = {
                "no such file or directory": "the kernel does not have it for a host",
                "permission denied": "the kernel has it for the whole machine only",
                "invalid argument": f"the kernel does not take {value!r} for it",
            }.get(match[1], match[1])
            return NotAsPlanned(
                f"host {host.name}: sysctl {name}: {what}",
                remedy="Leave it out at `sysctls`, or run on a kernel that has it.",
            )
    for mount in host.mounts:
        if "bind source path does not exist" in said and mount.source in said:
            return NotAsPlanned(
                f"host {host.name}: mounts: {mount.path}: the engine does not see the directory "
                f"{mount.source} of this machine",
                remedy="It is on another machine, or in a root of its own. `files` copies what "
                "must be there.",
            )
    if host.limits.cpus is not None and "range of cpus" in said.lower():
        return NotAsPlanned(
            f"host {host.name}: cpus: {said.rpartition('the engine says: ')[2]}",
            remedy="A limit of more than there is would be none: ask for less at `cpus`.",
        )
    return None


class Parcels:
    """Files for hosts; what several hosts are given is looked up once."""

    def __init__(self, client: DockerClient) -> None:
        self._client = client
        self._entries: dict[tuple[FilePlan, ...], list[Entry]] = {}
        self._lock = threading.Lock()

    def put(self, host: HostPlan, container: str) -> None:
        """Put a host's files into its container, which does not run yet."""
        if not host.files and not host.tmpfs:
            return
        with self._lock:
            if host.files not in self._entries:
                self._entries[host.files] = entries(host.files)
            items = list(self._entries[host.files])
        # A tmpfs is given the mode of the directory that it hides, if that is there, and
        # when the host is started again it is.
        items += [Entry(item.path, True, _EVERYBODYS, "0:0", b"") for item in host.tmpfs]
        with archive(items, self._owners(host, container, items)) as packed:
            write_tar(self._client, container, "/", packed)

    def _owners(
        self, host: HostPlan, container: str, items: Sequence[Entry]
    ) -> Callable[[str], tuple[int, int]]:
        """Numbers need no list; names are those of the host's image."""
        owners = {item.owner for item in items}
        lists = {"passwd": "", "group": ""}
        if not all(re.fullmatch("[0-9]+:[0-9]+", owner) for owner in owners):
            for name in lists:
                with suppress(FileNotFoundError), engine_errors(f"reading /etc/{name}"):
                    text = read_file(self._client, container, f"/etc/{name}")
                    lists[name] = text.decode("utf-8", "replace")

        def ids(owner: str) -> tuple[int, int]:
            try:
                return owner_ids(owner, lists["passwd"], lists["group"])
            except LookupError as error:
                raise NotAsPlanned(
                    f"host {host.name}: files: owner {owner}: {error.args[0]} there",
                    remedy="A number needs no entry in the image: `owner: 1000:1000`.",
                ) from error

        return ids
