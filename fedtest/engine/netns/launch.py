"""Goes from the machine into new namespaces and becomes a run's keeper there.

Run in an interpreter of its own, by `-c`, with the settings as JSON. Says
`ready`, or what is in the way, on standard output.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from typing import TYPE_CHECKING, NoReturn

from fedtest.engine.netns import channel
from fedtest.engine.netns.elsewhere import (
    NEW_IPC,
    NEW_MOUNTS,
    NEW_NAMES,
    NEW_NETWORK,
    NEW_PIDS,
    NEW_USERS,
    Elsewhere,
    leave,
    map_ids,
)
from fedtest.engine.netns.keeper import HOSTS, SOCKET, keep

if TYPE_CHECKING:
    from fedtest.engine.netns.channel import Message

READY = "ready"
KEEPER = "keeper"
"""The file in the run's directory that names its keeper: process id, start time, pid namespace."""

_NEW = NEW_MOUNTS | NEW_NAMES | NEW_IPC | NEW_NETWORK | NEW_PIDS


def go(*, users: bool) -> None:
    """Leave the machine's namespaces; `users`: by way of a user namespace."""
    user, group = os.geteuid(), os.getegid()
    leave(_NEW | (NEW_USERS if users else 0))
    if users:
        map_ids(0, 0, user, group)


def attempt(settings: Message) -> None:
    """Whether this machine allows it: all that is special, once, and nothing is left of it."""
    go(users=settings["mapped"])
    pid = os.fork()
    if pid:
        raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    to = Elsewhere(settings["machine"])
    to.follow_only()
    to.mount("tmpfs", settings["at"], 0, "mode=755")
    for name in ("proc", "added", "work", "both"):
        os.mkdir(f"{settings['at']}/{name}")
    to.mount("proc", f"{settings['at']}/proc")
    to.interface("lo")
    to.hostname("try")


def launch(settings: Message) -> NoReturn:
    """Fork the keeper, write down who it is, let it begin."""
    go(users=settings["mapped"])
    begin, let_begin = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        os.close(let_begin)
        _keeper(settings, begin)
    # Whoever removes the run renames its directory first: then this fails, and
    # the keeper never begins.
    place = f"{settings['directory']}/{KEEPER}"
    with open(f"{place}.new", "w", encoding="ascii") as file:
        file.write(f"{pid} {_started(pid)} {settings['pids']}\n")
    os.rename(f"{place}.new", place)
    os.write(let_begin, b"x")
    os._exit(0)


def _keeper(settings: Message, begin: int) -> NoReturn:
    out = os.dup(1)
    try:
        if os.read(begin, 1) != b"x":
            os._exit(1)
        os.setsid()
        os.umask(0o022)
        directory = os.open(settings["directory"], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        listener = channel.listen(directory, SOCKET)
        os.makedirs(f"{settings['directory']}/{HOSTS}", exist_ok=True)
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nothing, number)
        keep(settings, directory, listener, lambda: _say(out, READY))
    except BaseException as error:  # noqa: BLE001 - the engine tells it
        _say(out, f"{type(error).__name__}: {error}")
    os._exit(1)


def _say(out: int, text: str) -> None:
    os.write(out, f"{text}\n".encode(errors="replace"))
    os.close(out)


def _started(pid: int) -> str:
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return file.read().rpartition(")")[2].split()[19]


def main() -> None:
    """`attempt` or `launch`, and the settings."""
    what, settings = sys.argv[1], json.loads(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_NOFILE, settings["files"])
    try:
        {"attempt": attempt, "launch": launch}[what](settings)
    except OSError as error:
        print(error, flush=True)  # noqa: T201 - that is how it is told
        os._exit(1)
    print(READY, flush=True)  # noqa: T201
    os._exit(0)
