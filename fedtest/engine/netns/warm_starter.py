"""Starts Python processes warm: forked from one that has imported, into their hosts.

What cannot start warm starts cold, and why is told. The zygote is outside the
hosts and enters them process by process, with what a host's first process gives
it; so one does for all of them.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TYPE_CHECKING, NamedTuple

from fedtest.engine.base import ProcessKey
from fedtest.engine.netns import channel, usable
from fedtest.engine.netns.node.python import own
from fedtest.engine.netns.starter import ColdStarter, Started, Starter, order, speak
from fedtest.engine.netns.warm.client import Start, Zygote
from fedtest.engine.netns.warm.command import Cold, PythonCommand, recognise
from fedtest.engine.netns.warm.environment import acts
from fedtest.errors import DeadlineError, EngineError, FedtestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from fedtest.engine.netns.channel import Message
    from fedtest.engine.netns.node.python import NodePython
    from fedtest.engine.netns.starter import HostPlace
    from fedtest.plan import Plan, ProcessPlan

_IMPORTING = 240.0
_UMASK = 0o022
_NO_PRELOAD = "the scenario has nothing to `preload`"
_NAMED = 3


class _Place(NamedTuple):
    """A host as it can be entered."""

    namespaces: Mapping[str, int]
    groups: tuple[int, ...]
    rights: tuple[int, ...]


class WarmStarter(Starter):
    """Has one zygote, for the interpreter and the environment that most processes have."""

    way = "warm where they can, cold otherwise"

    def __init__(self) -> None:
        self._without = ColdStarter()
        self._lock = threading.Lock()
        self._zygote: Future[Zygote] | None = None
        self._trying: Zygote | None = None
        self._closed = False
        self._python = own()
        self._preload: tuple[str, ...] = ()
        self._told = False
        self._cold: dict[ProcessKey, str] = {}

    def prepare(self, plan: Plan, python: NodePython) -> None:
        """Begin with the imports, if a process is to find them."""
        self._python = python
        if not plan.preload or self._zygote is not None:
            return
        commands = [_command(process, python) for process in plan.processes]
        wanted = [command for command in commands if isinstance(command, PythonCommand)]
        if not wanted:
            return
        self._preload = plan.preload
        self._zygote = Future()
        interpreter, env = common(wanted)
        threading.Thread(
            target=self._import,
            args=(self._zygote, interpreter, env, len(wanted)),
            name="imports",
            daemon=True,
        ).start()

    def _import(
        self, done: Future[Zygote], interpreter: str, env: Mapping[str, str], expected: int
    ) -> None:
        try:
            done.set_result(
                Zygote.start(
                    interpreter,
                    self._preload,
                    env,
                    deadline=_IMPORTING,
                    expected=expected,
                    begun=self._begun,
                )
            )
        except BaseException as error:  # noqa: BLE001 - whoever waits is told
            done.set_exception(error)

    def _begun(self, zygote: Zygote) -> None:
        with self._lock:
            if self._closed:
                raise EngineError("nobody wants it any more")
            self._trying = zygote

    def settle(self, plan: Plan, progress: Callable[[str], None], end: float) -> None:
        """Wait for the imports, and tell what starts cold, once."""
        if not plan.preload or self._told:
            return
        self._told = True
        began = time.monotonic()
        zygote = self._ready(end)
        if isinstance(zygote, Zygote):
            there = [name for name in self._preload if name not in zygote.without]
            waited = time.monotonic() - began
            progress(
                f"{zygote.interpreter} has imported {', '.join(there) or 'nothing'}"
                f" (waited {waited:.1f} s more)"
            )
            for name, why in zygote.without.items():
                progress(f"not imported ahead: {name}: {why}")
        for line in _grouped(
            (plan, self._why(plan, self._python, zygote)) for plan in plan.processes
        ):
            progress(line)

    def start(
        self, host: HostPlace, plan: ProcessPlan, stdout: int, stderr: int, end: float
    ) -> Started:
        """Warm, or else by the host's first process."""
        key = ProcessKey(plan.host, plan.name)
        self._cold.pop(key, None)
        if self._zygote is None and not self._told:
            return self._without.start(host, plan, stdout, stderr, end)
        zygote = self._ready(end)
        command = _command(plan, host.python)
        reason = self._why(plan, host.python, zygote)
        if not reason and isinstance(zygote, Zygote) and isinstance(command, PythonCommand):
            try:
                return self._warm(zygote, command, host, plan, files=(stdout, stderr), end=end)
            except EngineError as error:
                # It never came to the program itself; cold, it says what is the matter.
                reason = error.message
        self._cold[key] = reason
        return self._without.start(host, plan, stdout, stderr, end)

    def cold(self) -> Mapping[ProcessKey, str]:
        return dict(self._cold)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            trying = self._trying
        if self._zygote is None:
            return
        if trying is not None and not self._zygote.done():
            trying.kill()
        with contextlib.suppress(FedtestError):
            self._zygote.result().close()

    def _ready(self, end: float) -> Zygote | str:
        """The zygote, or why there is none."""
        if self._zygote is None:
            return _NO_PRELOAD
        try:
            return self._zygote.result(max(end - time.monotonic(), 0) / 2)
        except FutureTimeoutError:
            return f"{', '.join(self._preload)}: still being imported"
        except FedtestError as error:
            return error.message

    @staticmethod
    def _why(plan: ProcessPlan, python: NodePython, zygote: Zygote | str) -> str:
        """Why a process must start cold, as far as that is known ahead."""
        command = _command(plan, python)
        if isinstance(command, Cold):
            return command.reason
        return (
            zygote if isinstance(zygote, str) else zygote.why_not(command, _directory(plan, python))
        )

    def _warm(
        self, zygote: Zygote, command: PythonCommand, host: HostPlace, plan: ProcessPlan,
        *, files: tuple[int, int], end: float,
    ) -> Started:  # fmt: skip
        wanted = order(plan, host.python)
        with _entered(host, f"{plan.name} on {plan.host}", end) as place:
            nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            try:
                start = Start(
                    command, wanted["directory"], nothing, *files,
                    namespaces=place.namespaces, cgroups=place.groups, rights=place.rights,
                    uid=wanted["uid"], gid=wanted["gid"], groups=tuple(wanted["groups"]),
                    umask=_UMASK, by_map=usable.by_user_namespace(),
                )  # fmt: skip
                (child,) = zygote.spawn([start], max(end - time.monotonic(), 0.1))
            finally:
                os.close(nothing)
        if not child.warm:
            self._cold[ProcessKey(plan.host, plan.name)] = child.reason
        ours, theirs = socket.socketpair()
        child.ended.add_done_callback(lambda ended: _tell(theirs, ended))
        return Started(child.pid_inside, ours)


def common(commands: Sequence[PythonCommand]) -> tuple[str, dict[str, str]]:
    """The interpreter and the environment for a zygote that most of the commands can use.

    Of those that agree in what acts before a program runs, all that they agree in.
    """
    alike: dict[tuple[str, frozenset[tuple[str, str]]], list[PythonCommand]] = {}
    for command in commands:
        acting = frozenset(item for item in command.env.items() if acts(item[0]))
        alike.setdefault((command.interpreter, acting), []).append(command)
    most = max(alike.values(), key=len)
    items = set(most[0].env.items()).intersection(*(command.env.items() for command in most))
    return most[0].interpreter, dict(sorted(items))


def _command(plan: ProcessPlan, python: NodePython) -> PythonCommand | Cold:
    told = order(plan, python)
    return recognise(told["argv"], told["env"], told["directory"])


def _directory(plan: ProcessPlan, python: NodePython) -> str:
    return str(order(plan, python)["directory"])


@contextlib.contextmanager
def _entered(host: HostPlace, what: str, end: float) -> Iterator[_Place]:
    """What the host's first process has open for who wants to come in."""
    told, files = _ask(host, what, end)
    try:
        names = told["namespaces"]
        namespaces = dict(zip(names, files, strict=False))
        yield _Place(namespaces, tuple(files[len(names) :]), tuple(told["rights"]))
    finally:
        for descriptor in files:
            os.close(descriptor)


def _ask(host: HostPlace, what: str, end: float) -> tuple[Message, list[int]]:
    with speak(host, {"do": "join"}, (), what, end) as connection:
        try:
            told, files = channel.receive(connection)
        except TimeoutError as error:
            raise DeadlineError(f"{what}: host {host.name} did not answer in time") from error
        except (channel.Gone, OSError) as error:
            raise EngineError(f"{what}: its host went off") from error
    if "error" in told:
        raise EngineError(f"{what}: {told['error']}")
    return told, files


def _tell(listener: socket.socket, ended: Future[int]) -> None:
    """As a host's first process would tell it."""
    error = ended.exception()
    told: Message = {"lost": str(error)} if error is not None else {"status": ended.result()}
    with listener, contextlib.suppress(OSError):
        channel.send(listener, told)


def _grouped(reasons: Iterator[tuple[ProcessPlan, str]]) -> Iterator[str]:
    """One line for processes of the same name that start cold for the same reason."""
    hosts: dict[tuple[str, str], list[str]] = {}
    for plan, reason in reasons:
        if reason:
            hosts.setdefault((plan.name, reason), []).append(plan.host)
    for (name, reason), where in hosts.items():
        more = f" and {len(where) - _NAMED} more" if len(where) > _NAMED else ""
        yield f"{name} on {', '.join(where[:_NAMED])}{more} starts cold: {reason}"
