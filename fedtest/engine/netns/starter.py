"""How commands are started in hosts: a narrow seam, so that there can be other ways than cold."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from fedtest.engine.netns import channel
from fedtest.engine.netns.environment import ids, variables
from fedtest.engine.netns.node.python import own
from fedtest.engine.netns.tree import HOME
from fedtest.errors import DeadlineError, EngineError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping

    from fedtest.engine.base import ProcessKey
    from fedtest.engine.netns.channel import Message
    from fedtest.engine.netns.node.python import NodePython
    from fedtest.plan import Plan, ProcessPlan

_TRIES = 3


@dataclass(frozen=True)
class HostPlace:
    """Where a host is spoken to, and what who joins it from outside must know.

    `pid`: its first process, as the run's keeper counts. `groups`: directories of its
    control groups, in whose cgroup.procs its processes are. `python`: what its
    processes find as `python`.
    """

    name: str
    socket: str
    pid: int = 0
    groups: tuple[str, ...] = ()
    python: NodePython = field(default_factory=own)


class Started(NamedTuple):
    """A command that runs. `pid` in its host, where it leads a session.

    `channel` says once `{"status": n}` when it has ended: 0 to 127 its own
    status, 128 + n for signal n; or `{"lost": why}` if nobody will ever know.
    That it closes without is the host's end.
    """

    pid: int
    channel: socket.socket


class Starter(ABC):
    """A way to start commands."""

    @abstractmethod
    def start(
        self, host: HostPlace, plan: ProcessPlan, stdout: int, stderr: int, end: float
    ) -> Started:
        """Start one; its standard output and error are the open files given, its input is empty."""

    @property
    @abstractmethod
    def way(self) -> str:
        """How processes start, in words."""

    @abstractmethod
    def prepare(self, plan: Plan, python: NodePython) -> None:
        """Begin with what starting these processes by `python` needs; nobody waits for it yet."""

    @abstractmethod
    def settle(self, plan: Plan, progress: Callable[[str], None], end: float) -> None:
        """Return when that is done: from now on something may be measured."""

    @abstractmethod
    def cold(self) -> Mapping[ProcessKey, str]:
        """Processes that were to start warm and did not, and why."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what it has."""


class ColdStarter(Starter):
    """A new program, as on any machine."""

    way = "cold"

    def prepare(self, plan: Plan, python: NodePython) -> None:
        pass

    def settle(self, plan: Plan, progress: Callable[[str], None], end: float) -> None:
        pass

    def cold(self) -> Mapping[ProcessKey, str]:
        return {}

    def close(self) -> None:
        pass

    def start(
        self, host: HostPlace, plan: ProcessPlan, stdout: int, stderr: int, end: float
    ) -> Started:
        """By the host's first process."""
        return begin(
            host, order(plan, host.python), (stdout, stderr), f"{plan.name} on {plan.host}", end
        )


def order(plan: ProcessPlan, python: NodePython) -> Message:
    """What a host's first process must know to start it."""
    uid, gid, groups = ids(plan.user)
    env = {**variables(uid, python), **dict(plan.env)}
    return command(plan.argv, env, uid=uid, gid=gid, groups=groups)


def command(
    argv: tuple[str, ...], env: Mapping[str, str], *, uid: int = 0, gid: int = 0,
    groups: list[int] | None = None,
) -> Message:  # fmt: skip
    """The order to start a command."""
    return {
        "do": "start", "argv": list(argv), "env": dict(env),
        "uid": uid, "gid": gid, "groups": groups or [], "directory": env.get("HOME", HOME),
    }  # fmt: skip


def begin(
    host: HostPlace, message: Message, files: tuple[int, int], what: str, end: float
) -> Started:
    """Give the order; `files` are for its output and errors. EngineError, DeadlineError."""
    connection = speak(host, message, files, what, end)
    told = hear(connection, what)
    connection.settimeout(None)
    return Started(int(told["pid"]), connection)


def speak(
    host: HostPlace, message: Message, files: tuple[int, ...], what: str, end: float
) -> socket.socket:
    """A connection on which the order was given.

    One that was closed before the order was whole is made anew: nothing was done for it.
    """
    tries = _TRIES
    while True:
        try:
            connection = channel.connect(host.socket, max(end - time.monotonic(), 0.1))
        except FileNotFoundError as error:
            raise EngineError(f"{what}: there is no host {host.name}") from error
        except OSError as error:
            raise EngineError(f"{what}: host {host.name} is off") from error
        tries -= 1
        try:
            channel.send(connection, message, files)
        except OSError as error:
            connection.close()
            if not (tries and isinstance(error, ConnectionError)):
                raise EngineError(f"{what}: host {host.name}: {error}") from error
        else:
            return connection


def hear(connection: socket.socket, what: str) -> Message:
    """The answer; the connection is closed if there is none."""
    try:
        told, _ = channel.receive(connection)
    except TimeoutError as error:
        connection.close()
        raise DeadlineError(f"{what}: not done in time") from error
    except (channel.Gone, OSError) as error:
        connection.close()
        raise EngineError(f"{what}: its host went off") from error
    if "error" in told:
        connection.close()
        raise EngineError(f"{what}: {told['error']}")
    return told
