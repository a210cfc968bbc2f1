"""Commands in hosts: started by `exec`, watched over its stream, signalled from inside.

The engine's exec can neither be signalled nor be waited for, and the SDK's
time-outs do not reach its stream. So a command first tells its process id (see
`inside.WRAPPER`), one thread for each reads the stream with time-outs of its
own, and the exit status is asked for when the stream ends.
"""

from __future__ import annotations

import select
import struct
import threading
import time
from typing import TYPE_CHECKING, Any, Literal

from fedtest.engine import inside
from fedtest.engine.base import ProcessKey
from fedtest.engine.docker import labels
from fedtest.engine.docker.client import close_response, engine_errors
from fedtest.errors import DeadlineError, EngineError, FedtestError

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from fedtest.engine.base import RunTag, Sink
    from fedtest.engine.docker.client import DockerClient
    from fedtest.plan import ProcessPlan

_IDLE = 2.0
"""Seconds of silence after which we ask whether the process still runs: a
descendant that keeps its output open would hide its end."""

_HEADER = struct.Struct(">BxxxL")
_STREAMS: dict[int, Literal["stdout", "stderr"]] = {1: "stdout", 2: "stderr"}
_CHUNK = 1 << 16


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
    watcher = _Watcher(client, execution, key, _Frames(stream), sink)
    threading.Thread(target=watcher.watch, name=str(key), daemon=True).start()
    return watcher.pid(end)


def signal_processes(
    client: DockerClient, run: RunTag, host: str, pids: list[int], number: int
) -> None:
    """Signal processes and their groups; one that has ended is no error."""
    script = 'n=$1; shift; for p; do kill -"$n" -"$p" 2>/dev/null || kill -"$n" "$p"; done'
    with engine_errors(f"sending signal {number} in host {host}"):
        execution = client.api.exec_create(
            labels.container_name(run.id, host),
            ["/bin/sh", "-c", script, "fedtest", str(number), *map(str, pids)],
            user="0:0",
        )
        client.api.exec_start(execution["Id"])


class _Frames:
    """The engine's stream of frames: eight bytes of header, then that many of content."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream  # Keeps the response alive.
        self._socket: socket.socket = stream._sock  # noqa: SLF001 - the SDK has no other way
        self._socket.setblocking(False)
        self._buffer = bytearray()

    def __iter__(self) -> Iterator[tuple[Literal["stdout", "stderr"], bytes] | None]:
        """Frames as they come, None after each time of silence, until the stream ends."""
        while True:
            while len(self._buffer) >= _HEADER.size:
                kind, length = _HEADER.unpack_from(self._buffer)
                if len(self._buffer) < _HEADER.size + length:
                    break
                data = bytes(self._buffer[_HEADER.size : _HEADER.size + length])
                del self._buffer[: _HEADER.size + length]
                yield _STREAMS[kind], data
            poll = select.poll()
            poll.register(self._socket, select.POLLIN)
            if not poll.poll(_IDLE * 1000):
                yield None
                continue
            data = self._socket.recv(_CHUNK)
            if not data:
                return
            self._buffer += data

    def close(self) -> None:
        self._socket.close()
        close_response(self._stream)


class _Watcher:
    """Reads one process's stream to its end."""

    def __init__(
        self, client: DockerClient, execution: str, key: ProcessKey, frames: _Frames, sink: Sink
    ) -> None:
        self._client = client
        self._execution = execution
        self._key = key
        self._frames = frames
        self._sink = sink
        self._pid: int | None = None
        self._error: FedtestError | None = None
        self._told = threading.Event()

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
        except (FedtestError, OSError) as error:
            self._error = (
                error
                if isinstance(error, FedtestError)
                else EngineError(f"watching {self._key}: {error}")
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
        first = bytearray()
        errors = bytearray()  # Order is not kept between the streams: these may come first.
        for frame in self._frames:
            if frame is None:
                if not self._running():
                    break
                continue
            stream, data = frame
            if self._pid is None:
                (first if stream == "stdout" else errors).extend(data)
                if b"\n" not in first:
                    continue
                self._pid, data = _told_pid(bytes(first), self._key)
                stream = "stdout"
                self._told.set()
            if errors:
                self._sink.output(self._key, "stderr", bytes(errors))
                errors.clear()
            if data:
                self._sink.output(self._key, stream, data)
        if self._pid is None:
            said = (first + errors).decode("utf-8", "replace")
            raise EngineError(f"{self._key}: could not be started: {said}")

    def _running(self) -> bool:
        return bool(self._client.api.exec_inspect(self._execution)["Running"])

    def _status(self) -> int:
        """A process may close its output and go on; how long is its deadline's business."""
        pause = 0.01
        while (status := self._client.api.exec_inspect(self._execution))["Running"]:
            time.sleep(pause)
            pause = min(pause * 2, _IDLE)
        return int(status["ExitCode"])


def _told_pid(first: bytes, key: ProcessKey) -> tuple[int, bytes]:
    """The id that the wrapper told, and what came behind it."""
    line, _, rest = first.partition(b"\n")
    number = line.removeprefix(inside.PID_PREFIX)
    if number == line or not number.isdigit():
        raise EngineError(f"{key}: could not be started: {line.decode('utf-8', 'replace')}")
    return int(number), rest
