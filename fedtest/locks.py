"""Locks between the fedtest processes of one user on one machine.

A lock is a file that is flocked, so it ends with its holder, however that
ends. The file names the holder, so that whoever waits can say for whom.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fedtest.errors import DeadlineError, InvalidError
from fedtest.local_files import is_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

POLL = 0.1
"""Seconds between looks: the kernel's own wait for a file lock has no time-out."""


@contextmanager
def lock(name: str, doing: str, timeout: float, progress: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock `name` while `doing` something.

    Says once through `progress` for whom it waits. DeadlineError, with the
    same, after `timeout` seconds.
    """
    descriptor = os.open(
        own_directory() / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
    )
    try:
        _take(descriptor, name, time.monotonic() + timeout, progress)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()}, {doing}".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, name: str, deadline: float, progress: Callable[[str], None]) -> None:
    said = False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 500, 0).decode(errors="replace") or "another process"
            if not said:
                progress(f"waiting for {holder}")
                said = True
            if time.monotonic() > deadline:
                raise DeadlineError(f"waited in vain for {holder} (lock {name})") from None
            time.sleep(POLL)
        else:
            return


def own_directory() -> Path:
    """A directory of this user's alone; nobody else can put a file or a link in it."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    path = (
        Path(base) / "fedtest"
        if base and is_directory(base)
        else Path(tempfile.gettempdir()) / f"fedtest-{os.getuid()}"
    )
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        status = path.lstat()
    except OSError as error:
        raise InvalidError(f"no directory for locks: {error}") from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise InvalidError(
            f"{path} is not a directory of this user's alone",
            remedy=f"Remove it, or set XDG_RUNTIME_DIR to a directory of yours: {path}",
        )
    return path


def share(descriptor: int) -> None:
    """Hold an open file's lock together with others who share it, until the file is closed."""
    fcntl.flock(descriptor, fcntl.LOCK_SH)


def take(descriptor: int) -> None:
    """Hold an open file's lock alone, until the file is closed.

    Raises BlockingIOError if somebody else holds it.
    """
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
