"""What a path of the host is: enough to know that it is what was put there."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import Any

from fedtest.probe.files import blocks, opened, reached

_BOOT = "/proc/sys/kernel/random/boot_id"


def facts(root: str, path: str) -> dict[str, Any]:
    """`kind` is None if there is nothing; `capacity` is that of its file system, in bytes."""
    told: dict[str, Any] = {
        "kind": None, "sha256": None, "mode": 0, "uid": 0, "gid": 0, "device": 0, "inode": 0,
        "boot": "", "read_only": False, "capacity": 0, "error": "",
    }  # fmt: skip
    try:
        with reached(root, path) as place:
            found = os.fstat(place)
            told |= {
                "kind": _kind(found.st_mode), "mode": stat.S_IMODE(found.st_mode),
                "uid": found.st_uid, "gid": found.st_gid,
                "device": found.st_dev, "inode": found.st_ino,
            }  # fmt: skip
            told["boot"] = Path(_BOOT).read_text(encoding="ascii").strip()
            system = os.statvfs(place)
            told["read_only"] = bool(system.f_flag & os.ST_RDONLY)
            told["capacity"] = system.f_blocks * system.f_frsize
            if told["kind"] == "file":
                told["sha256"] = _digest(place)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        told["error"] = os.strerror(error.errno or 0)
    return told


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "file"
    return "directory" if stat.S_ISDIR(mode) else "other"


def _digest(place: int) -> str:
    digest = hashlib.sha256()
    with opened(place) as file:
        for block in blocks(file):
            digest.update(block)
    return digest.hexdigest()
