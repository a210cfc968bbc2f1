"""Commands in hosts: started by `exec`, watched over its stream, signalled from inside.

The engine's exec can neither be signalled nor be waited for, and the SDK's
time-outs do not reach its stream. So a command first tells its environment and
its process id (see `inside.WRAPPER`), one thread for each reads the stream with time-outs of its
own, and the exit status is asked for when the stream ends.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from fedtest.engine import inside
from fedtest.engine.base import ProcessKey
from fedtest.engine.docker import labels
from fedtest.engine.docker.client import engine_errors
from fedtest.engine.docker.frames import Frames
from fedtest.engine.docker.scripts import run_script
from fedtest.errors import DeadlineError, EngineError, FedtestError, NotAsPlanned

if TYPE_CHECKING:
    from collections.abc import Collection

    from fedtest.engine.base import RunTag, Sink
    from fedtest.engine.docker.client import DockerClient
    from fedtest.plan import ProcessPlan

_IDLE = 2.0
"""Seconds after which we ask whether the process still runs: a descendant that
keeps its output open, and perhaps talks on, would hide its end."""

_DRAIN = 0.2
"""Seconds of silence after which a process known to have ended has said all."""

_FIRST = 8 << 20
"""The most bytes before the process id: kernels give a program 6 MB of words at most."""

_COUNTED = frozenset({"SHLVL", "_"})
"""Variables that some shells change for what they start and change back for what they become."""

_SIGNAL = """n=$1; shift
for p; do
  if kill -"$n" -"$p" || kill -"$n" "$p"; then echo "$p"; fi
done 2>/dev/null
true
"""


def start_process(
    client: DockerClient, run: RunTag, plan: ProcessPlan, sink: Sink, end: float
) -> int:
    """Start one command; its process id in the host. Its output and end go to `sink`."""
    key = ProcessKey(plan.host, plan.name)
    with engine_errors(f"starting {key}"):
        execution = client.api.exec_create(
            labels.container_name(run.id, plan.host),
            ["/bin/sh", "-c", inside.WRAPPER, "fedtest", *plan.argv],
            user=plan.user,
            environment=dict(plan.env),
        )["Id"]
        stream = client.api.exec_start(execution, socket=True)
    watcher = _Watcher(client, execution, key, Frames(stream), sink)
    threading.Thread(target=watcher.watch, name=str(key), daemon=True).start()
    pid = watcher.pid(end)
    _confirm(key, plan.env, watcher.environment)
    return pid


def _confirm(key: ProcessKey, wanted: tuple[tuple[str, str], ...], told: bytes) -> None:
    """NotAsPlanned with every variable that the image's shell hands on otherwise."""
    if wanted and not told:
        raise NotAsPlanned(
            f"{key}: its environment could not be read back",
            remedy="An image needs `cat` and `printf`, in /bin or on the PATH of the process.",
        )
    lines = told.decode("utf-8", "replace").split("\0")
    found = dict(line.partition("=")[::2] for line in lines)
    wrong = [
        f"{name} should be {value!r}, it is {repr(found[name]) if name in found else 'not set'}"
        for name, value in wanted
        if name not in _COUNTED and found.get(name) != value
    ]
    if wrong:
        raise NotAsPlanned(
            f"{key}: its environment is not what the scenario says: {'; '.join(wrong)}",
            remedy="A process is started by its image's /bin/sh, and that sets some variables "
            "itself. Set them in the command: `run: env NAME=VALUE COMMAND`.",
        )


def signal_processes(
    client: DockerClient, run: RunTag, host: str, pids: list[int], *, number: int, end: float
) -> Collection[int]:
    """Signal processes and their groups; those that there were: one that has ended is no error."""
    told = run_script(client, run, host, _SIGNAL, str(number), *map(str, pids), end=end)
    return {int(line) for line in told.split()}


class _Watcher:
    """Reads one process's stream to its end."""

    def __init__(
        self, client: DockerClient, execution: str, key: ProcessKey, frames: Frames, sink: Sink
    ) -> None:
        self._client = client
        self._execution = execution
        self._key = key
        self._frames = frames
        self._sink = sink
        self._pid: int | None = None
        self._error: FedtestError | None = None
        self._told = threading.Event()
        self._first = bytearray()
        self.environment = b""
        """What the process has, once its id is told: NAME=VALUE, with a NUL after each."""
        self._errors = bytearray()

    def pid(self, end: float) -> int:
        """The process's id, once it has told it."""
        if not self._told.wait(max(end - time.monotonic(), 0)):
            raise DeadlineError(f"{self._key}: did not start in time")
        if self._pid is None:
            raise self._error or EngineError(f"{self._key}: ended before it ran")
        return self._pid

    def watch(self) -> None:
        try:
            with engine_errors(f"watching {self._key}"):
                self._read()
                status = self._status()
        except Exception as error:  # noqa: BLE001 - whatever it is, somebody waits for this process
            self._error = (
                error
                if isinstance(error, FedtestError)
                else EngineError(f"watching {self._key}: {type(error).__name__}: {error}")
            )
            if self._pid is not None:
                self._sink.lost(self._key, self._error)
            self._told.set()
        else:
            if self._pid is not None:
                self._sink.exited(self._key, status)
            self._told.set()
        finally:
            self._frames.close()

    def _read(self) -> None:
        """To the stream's end, or to the process's if a descendant keeps the stream open."""
        while not self._frames.ended:
            self._forward(_IDLE, _IDLE)
            if not self._frames.ended and not self._running():
                # It may have said its last words since we stopped reading.
                self._forward(_DRAIN, _IDLE)
                break
        if self._pid is None:
            said = (self._first + self._errors).decode("utf-8", "replace")
            raise EngineError(f"{self._key}: could not be started: {said}")

    def _forward(self, silence: float, limit: float) -> None:
        for stream, data in self._frames.read(silence, limit=limit):
            rest = data
            if self._pid is None:
                # Order is not kept between the streams: errors may come first.
                (self._first if stream == "stdout" else self._errors).extend(data)
                told = inside.TOLD.search(self._first)
                if told is None:
                    if len(self._first) > _FIRST:
                        raise EngineError(f"{self._key}: could not be started: no process id came")
                    continue
                self.environment = bytes(self._first[: told.start()])
                self._pid, rest = int(told[1]), bytes(self._first[told.end() :])
                self._told.set()
                if self._errors:
                    self._sink.output(self._key, "stderr", bytes(self._errors))
                stream = "stdout"  # noqa: PLW2901 - what is left over is of that one
            if rest:
                self._sink.output(self._key, stream, rest)

    def _running(self) -> bool:
        return bool(self._client.api.exec_inspect(self._execution)["Running"])

    def _status(self) -> int:
        """A process may close its output and go on; how long is its deadline's business."""
        pause = 0.01
        while (status := self._client.api.exec_inspect(self._execution))["Running"]:
            time.sleep(pause)
            pause = min(pause * 2, _IDLE)
        return int(status["ExitCode"])
