"""What the kernel knows of a forked process: where it is, whose it is, what it has open."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from typing import TYPE_CHECKING, Any, NoReturn

from fedtest.engine.netns.warm.inside import kernel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Descriptors:
    """The file descriptors that came with a request, by what they are for."""

    def __init__(self, message: Mapping[str, Any], fds: Sequence[int]) -> None:
        named = list(zip(message["fds"], fds, strict=True))
        one = dict(named)
        self.report: int = one["report"]
        self.streams: tuple[int, int, int] = (one["stdin"], one["stdout"], one["stderr"])
        self.root: int | None = one.get("root")
        self.cgroups = [fd for name, fd in named if name == "cgroup"]
        self.namespaces = {
            name.removeprefix("ns:"): fd for name, fd in named if name.startswith("ns:")
        }


def become(message: Mapping[str, Any], given: Descriptors) -> None:
    """Be where the request says, as whom it says, with its streams and no more.

    The user and PID namespaces were entered by the fork.
    """
    os.setsid()
    for fd in given.cgroups:
        os.write(fd, b"0")
    for name in kernel.NAMESPACES:
        if name in given.namespaces and name not in ("user", "pid"):
            kernel.enter(given.namespaces[name], name)
    if given.root is not None:
        os.fchdir(given.root)
        os.chroot(".")
    _move(given)
    kernel.set_command_line(message["argv"])
    if message["umask"] is not None:
        os.umask(message["umask"])
    if message["rights"] is not None:
        kernel.limit_rights(message["rights"])
    if message["by_map"]:
        kernel.map_user(message["uid"], message["gid"])
    else:
        _change_user(message)
    # As whom it is, for whom a directory may be closed.
    os.chdir(message["cwd"])
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _change_user(message: Mapping[str, Any]) -> None:
    if message["groups"] is not None:
        os.setgroups(message["groups"])
    if message["gid"] is not None:
        os.setresgid(message["gid"], message["gid"], message["gid"])
    if message["uid"] is not None:
        os.setresuid(message["uid"], message["uid"], message["uid"])
    if message["uid"] is not None or message["gid"] is not None:
        kernel.set_dumpable()


def _move(given: Descriptors) -> None:
    """Streams to 0, 1 and 2, the report to 3, and nothing else is left open."""
    kept = (*given.streams, given.report)
    # Each goes beyond its target first: none may be overwritten before its turn.
    high = [os.dup(fd) if fd <= 3 else fd for fd in kept]
    while any(fd <= 3 for fd in high):
        high = [os.dup(fd) if fd <= 3 else fd for fd in high]
    for target, fd in enumerate(high):
        os.dup2(fd, target, inheritable=target < 3)
    os.closerange(4, os.sysconf("SC_OPEN_MAX"))
    given.report = 3


def report(given: Descriptors, **told: object) -> None:
    """Tell the engine, once. If it is gone, this process has to live without it."""
    with contextlib.suppress(BrokenPipeError):
        os.write(given.report, json.dumps(told).encode("ascii"))
    os.close(given.report)


def execute(interpreter: str, argv: Sequence[str], env: Mapping[str, str]) -> NoReturn:
    """Start cold after all; if even that cannot be, end as a shell would."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # Python ignores them, and `exec` would keep that.
    try:
        os.execve(interpreter, list(argv), env)  # noqa: S606 - without a shell on purpose
    except OSError as error:
        os.write(2, f"{interpreter}: {error.strerror}\n".encode())
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)
