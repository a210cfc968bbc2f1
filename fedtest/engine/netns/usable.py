"""Whether this machine lets us make namespaces, and if not, which of its settings forbids it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fedtest
from fedtest.engine.netns import open_files
from fedtest.engine.netns.elsewhere import namespaces
from fedtest.engine.netns.launch import READY
from fedtest.errors import DeadlineError, EngineError, EngineUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

PATH = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath),
                        "/usr/local/sbin:/usr/sbin:/sbin"))  # fmt: skip
"""Where programs are looked for: the user's Python first, root's directories last."""

_PACKAGE = str(Path(fedtest.__file__).resolve().parent.parent)
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv.pop(1));"
    "from fedtest.engine.netns.launch import main; main()"
)
_START = 30.0
_KILLED = 5.0
_DOCKER = "Or use Docker: --engine docker."
_SETTINGS = (
    ("user/max_user_namespaces", "0", "no user namespace may be made"),
    ("user/max_net_namespaces", "0", "no network namespace may be made"),
    ("kernel/unprivileged_userns_clone", "0", "only root may make user namespaces"),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor takes away the rights within user namespaces",
    ),
)
_WANTED = {
    "user/max_user_namespaces": "15000",
    "user/max_net_namespaces": "15000",
    "kernel/unprivileged_userns_clone": "1",
    "kernel/apparmor_restrict_unprivileged_userns": "0",
}


def program(name: str) -> str | None:
    """Where a program is."""
    return shutil.which(name, path=PATH)


@cache
def by_user_namespace() -> bool:
    """Whether a user namespace gives the rights. EngineUnavailable if nothing does."""
    if sys.platform != "linux":
        raise EngineUnavailable(f"hosts without Docker need Linux. {_DOCKER}")
    said = []
    for mapped in (False, True) if os.geteuid() == 0 else (True,):
        answer = run("attempt", settings(mapped=mapped))
        if answer == READY:
            return mapped
        said.append(answer)
    raise EngineUnavailable(
        f"this machine does not let {'root' if os.geteuid() == 0 else 'this user'} make hosts "
        f"without Docker: {said[-1]}",
        remedy=f"{' '.join(_forbidding(Path('/proc/sys')))} {_DOCKER}",
    )


def _forbidding(root: Path) -> Iterator[str]:
    found = False
    for name, value, why in _SETTINGS:
        try:
            there = (root / name).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if there == value:
            found = True
            dotted = name.replace("/", ".")
            yield f"{dotted} is {value}: {why}; as root, `sysctl -w {dotted}={_WANTED[name]}`."
    if not found:
        yield (
            "None of the kernel's settings for it is the reason; in a container it is the "
            "container's own confinement (seccomp, AppArmor, missing capabilities)."
        )


def settings(*, mapped: bool) -> dict[str, Any]:
    """What a process must know that leaves the machine's namespaces."""
    return {
        "machine": namespaces(),
        "pids": os.stat("/proc/self/ns/pid").st_ino,
        "at": next((path for path in ("/run", "/mnt", "/media") if Path(path).is_dir()), "/mnt"),
        "ip": program("ip"),
        "mapped": mapped,
        "files": open_files.given(),
    }


def run(what: str, order: dict[str, Any]) -> str:
    """Do it in an interpreter of its own, a light one; the first line that it says."""
    command = [sys.executable, "-S", "-E", "-c", _PROGRAM, _PACKAGE, what, json.dumps(order)]
    try:
        # It goes on after its output is closed; nobody waits for its end.
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd="/",
        )
    except OSError as error:
        raise EngineError(f"starting {sys.executable}: {error}") from error
    try:
        out, _ = process.communicate(timeout=_START)
    except subprocess.TimeoutExpired as error:
        process.kill()
        # Not to its output's end: what it started may have that, and hang as it did.
        if process.stdout is not None:
            process.stdout.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_KILLED)
        raise DeadlineError(f"{what}: not done after {_START:g} s") from error
    lines = out.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else f"status {process.returncode}, and not a word"
