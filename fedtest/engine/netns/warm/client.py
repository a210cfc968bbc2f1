"""The engine's side of a zygote: starts it, asks it for processes, hears of their ends.

It may be used from several threads. Nothing here imports what is preloaded.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import struct
import subprocess
import threading
import time
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from json import loads
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fedtest
from fedtest.engine.netns import open_files
from fedtest.engine.netns.warm.environment import difference, relative_path
from fedtest.engine.netns.warm.wire import readable, receive, send
from fedtest.errors import DeadlineError, EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fedtest.engine.netns.warm.command import PythonCommand

ROOT = str(Path(fedtest.__file__).resolve().parent.parent)
_BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from fedtest.engine.netns.warm.inside.zygote import main; main(sys.argv[1], int(sys.argv[2]))"
)
_ROOM = " " * 4000
"""Where processes write the words that `ps` shows of them."""

_TAIL = 2000
"""Characters of what a zygote printed that an error shows."""

_CLOSING = 5.0

_let_go: list[subprocess.Popen[bytes]] = []  # Processes of theirs ran still.


@atexit.register
def _forget() -> None:
    for item in _let_go:
        item.returncode = item.poll() or 0  # It goes on without us; that is no mistake of ours.


@dataclass(frozen=True, slots=True)
class Start:
    """A process that is wanted, as the kernel will know it.

    Descriptors stay the caller's, who may close them when the process has
    started. `namespaces`: name (`user`, `mnt`, `net`, `uts`, `ipc`, `pid`,
    `cgroup`) -> descriptor. `root`: a directory to make the root once the mounts
    are entered. `cgroups`: each a `cgroup.procs`, open for writing. `rights`:
    capabilities, no others of which it has or gets. `by_map`: it becomes `uid`
    and `gid` by a user namespace of its own, where there is one user only.
    None leaves user, groups, rights and umask as the zygote has them.
    """

    command: PythonCommand
    cwd: str
    stdin: int
    stdout: int
    stderr: int
    namespaces: Mapping[str, int] = field(default_factory=dict)
    root: int | None = None
    cgroups: tuple[int, ...] = ()
    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] | None = None
    umask: int | None = None
    rights: tuple[int, ...] | None = None
    by_map: bool = False


@dataclass(frozen=True, slots=True)
class Child:
    """A process that was started, leading a session of its own.

    `pid`: its id where the zygote is; `pid_inside`: in its own PID namespace.
    `reason`: why it is not warm; it runs all the same. `ended`: its status, 0 to
    127 its own and 128 + n for signal n; EngineError if the zygote died before.
    """

    pid: int
    pid_inside: int
    warm: bool
    reason: str
    ended: Future[int]


class _Pending:
    """A request on its way."""

    def __init__(self, report: int) -> None:
        self.report = report
        self.pid: Future[int] = Future()
        self.ended: Future[int] = Future()

    def fail(self, error: Exception) -> None:
        for future in (self.pid, self.ended):
            if not future.done():
                future.set_exception(error)


class Zygote:
    """An interpreter that has imported, in a process of its own, to fork from."""

    def __init__(
        self, interpreter: str, preload: Sequence[str], env: Mapping[str, str], cwd: str
    ) -> None:
        """Only begun; `start` waits until it can be used."""
        self.interpreter = interpreter
        self.without: dict[str, str] = {}
        """Modules of `preload` that it does not have, and why."""
        self._env = dict(env)
        self._cwd = cwd
        self._read: frozenset[str] = frozenset()
        self._user_site = False
        self._lock = threading.Lock()
        self._number = 0
        self._pending: dict[int, _Pending] = {}
        self._dead: EngineError | None = None
        self._output = os.memfd_create("fedtest-zygote")
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._process = subprocess.Popen(
                [interpreter, "-c", _BOOT, ROOT, str(theirs.fileno()), _ROOM],
                env=self._env,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
            open_files.as_given(self._process.pid)
        except OSError as error:
            self._control.close()
            os.close(self._output)
            raise EngineError(f"{interpreter} cannot be started: {error}") from error
        finally:
            theirs.close()
        self._preload = tuple(preload)

    @classmethod
    def start(
        cls,
        interpreter: str,
        preload: Sequence[str],
        env: Mapping[str, str],
        *,
        deadline: float,
        cwd: str = "/",
        expected: int = 1,
        begun: Callable[[Zygote], object] = lambda _: None,
    ) -> Zygote:
        """One that has imported what can be imported of `preload`.

        `env` is the whole environment; `expected`: how many processes it may
        have to start, if that is known. `begun` is given each that is tried, and
        may `kill` it later. EngineError if it cannot be forked from,
        and why; DeadlineError if it still imports after `deadline` seconds.
        """
        end = time.monotonic() + deadline
        without: dict[str, str] = {}
        while True:
            wanted = [name for name in preload if name not in without]
            zygote = cls(interpreter, wanted, env, cwd)
            try:
                begun(zygote)
                told = zygote._hello(end, expected)
            except BaseException:
                zygote.close()
                raise
            if "refused" not in told:
                break
            zygote.close()
            # Half an import may have left anything behind, so it begins anew without it.
            if "module" not in told:
                raise EngineError(f"no process can start warm: {told['refused']}")
            without[told["module"]] = told["refused"]
        zygote._begin(told, without)
        return zygote

    @property
    def pid(self) -> int:
        """Of the zygote itself."""
        return self._process.pid

    @property
    def said(self) -> str:
        """What the imports printed, which a fresh process would have printed itself."""
        size = os.fstat(self._output).st_size
        return os.pread(self._output, size, 0).decode("utf-8", "replace")

    def why_not(self, command: PythonCommand, cwd: str) -> str:
        """Why a command cannot start warm from this one; empty if it can."""
        if self._dead is not None:
            return self._dead.message
        if command.interpreter != self.interpreter:
            return f"its interpreter is {command.interpreter}, not {self.interpreter}"
        if reason := difference(self._env, command.env, self._read):
            return reason
        if (entry := relative_path(command.env)) and cwd != self._cwd:
            return f"PYTHONPATH has {entry}, which depends on the working directory"
        if self._user_site and command.env.get("HOME") != self._env.get("HOME"):
            return "HOME differs, and with it where the user's own packages are"
        return ""

    def spawn(self, starts: Sequence[Start], deadline: float) -> list[Child]:
        """Start processes, side by side; EngineError for the first that could not be started."""
        end = time.monotonic() + deadline
        pending = []
        try:
            for start in starts:
                pending.append(self._send(start, deadline))  # noqa: PERF401 - they must be closed
            return [
                self._started(item, start, end) for item, start in zip(pending, starts, strict=True)
            ]
        finally:
            for item in pending:
                os.close(item.report)

    def kill(self) -> None:
        """End it at once, whatever it does. Who waits for it is told."""
        self._process.kill()

    def close(self) -> None:
        """End it. Its processes go on, and it stays as long as they do, since a
        PID namespace ends only when all its processes were waited for; nobody
        hears of their ends any more.
        """
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)
        if self._reader is not None:
            self._reader.join(_CLOSING)
        if self._left:
            _let_go[:] = [item for item in _let_go if item.poll() is None] + [self._process]
        else:
            try:
                # One that still imports does not listen, and has nothing to lose.
                self._process.wait(_CLOSING if self._reader is not None else 0)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._reader is not None:
            self._reader.join()
        self._control.close()
        if self._output >= 0:
            os.close(self._output)
            self._output = -1

    _reader: threading.Thread | None = None
    _left = 0

    def _hello(self, end: float, expected: int) -> dict[str, Any]:
        who = f"{self.interpreter}, importing {', '.join(self._preload) or 'nothing'}"
        with contextlib.suppress(OSError):  # If it is gone already, reading says so.
            patience = max(end - time.monotonic(), 0)
            order = {"preload": self._preload, "env": self._env, "patience": patience}
            send(self._control, {**order, "expected": expected})
        if not readable(self._control, end):
            raise DeadlineError(f"{who}: not done in time")
        hello = receive(self._control)
        if hello is None:
            raise EngineError(f"{who}: it ended instead{self._last_words()}")
        return hello[0]

    def _begin(self, told: Mapping[str, Any], without: Mapping[str, str]) -> None:
        self._read = frozenset(told["read"])
        self._user_site = told["user_site"]
        self.without.update(without)
        self.without.update(dict.fromkeys(told["missing"], "it is not installed"))
        self._reader = threading.Thread(target=self._listen, name="zygote", daemon=True)
        self._reader.start()

    def _send(self, start: Start, deadline: float) -> _Pending:
        named = [("stdin", start.stdin), ("stdout", start.stdout), ("stderr", start.stderr)]
        named += [("cgroup", fd) for fd in start.cgroups]
        named += [(f"ns:{name}", fd) for name, fd in start.namespaces.items()]
        if start.root is not None:
            named.append(("root", start.root))
        reader, writer = os.pipe()
        pending = _Pending(reader)
        named.append(("report", writer))
        command = start.command
        message = {
            "fds": [name for name, _ in named],
            "interpreter": command.interpreter,
            "argv": command.argv,
            "module": command.module,
            "file": command.file,
            "args": command.args,
            "env": dict(command.env),
            "shell": command.shell,
            "unbuffered": command.unbuffered,
            "cwd": start.cwd,
            "uid": start.uid,
            "gid": start.gid,
            "groups": start.groups,
            "umask": start.umask,
            "rights": start.rights,
            "by_map": start.by_map,
        }
        try:
            with self._lock:
                if self._dead is not None:
                    raise self._dead
                self._number += 1
                self._pending[self._number] = pending
                limit = struct.pack("ll", int(deadline) + 1, 0)
                self._control.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
                send(self._control, {"id": self._number, **message}, [fd for _, fd in named])
        except OSError as error:
            # Half a message leaves no way to go on.
            self._process.kill()
            os.close(reader)
            gone = isinstance(error, ConnectionError)
            what = "ended" if gone else "takes no requests"
            raise EngineError(f"the warm-start process {what}: {error}") from error
        except EngineError:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        return pending

    def _started(self, pending: _Pending, start: Start, end: float) -> Child:
        who = " ".join(start.command.argv)
        try:
            pid = pending.pid.result(max(end - time.monotonic(), 0))
        except FutureTimeoutError as error:
            raise DeadlineError(f"{who}: the warm-start process did not answer") from error
        told = bytearray()
        while True:
            if not readable(pending.report, end):
                raise DeadlineError(f"{who}: did not start in time")
            piece = os.read(pending.report, 1 << 16)
            if not piece:
                break
            told += piece
        if not told:
            raise EngineError(f"{who}: ended before it ran{self._last_words()}")
        report = loads(told)
        if "error" in report:
            raise EngineError(f"{who}: could not be started: {report['error']}")
        return Child(pid, report["pid"], report["warm"], report["reason"], pending.ended)

    def _listen(self) -> None:
        """Until the zygote is gone, and then everybody who waits is told."""
        with contextlib.suppress(OSError):
            while (received := receive(self._control)) is not None:
                message, _ = received
                if "left" in message:
                    self._left = message["left"]
                    break
                self._hear(message)
        status = None
        if not self._left:
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = self._process.wait(_CLOSING)
        dead = EngineError(f"the warm-start process ended (status {status}){self._last_words()}")
        with self._lock:
            self._dead = dead
            left = list(self._pending.values())
            self._pending.clear()
        for pending in left:
            pending.fail(dead)

    def _hear(self, message: Mapping[str, Any]) -> None:
        number = message["id"]
        if "pid" in message:
            self._pending[number].pid.set_result(message["pid"])
            return
        with self._lock:
            pending = self._pending.pop(number)
        if "status" in message:
            pending.ended.set_result(message["status"])
        else:
            pending.fail(EngineError(f"a process could not be forked: {message['error']}"))

    def _last_words(self) -> str:
        said = self.said.strip()
        return f": {said[-_TAIL:]}" if said else ""
