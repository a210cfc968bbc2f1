"""Runs a command as a plain user, who can use this interpreter wherever it is installed.

In a mount namespace of its own, and nowhere else: a directory that only root
may pass on the way to the interpreter is hidden there by one that everybody may.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

UID = 4711

_SCRIPT = """
set -eu
[ "$(readlink /proc/self/ns/mnt)" != "$1" ] || { echo 'in the machine itself' >&2; exit 1; }
closed=$2 needed=$3 uid=$4; shift 4
if [ -n "$closed" ]; then
  mount --bind "$needed" /mnt
  mount -t tmpfs -o mode=755 tmpfs "$closed"
  mkdir -p "$needed"
  mount --move /mnt "$needed"
fi
exec setpriv --reuid "$uid" --regid "$uid" --clear-groups "$@"
"""


def command(words: list[str]) -> list[str]:
    """The command that runs `words` as the plain user."""
    needed = Path(sys.base_prefix)
    closed = next((str(path) for path in reversed(needed.parents) if _closed(path)), "")
    here = os.readlink("/proc/self/ns/mnt")  # noqa: PTH115 - it is no path
    return [
        *("unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", _SCRIPT, "plain-user"),
        *(here, closed, str(needed), str(UID)),
        *words,
    ]


def _closed(path: Path) -> bool:
    return not path.stat().st_mode & 0o001


def run(words: list[str], home: Path, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    """What came of it. `home`: a directory that is his."""
    os.chown(home, UID, UID)
    env = {
        **{name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ},
        "HOME": str(home),
        "XDG_RUNTIME_DIR": str(home),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.run(
        command(words), cwd=home, env=env, capture_output=True, text=True, timeout=timeout,
        check=False,
    )  # fmt: skip
