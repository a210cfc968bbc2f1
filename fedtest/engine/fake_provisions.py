"""What the fake engine claims of what hosts are given: all is as planned."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fedtest.engine import settings
from fedtest.engine.examine import PathFacts
from fedtest.engine.parcel import entries, owner_ids

if TYPE_CHECKING:
    from fedtest.plan import HostPlan

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_PERIOD = 100_000


def claimed_settings(host: HostPlan) -> dict[str, str]:
    """As a kernel with control groups of version 2 would show them."""
    shown = {settings.sysctl_file(name): value for name, value in host.sysctls}
    if host.limits.cpus is not None:
        shown[settings.CPU[0]] = f"{round(host.limits.cpus * _PERIOD)} {_PERIOD}"
    if host.limits.memory is not None:
        shown |= {settings.MEMORY[0]: str(host.limits.memory), settings.MEMORY[1]: "0"}
    if host.limits.pids is not None:
        shown[settings.PIDS[0]] = str(host.limits.pids)
    return shown


def claimed_facts(host: HostPlan) -> dict[str, PathFacts]:
    """Files as they were to be put there, directories of this machine as they are here."""
    found = {}
    for entry in entries(host.files):
        named = not entry.owner.replace(":", "").isdigit()
        uid, gid = (0, 0) if named else owner_ids(entry.owner, "", "")
        kind = "directory" if entry.directory else "file"
        found[entry.path] = _facts(kind, entry.mode, sha256=entry.digest, uid=uid, gid=gid)
    for mount in host.mounts:
        here = Path(mount.source).stat()
        found[mount.path] = _facts(
            "directory", 0o755, device=here.st_dev, inode=here.st_ino, read_only=not mount.write
        )
    for item in host.tmpfs:
        found[item.path] = _facts("directory", 0o1777, capacity=item.size)
    return found


def _facts(
    kind: str, mode: int, *, sha256: str | None = None, uid: int = 0, gid: int = 0,
    device: int = 0, inode: int = 0, read_only: bool = False, capacity: int = 0,
) -> PathFacts:  # fmt: skip
    boot = _BOOT.read_text(encoding="ascii").strip()
    return PathFacts(
        kind, sha256, mode, uid, gid, device, inode, boot, read_only, capacity, error=""
    )


NOTHING = PathFacts(None, None, 0, 0, 0, 0, 0, "", read_only=False, capacity=0, error="")
"""Of a path at which nothing is."""
