"""Runs a command as a plain user, who can use this interpreter wherever it is installed.

In a mount namespace of its own, and nowhere else: a directory that only root
may pass on the way to the interpreter, to its packages or to these tests is
hidden there by one that everybody may.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from shlex import quote

UID = 4711
NEEDED = (sys.base_prefix, sys.prefix, str(Path(__file__).parents[1]))

_IN_A_NAMESPACE = """\
set -eu
[ "$(readlink /proc/self/ns/mnt)" != "$1" ] || { echo 'in the machine itself' >&2; exit 1; }
uid=$2
shift 2"""
_ASIDE = "/mnt"


def command(words: list[str]) -> list[str]:
    """The command that runs `words` as the plain user."""
    here = os.readlink("/proc/self/ns/mnt")  # noqa: PTH115 - it is no path
    script = "\n".join(
        [
            _IN_A_NAMESPACE,
            *_opening(),
            # Looked for by who has no rights any more: while they go it would find what is closed.
            'exec setpriv --reuid "$uid" --regid "$uid" --clear-groups env -- "$@"',
        ]
    )
    return [
        *("unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", script, "plain-user"),
        *(here, str(UID)),
        *words,
    ]


def _opening() -> list[str]:
    """Commands after which everybody may pass to what is needed, outermost directories first."""
    needed = sorted({Path(path).resolve() for path in NEEDED})
    lines = [f"mount -t tmpfs -o mode=755 tmpfs {_ASIDE}"]
    for number, path in enumerate(needed):
        aside = f"{_ASIDE}/{number}"
        lines += [f"mkdir {aside}", f"mount --rbind {quote(str(path))} {aside}"]
    hidden: set[Path] = set()
    for number, path in enumerate(needed):
        # What lies in a needed directory was passed to with that.
        inner = max((len(other.parts) for other in needed if other in path.parents), default=0)
        closed = [top for top in reversed(path.parents) if len(top.parts) > inner and _closed(top)]
        if not closed:
            continue
        if closed[0] not in hidden:
            lines.append(f"mount -t tmpfs -o mode=755 tmpfs {quote(str(closed[0]))}")
            hidden.add(closed[0])
        place = quote(str(path))
        lines += [f"mkdir -p {place}", f"mount --rbind {_ASIDE}/{number} {place}"]
    return [*lines, f"umount --recursive {_ASIDE}"]


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
