"""Where runs are known: a directory for each, in a runtime directory of the user's.

It holds who owns the run, who keeps it, and the sockets at which its keeper and
its hosts are spoken to. Whoever removes a run renames the directory first, so
that nothing new can begin in it.
"""

from __future__ import annotations

import errno
import json
import os
import re
import select
import shutil
import signal
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fedtest.engine.netns import channel, limits
from fedtest.engine.netns.keeper import SOCKET
from fedtest.engine.netns.launch import KEEPER
from fedtest.engine.owner import Owner
from fedtest.errors import DeadlineError, EngineError, InvalidError
from fedtest.local_files import is_directory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fedtest.engine.base import RunTag

_RUN = "run.json"
_GOING = ".going"
_POLL = 0.02


class KeeperProcess(NamedTuple):
    """The process that keeps a run; `started` in clock ticks since boot."""

    pid: int
    started: int
    pid_namespace: int


def base() -> Path:
    """The directory that has all runs of this user. InvalidError if there can be none."""
    told = os.environ.get("XDG_RUNTIME_DIR")
    if os.geteuid() == 0:
        path = Path("/run/fedtest")
    elif told and is_directory(told):
        path = Path(told) / "fedtest"
    else:
        path = Path(tempfile.gettempdir()) / f"fedtest-{os.geteuid()}"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        status = path.lstat()
        if (
            not stat.S_ISDIR(status.st_mode)
            or status.st_uid != os.geteuid()
            or status.st_mode & 0o022
        ):
            raise InvalidError(
                f"{path} is not a directory of this user's alone",
                remedy=f"Remove it, or set XDG_RUNTIME_DIR to a directory of yours: {path}",
            )
        path = path / "netns"
        path.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise InvalidError(f"no directory for runs: {error}") from error
    return path


class RunPlace:
    """The directory of one run. InvalidError if that cannot be a run's name."""

    def __init__(self, run_id: str) -> None:
        # Whoever cleans up names a run: what is no name would be another directory.
        if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", run_id) is None:
            raise InvalidError(f"no run is called {run_id!r}")
        self.run_id = run_id
        self.path = base() / run_id

    @property
    def keeper_socket(self) -> str:
        """Where its keeper listens."""
        return str(self.path / SOCKET)

    def make(self, run: RunTag) -> None:
        """With its owner, before there is anything else to own."""
        self.path.mkdir(mode=0o700, exist_ok=True)
        record = self.path / _RUN
        if not record.exists():
            new = record.with_suffix(".new")
            text = {"run": run.id, "scenario": run.scenario, "owner": str(run.owner)}
            new.write_text(json.dumps(text), encoding="utf-8")
            new.replace(record)

    def write(self, name: str, text: str) -> None:
        """A file of the run's, whole or as it was."""
        new = self.path / f"{name}.new"
        new.write_text(text, encoding="utf-8")
        new.replace(self.path / name)

    def remove(self, end: float) -> int:
        """End the run; how many hosts and networks that were. DeadlineError."""
        going = self.path.with_name(self.path.name + _GOING)
        count = 0
        if not going.exists():
            if not self.path.exists():
                return 0
            count = _count(self.path)
            with suppress(FileNotFoundError):  # Somebody else was quicker.
                self.path.rename(going)
        keeper = _keeper(going)
        if keeper is not None:
            _end(keeper, self.run_id, end)
        try:
            limits.remove_all(self.run_id)
        except OSError as error:
            raise EngineError(
                f"run {self.run_id}: its control groups are still there: {error}",
                remedy=f"`fedtest clean {self.run_id}` tries again.",
            ) from error
        shutil.rmtree(going, ignore_errors=True)
        if going.exists():
            raise EngineError(f"run {self.run_id}: {going} cannot be removed")
        return count


def dead_runs() -> Iterator[str]:
    """Runs whose owner is certainly dead, and those that somebody began to remove."""
    for path in sorted(base().iterdir()):
        try:
            told = json.loads((path / _RUN).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            # Made just now, or half removed; without an owner nobody's death is certain.
            if path.name.endswith(_GOING):
                yield path.name.removesuffix(_GOING)
            continue
        owner = Owner.parse(str(told.get("owner", "")))
        if owner is not None and owner.is_dead() and not told.get("kept"):
            yield path.name.removesuffix(_GOING)


def sweep(deadline: float) -> dict[str, int]:
    """Remove the runs of the dead; how many hosts and networks each had.

    One that cannot be removed is in nobody else's way: its error comes last.
    """
    end = time.monotonic() + deadline
    removed: dict[str, int] = {}
    stuck: InvalidError | None = None
    for run_id in list(dead_runs()):
        try:
            removed[run_id] = RunPlace(run_id).remove(end)
        except InvalidError as error:
            stuck = stuck or error
    if stuck is not None:
        raise stuck
    return removed


def _count(path: Path) -> int:
    try:
        with channel.connect(str(path / SOCKET), 5.0) as connection:
            channel.send(connection, {"do": "count"})
            return int(channel.receive(connection)[0]["count"])
    except (OSError, channel.Gone, LookupError):
        return 0


def _keeper(path: Path) -> KeeperProcess | None:
    """None if it never began."""
    try:
        words = (path / KEEPER).read_text(encoding="ascii").split()
    except FileNotFoundError:
        return None
    return KeeperProcess(*map(int, words))


def _end(keeper: KeeperProcess, run_id: str, end: float) -> None:
    """Kill it; when it has ended, the kernel has ended all that it kept."""
    if keeper.pid_namespace != os.stat("/proc/self/ns/pid").st_ino:
        raise EngineError(
            f"run {run_id} was made in another pid namespace",
            remedy="Remove it from there, for example in the container where it was made.",
        )
    try:
        process = os.pidfd_open(keeper.pid)
    except OSError as error:
        if error.errno in {errno.ESRCH, errno.EINVAL}:
            return
        raise
    try:
        if _started(keeper.pid) != keeper.started:
            return  # Another process has its number now.
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGKILL)
        # The keeper's end waits for its hosts', and who stands still cannot end.
        limits.let_all_go_on(run_id)
        waiting = select.poll()
        waiting.register(process, select.POLLIN)
        if not waiting.poll(max(end - time.monotonic(), 0.1) * 1000):
            raise DeadlineError(
                f"run {run_id}: its keeper, process {keeper.pid}, does not end",
                remedy=f"`fedtest clean {run_id}` tries again.",
            )
    finally:
        os.close(process)


def _started(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return -1
    return int(text.rpartition(")")[2].split()[19])
