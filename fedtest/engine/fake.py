"""An engine for tests: hosts that are only claimed, processes that are real.

What a plan asks for is what `observe` tells, unless `defects` says otherwise,
and a process runs as a local subprocess without any isolation. It keeps to the
contract that every engine is tested against, so that what is built on engines
can be tested in milliseconds. It is no substitute for one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING, Literal

from fedtest.engine.base import Engine, EngineInfo, Prepared, ProcessKey
from fedtest.engine.inside import hosts_file
from fedtest.engine.snapshot import Interface, Snapshot, TcpSocket
from fedtest.errors import EngineError, SubnetTaken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from ipaddress import IPv4Network

    from fedtest.engine.base import RunTag, Sink
    from fedtest.plan import HostPlan, Plan, ProcessPlan

_DRAIN = 0.5
"""Seconds to read what a process left in its pipes when it ended."""


@dataclass
class Defects:
    """What this engine does wrong on purpose."""

    prepare: Exception | None = None
    realise: Exception | None = None
    taken: tuple[IPv4Network, ...] = ()
    misnamed: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """(host, interface) -> the name it gets instead."""
    traffic: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """(host, interface) -> bytes that `observe` adds in both directions."""
    sockets: tuple[tuple[str, str, int, str, int], ...] = ()
    """(process, local address, local port, remote address, remote port) that `observe` shows."""


class FakeEngine(Engine):
    """Keeps its hosts in memory, so it is the one engine that only its own process sees."""

    def __init__(self, defects: Defects | None = None) -> None:
        self.defects = defects or Defects()
        self.realised: dict[str, Plan] = {}
        self._processes: dict[tuple[str, ProcessKey], subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()

    def info(self) -> EngineInfo:
        return EngineInfo("fake", "0", "0", os.uname().release, "claimed", netem=None)

    def prepare(self, plan: Plan, run: RunTag, progress: Callable[[str], None]) -> Prepared:
        del run
        if self.defects.prepare is not None:
            raise self.defects.prepare
        progress("nothing to prepare")
        return Prepared({host.image: "fake" for host in plan.hosts}, {}, {})

    def realise(
        self, plan: Plan, run: RunTag, prepared: Prepared, deadline: float
    ) -> Mapping[str, Snapshot]:
        del prepared, deadline
        if self.defects.realise is not None:
            raise self.defects.realise
        others = [other for run_id, other in self.realised.items() if run_id != run.id]
        taken = [*self.defects.taken, *(item.subnet for other in others for item in other.networks)]
        for network in plan.networks:
            if any(network.subnet.overlaps(subnet) for subnet in taken):
                raise SubnetTaken(f"{network.subnet} is in use", subnet=network.subnet)
        self.realised[run.id] = plan
        return {host.name: self._snapshot(run, host, traffic=False) for host in plan.hosts}

    def observe(self, run: RunTag, hosts: Iterable[str], deadline: float) -> Mapping[str, Snapshot]:
        del deadline
        return {name: self._snapshot(run, self._host(run, name), traffic=True) for name in hosts}

    def start(
        self, run: RunTag, processes: Sequence[ProcessPlan], sink: Sink, deadline: float
    ) -> Mapping[ProcessKey, int]:
        del deadline
        return {
            ProcessKey(plan.host, plan.name): self._start(run, plan, sink) for plan in processes
        }

    def signal(self, run: RunTag, pids: Mapping[ProcessKey, int], number: int) -> None:
        for key in pids:
            process = self._processes[run.id, key]
            if process.poll() is None:
                os.killpg(process.pid, number)

    def restart(self, run: RunTag, hosts: Iterable[str], deadline: float) -> None:
        del deadline
        for name in hosts:
            self._host(run, name)
            self._kill(run.id, name)

    def destroy(self, run_id: str, deadline: float) -> int:
        del deadline
        plan = self.realised.pop(run_id, None)
        self._kill(run_id, None)
        return 0 if plan is None else len(plan.hosts) + len(plan.networks)

    def sweep(self, deadline: float) -> Mapping[str, int]:
        del deadline
        return {}  # Nothing of it outlives its process.

    def close(self) -> None:
        for run_id in list(self.realised):
            self.destroy(run_id, 0)

    def _host(self, run: RunTag, name: str) -> HostPlan:
        try:
            return self.realised[run.id].host(name)
        except (KeyError, StopIteration) as error:
            raise EngineError(f"run {run.id} has no host {name}") from error

    def _snapshot(self, run: RunTag, host: HostPlan, *, traffic: bool) -> Snapshot:
        interfaces = {}
        for item in host.attachments:
            name = self.defects.misnamed.get((host.name, item.interface), item.interface)
            count = self.defects.traffic.get((host.name, item.interface), 0) if traffic else 0
            interfaces[name] = Interface(
                name, "02:00:00:00:00:00", 1500, True, (item.address,),
                count, count // 1000, count, count // 1000,
            )  # fmt: skip
        names = hosts_file(host.names)
        text = f"{host.name}: {', '.join(interfaces)}"
        return Snapshot(
            time.monotonic(), "fake", interfaces, self._sockets(run, host), names, "", text
        )

    def _sockets(self, run: RunTag, host: HostPlan) -> tuple[TcpSocket, ...]:
        found = []
        own = {str(item.address.ip) for item in host.attachments}
        for name, local, local_port, remote, remote_port in self.defects.sockets:
            process = self._processes.get((run.id, ProcessKey(host.name, name)))
            if process is not None and local in own:
                found.append(
                    TcpSocket(
                        ip_address(local), local_port, ip_address(remote), remote_port,
                        "established", process.pid,
                    )
                )  # fmt: skip
        return tuple(found)

    def _start(self, run: RunTag, plan: ProcessPlan, sink: Sink) -> int:
        key = ProcessKey(plan.host, plan.name)
        self._host(run, plan.host)
        try:
            process = subprocess.Popen(
                # A command that is not there is the shell's to complain of, as in a host.
                ["/bin/sh", "-c", 'exec "$@"', "fedtest", *plan.argv],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, **dict(plan.env)},
                start_new_session=True,
            )
        except OSError as error:
            raise EngineError(f"{key}: could not be started: {error}") from error
        with self._lock:
            self._processes[run.id, key] = process
        threading.Thread(target=_watch, args=(process, key, sink), daemon=True).start()
        return process.pid

    def _kill(self, run_id: str, host: str | None) -> None:
        for (run, key), process in list(self._processes.items()):
            if run == run_id and host in (None, key.host) and process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _watch(process: subprocess.Popen[bytes], key: ProcessKey, sink: Sink) -> None:
    """A descendant that keeps the output open does not hide the process's end."""
    ended = threading.Event()

    def forward(stream: Literal["stdout", "stderr"]) -> None:
        pipe = process.stdout if stream == "stdout" else process.stderr
        assert pipe is not None  # noqa: S101 - both were asked for
        with pipe:
            while (data := os.read(pipe.fileno(), 1 << 16)) and not ended.is_set():
                sink.output(key, stream, data)

    readers = [
        threading.Thread(target=forward, args=(stream,), daemon=True)
        for stream in ("stdout", "stderr")
    ]
    for reader in readers:
        reader.start()
    status = process.wait()
    for reader in readers:
        reader.join(_DRAIN)
    ended.set()
    sink.exited(key, 128 - status if status < 0 else status)
