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
import sys
import threading
import time
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fedtest.engine import examine
from fedtest.engine.base import Engine, EngineInfo, Prepared, ProcessKey
from fedtest.engine.fake_provisions import NOTHING, claimed_facts, claimed_settings
from fedtest.engine.inside import SNAPSHOT, hosts_file, resolv_conf
from fedtest.engine.snapshot import Interface, ProcessFacts, Snapshot, TcpSocket, parse
from fedtest.errors import EngineError, SubnetTaken

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from ipaddress import IPv4Network

    from fedtest.engine.base import Power, RunTag, Sink
    from fedtest.engine.examine import Examination, Examined, PathFacts
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
    reach: Mapping[tuple[str, str, int], str] = field(default_factory=dict)
    """(host, address, port) -> what `examine` tells of a connection; else it is refused."""
    sockets: tuple[tuple[str, str, int, str, int], ...] = ()
    """(process, local address, local port, remote address, remote port) that `observe` shows."""
    settings: Mapping[tuple[str, str], str | None] = field(default_factory=dict)
    """(host, path) -> what a file of its settings shows, or None if it is not there."""
    facts: Mapping[tuple[str, str], PathFacts] = field(default_factory=dict)
    """(host, path) -> what `examine` tells of a path, instead of what was put there."""
    oom_kills: Mapping[str, int] = field(default_factory=dict)
    """Host -> how many of its processes `observe` says the kernel has killed."""
    netem: bool | None = None
    answer: Callable[[str, str], str] = lambda _host, _script: ""
    """(host, script for its network) -> what it prints; it may raise. No script is really run."""


class FakeEngine(Engine):
    """Keeps its hosts in memory, so it is the one engine that only its own process sees."""

    def __init__(self, defects: Defects | None = None) -> None:
        self.defects = defects or Defects()
        self.realised: dict[str, Plan] = {}
        self.conditioned: list[tuple[str, str]] = []
        """(host, script) of each script, in the order in which they came."""
        self._processes: dict[tuple[str, ProcessKey], _Process] = {}
        self._starts: dict[tuple[str, str], int] = {}
        self._power: dict[tuple[str, str], Power] = {}
        self._lock = threading.Lock()

    def info(self) -> EngineInfo:
        return EngineInfo("fake", "0", "0", os.uname().release, "claimed", self.defects.netem)

    def prepare(self, plan: Plan, run: RunTag, progress: Callable[[str], None]) -> Prepared:
        del run
        if self.defects.prepare is not None:
            raise self.defects.prepare
        progress("nothing to prepare")
        return Prepared({host.image: "fake" for host in plan.hosts}, {}, {})

    def realise(
        self,
        plan: Plan,
        run: RunTag,
        prepared: Prepared,
        progress: Callable[[str], None],
        deadline: float,
    ) -> Mapping[str, Snapshot]:
        del prepared, progress, deadline
        if self.defects.realise is not None:
            raise self.defects.realise
        with self._lock:
            others = [other for run_id, other in self.realised.items() if run_id != run.id]
            taken = [
                *self.defects.taken,
                *(item.subnet for other in others for item in other.networks),
            ]
            for network in plan.networks:
                if any(network.subnet.overlaps(subnet) for subnet in taken):
                    raise SubnetTaken(f"{network.subnet} is in use", subnet=network.subnet)
            there = self.realised.get(run.id)
            # What is there already stays, be it more than is asked for now.
            self.realised[run.id] = there or plan
            for host in plan.hosts:
                self._power[run.id, host.name] = "on"
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

    def signal(
        self, run: RunTag, pids: Mapping[ProcessKey, int], number: int
    ) -> Collection[ProcessKey]:
        there = set()
        for key in pids:
            if process := self._processes.get((run.id, key)):  # Not if its host was switched off.
                if _state(process.pid) not in "ZX":
                    there.add(key)
                process.signal(number)
        return there

    def examine(
        self, run: RunTag, hosts: Mapping[str, Examination], deadline: float
    ) -> Mapping[str, Examined]:
        """Files are those of this machine, processes the run's own, connections only claimed."""
        return {name: self._examine(run, name, wanted, deadline) for name, wanted in hosts.items()}

    def condition(
        self, run: RunTag, scripts: Mapping[str, str], deadline: float, *, inside: bool = False
    ) -> Mapping[str, str]:
        del deadline, inside
        told = {}
        for name, script in scripts.items():
            self._host(run, name)
            self.conditioned.append((name, script))
            told[name] = self.defects.answer(name, script)
        return told

    def power(self, run: RunTag, hosts: Mapping[str, Power], deadline: float) -> None:
        del deadline
        for name, wanted in hosts.items():
            self._host(run, name)
            if self._power.get((run.id, name), "on") == "off" and wanted != "off":
                raise EngineError(f"host {name} should be {wanted}, it is off")
            self._power[run.id, name] = wanted
            if wanted == "off":
                self._kill(run.id, name)
                self._starts[run.id, name] = self._starts.get((run.id, name), 0) + 1
            else:
                for (run_id, key), process in list(self._processes.items()):
                    if (run_id, key.host) == (run.id, name):
                        process.halt() if wanted == "paused" else process.signal(signal.SIGCONT)

    def destroy(self, run_id: str, deadline: float) -> int:
        del deadline
        return self._remove(run_id)

    def sweep(self, deadline: float) -> Mapping[str, int]:
        del deadline
        return {}  # Nothing of it outlives its process.

    def close(self) -> None:
        for run_id in list(self.realised):
            self._remove(run_id)

    def _remove(self, run_id: str) -> int:
        with self._lock:
            plan = self.realised.pop(run_id, None)
        self._kill(run_id, None)
        return 0 if plan is None else len(plan.hosts) + len(plan.networks)

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
                name, item.mac or "02:00:00:00:00:00", 1500, True, item.addresses,
                count, count // 1000, count, count // 1000,
            )  # fmt: skip
        names = hosts_file(host.names)
        text = f"{host.name}: {', '.join(interfaces)}"
        return Snapshot(
            uptime=time.monotonic(),
            born=self._starts.get((run.id, host.name), 0),
            boot="fake",
            interfaces=interfaces,
            sockets=self._sockets(run, host),
            hosts_file=names,
            resolv_conf=resolv_conf(host.dns),
            text=text,
            processes=self._facts(run, host.name),
            oom_kills=self.defects.oom_kills.get(host.name, 0) if traffic else 0,
            settings={
                path: body
                for path, planned in claimed_settings(host).items()
                if (body := self.defects.settings.get((host.name, path), planned)) is not None
            },
        )

    def _examine(self, run: RunTag, host: str, wanted: Examination, deadline: float) -> Examined:
        plan = self._host(run, host)
        here = [
            process.pid
            for (run_id, key), process in list(self._processes.items())
            if (run_id, key.host) == (run.id, host)
        ]
        local = replace(wanted, reach=(), facts=())
        told = subprocess.run(
            [sys.executable, "-m", examine.MODULE, examine.request(local, "/", here)],
            capture_output=True, text=True, timeout=deadline, check=True,
        )  # fmt: skip
        claimed = {
            target: self.defects.reach.get(
                (host, target.address, target.port), "Connection refused"
            )
            for target in wanted.reach
        }
        facts = claimed_facts(plan) if wanted.facts else {}
        return replace(
            examine.parse(host, local, told.stdout),
            reach=claimed,
            facts={
                path: self.defects.facts.get((host, path)) or facts.get(path, NOTHING)
                for path in wanted.facts
            },
        )

    def _facts(self, run: RunTag, host: str) -> dict[int, ProcessFacts]:
        """Those that the run's processes on the host really are."""
        own = {
            process.pid
            for (run_id, key), process in list(self._processes.items())
            if (run_id, key.host) == (run.id, host)
        }
        every = _machine().processes if own else {}
        return {pid: facts for pid, facts in every.items() if facts.session in own}

    def _sockets(self, run: RunTag, host: HostPlan) -> tuple[TcpSocket, ...]:
        """Those that the run's processes on the host really have, and the claimed ones."""
        here = {
            process.pid
            for (run_id, key), process in list(self._processes.items())
            if (run_id, key.host) == (run.id, host.name)
        }
        found = [item for item in _machine().sockets if item.session in here] if here else []
        own = {str(address.ip) for item in host.attachments for address in item.addresses}
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
            process = _Process(plan, key, sink)
        except OSError as error:
            raise EngineError(f"{key}: could not be started: {error}") from error
        former = self._processes.get((run.id, key))
        if former is not None:
            former.kill()  # Started again: of what went before, nothing is left.
        self._processes[run.id, key] = process
        return process.pid

    def _kill(self, run_id: str, host: str | None) -> None:
        for name in list(self._processes):
            run, key = name
            if run == run_id and host in (None, key.host):
                self._processes.pop(name).kill()


class _Process:
    """A subprocess that leads a session, watched by a thread.

    It is not reaped before `kill`, so that its id stays its own: a signal can
    reach what it left behind, and nobody else.
    """

    def __init__(self, plan: ProcessPlan, key: ProcessKey, sink: Sink) -> None:
        self._key = key
        self._sink = sink
        self._popen = subprocess.Popen(
            # A command that is not there is the shell's to complain of, as in a host.
            ["/bin/sh", "-c", 'exec "$@"', "fedtest", *plan.argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **dict(plan.env)},
            start_new_session=True,
        )
        self.pid = self._popen.pid
        self._over = threading.Event()
        self._told = False
        self._telling = threading.Lock()
        threading.Thread(target=self._watch, name=str(key), daemon=True).start()

    def signal(self, number: int) -> None:
        os.killpg(self.pid, number)

    def halt(self) -> None:
        """It stands still, or has ended, when this returns."""
        self.signal(signal.SIGSTOP)
        # Not waited for as a child: a shell may wait within vfork for one that stands still.
        while _state(self.pid) not in "TtDZX":
            time.sleep(0.005)

    def kill(self) -> None:
        """End it and its descendants, and leave nothing of it."""
        self.signal(signal.SIGKILL)
        self._over.wait()
        self._popen.wait()

    def _watch(self) -> None:
        """A descendant that keeps the output open does not hide the process's end."""
        readers = [
            threading.Thread(target=self._forward, args=(stream,), daemon=True)
            for stream in ("stdout", "stderr")
        ]
        for reader in readers:
            reader.start()
        ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        self._over.set()
        assert ended is not None  # noqa: S101 - it is None only with WNOHANG
        for reader in readers:
            reader.join(_DRAIN)
        with self._telling:
            self._told = True
        status = ended.si_status if ended.si_code == os.CLD_EXITED else 128 + ended.si_status
        self._sink.exited(self._key, status)

    def _forward(self, stream: Literal["stdout", "stderr"]) -> None:
        pipe = self._popen.stdout if stream == "stdout" else self._popen.stderr
        assert pipe is not None  # noqa: S101 - both were asked for
        with pipe:
            while data := os.read(pipe.fileno(), 1 << 16):
                with self._telling:
                    if not self._told:
                        self._sink.output(self._key, stream, data)


def _machine() -> Snapshot:
    told = subprocess.run(
        ["/bin/sh", "-c", SNAPSHOT], capture_output=True, text=True, timeout=60, check=True
    )
    return parse(told.stdout)


def _state(pid: int) -> str:
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return text.rpartition(")")[2].split()[0]
