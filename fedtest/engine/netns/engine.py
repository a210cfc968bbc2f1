"""The engine without Docker: each verb of the interface, by the pieces beside this file."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import threading
import time
from typing import TYPE_CHECKING, Any, Literal, cast

from fedtest import __version__
from fedtest.engine import examine, snapshot
from fedtest.engine.base import Engine, EngineInfo, Prepared, ProcessKey
from fedtest.engine.inside import hosts_file, resolv_conf
from fedtest.engine.netem import has_netem
from fedtest.engine.netns import channel, environment, limits, needs, open_files, usable
from fedtest.engine.netns.keeper import BESIDE, HOSTS
from fedtest.engine.netns.launch import READY
from fedtest.engine.netns.netlink import link_address
from fedtest.engine.netns.node.choice import asked_for, choose, lacking, told
from fedtest.engine.netns.node.environment import hold
from fedtest.engine.netns.node.python import from_text, own
from fedtest.engine.netns.provide import (
    as_their_owners_see,
    data_directory,
    given,
    refuse_what_needs_docker,
)
from fedtest.engine.netns.pump import Pump
from fedtest.engine.netns.scripts import checked, finish
from fedtest.engine.netns.starter import ColdStarter, HostPlace, command, hear, speak
from fedtest.engine.netns.state import RunPlace, base, sweep
from fedtest.engine.parallel import Workers
from fedtest.engine.settings import setting_files
from fedtest.errors import DeadlineError, EngineError, NotAsPlanned
from fedtest.plan import ImagePlan

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from fedtest.engine.base import Power, RunTag, Sink
    from fedtest.engine.examine import Examination, Examined
    from fedtest.engine.netns.channel import Message
    from fedtest.engine.netns.node.python import NodePython
    from fedtest.engine.netns.starter import Starter
    from fedtest.engine.snapshot import Snapshot
    from fedtest.plan import HostPlan, Plan, ProcessPlan

_PYTHON = "python.json"
_SIGNAL_DEADLINE = 30.0
_NO_NAMES = "# Names are in /etc/hosts; there is no other server of names.\n"


class NetnsEngine(Engine):
    """Hosts as namespaces. EngineUnavailable if this machine does not allow them.

    `python`: what hosts are to run; None: as the environment says, or else what is needed.
    """

    def __init__(self, starter: Starter | None = None, python: str | None = None) -> None:
        open_files.allow_many()
        self._mapped = needs.rights()
        self._base = base()
        self._starter = starter or ColdStarter()
        self._asked = asked_for(python)
        self._python = own()
        self._held = -1
        self._workers = Workers()
        self._pump = Pump()
        self._lock = threading.Lock()

    def info(self) -> EngineInfo:
        kernel = platform.release()
        groups = limits.cannot(limits.CONTROLLERS)
        return EngineInfo(
            kind="netns",
            version=__version__,
            api="none",
            kernel=kernel,
            naming="given when made",
            netem=has_netem(kernel),
            details={
                "rights": "of a user namespace" if self._mapped else "root's",
                "state": str(self._base),
                "limits": f"none, by control groups: {groups}"
                if groups
                else f"by control groups of version {limits.version()}",
                "processes start": self._starter.way,
                "hosts run": told(),
            },
        )

    def prepare(self, plan: Plan, run: RunTag, progress: Callable[[str], None]) -> Prepared:
        refuse_what_needs_docker(plan)
        needs.refuse_what_is_missing(plan, lacking(plan, self._asked))
        # First, for it takes seconds: who cannot have it need not wait for gigabytes of torch.
        sets = dict.fromkeys(name for host in plan.hosts for name, _ in host.data)
        data = {name: data_directory(name, progress) for name in sets}
        self._python = choose(plan, self._asked, progress, plain_users=not self._mapped)
        self._hold()
        self._starter.prepare(plan, self._python)
        without = ", ".join(host.name for host in plan.hosts if host.image != ImagePlan())
        if without:
            progress(f"without their image, which is optional, and from this machine: {without}")
        return Prepared(
            images={ImagePlan(): "this machine"},
            data=data,
            versions={"this machine": self._python.versions},
        )

    def _hold(self) -> None:
        """Nobody removes what hosts run while we are here."""
        held, self._held = self._held, hold(self._python)
        if held >= 0:
            os.close(held)

    def realise(
        self,
        plan: Plan,
        run: RunTag,
        prepared: Prepared,
        progress: Callable[[str], None],
        deadline: float,
    ) -> Mapping[str, Snapshot]:
        end = time.monotonic() + deadline
        refuse_what_needs_docker(plan)
        place = RunPlace(run.id)
        self._keeper(place, run)
        place.write(_PYTHON, self._python.text())
        order = {
            "do": "realise",
            "networks": [{"name": item.name, "mtu": item.mtu} for item in plan.networks],
            "hosts": [self._described(place, host, prepared) for host in plan.hosts],
        }
        self._ask(place, order, "making hosts", end)
        files = {host.name: setting_files(host) for host in plan.hosts}
        found = self._observe(run, files, end - time.monotonic())
        # What it does meanwhile must not be measured as the hosts' doing.
        self._starter.settle(plan, progress, end)
        return found

    def _keeper(self, place: RunPlace, run: RunTag) -> None:
        """Started, if it is not there yet."""
        with self._lock:
            place.make(run)
            with contextlib.suppress(OSError):
                channel.connect(place.keeper_socket, 5.0).close()
                return
            order = usable.settings(mapped=self._mapped)
            order |= {"run": run.id, "directory": str(place.path)}
            said = usable.run("launch", order)
            if said != READY:
                raise EngineError(f"run {run.id}: its keeper did not start: {said}")

    def _described(self, place: RunPlace, host: HostPlan, prepared: Prepared) -> Message:
        return {
            "name": host.name,
            "attachments": [
                {
                    "network": item.network,
                    "interface": item.interface,
                    "address": str(item.address.ip),
                    "mask": str(item.address.netmask),
                    "mac": item.mac or link_address(str(item.address.ip)),
                }
                for item in host.attachments
            ],
            "etc": {
                "hosts": hosts_file(host.names),
                "resolv.conf": resolv_conf(host.dns) or _NO_NAMES,
                "hostname": f"{host.name}\n",
            },
            "needed": self._python.shown,
            **given(place.path, host, prepared.data),
        }

    def observe(self, run: RunTag, hosts: Iterable[str], deadline: float) -> Mapping[str, Snapshot]:
        return self._observe(run, dict.fromkeys(hosts, ()), deadline)

    def _observe(
        self, run: RunTag, files: Mapping[str, tuple[str, ...]], deadline: float
    ) -> Mapping[str, Snapshot]:
        """`files`: what each host is to tell, too."""
        end = time.monotonic() + deadline
        return self._workers.each(
            lambda host: self._look(run, host, files[host], end),
            files,
            doing="looking into hosts",
            deadline=deadline,
        )

    def _look(self, run: RunTag, host: str, files: tuple[str, ...], end: float) -> Snapshot:
        what = f"looking into host {host}"
        order = {"do": "look", "files": files}
        with speak(_place(run, host), order, (), what, end) as connection:
            text = str(hear(connection, what)["text"])
        try:
            return snapshot.parse(text)
        except ValueError as error:
            raise EngineError(f"host {host}: {error}") from error

    def start(
        self, run: RunTag, processes: Sequence[ProcessPlan], sink: Sink, deadline: float
    ) -> Mapping[ProcessKey, int]:
        end = time.monotonic() + deadline
        plans = {ProcessKey(plan.host, plan.name): plan for plan in processes}
        names = list(dict.fromkeys(plan.host for plan in processes))
        states = self._states(run, names, end)
        for name, state in states.items():
            if state["power"] != "on":
                what = state["power"] or "not there"
                raise EngineError(f"starting a process: host {name} is {what}")
        python = _python(run)
        places = {
            name: HostPlace(
                name, _place(run, name).socket, state["pid"], tuple(state["groups"]), python
            )
            for name, state in states.items()
        }
        return self._workers.each(
            lambda key: self._start(places[key.host], plans[key], sink, end),
            plans,
            doing="starting processes",
            deadline=deadline,
        )

    def _start(self, host: HostPlace, plan: ProcessPlan, sink: Sink, end: float) -> int:
        key = ProcessKey(plan.host, plan.name)
        (out, out_end), (errors, errors_end) = (os.pipe2(os.O_CLOEXEC) for _ in range(2))
        try:
            started = self._starter.start(host, plan, out_end, errors_end, end)
        except BaseException:
            os.close(out)
            os.close(errors)
            raise
        finally:
            os.close(out_end)
            os.close(errors_end)

        def output(stream: str, data: bytes) -> None:
            sink.output(key, cast("Literal['stdout', 'stderr']", stream), data)

        self._pump.watch(
            started.channel,
            {out: "stdout", errors: "stderr"},
            output,
            lambda status: sink.exited(key, status),
            lambda why: sink.lost(key, EngineError(f"{key}: {why}")),
        )
        return started.pid

    def cold_starts(self) -> Mapping[ProcessKey, str]:
        return self._starter.cold()

    def signal(
        self, run: RunTag, pids: Mapping[ProcessKey, int], number: int
    ) -> Collection[ProcessKey]:
        end = time.monotonic() + _SIGNAL_DEADLINE
        by_host: dict[str, list[int]] = {}
        for key, pid in pids.items():
            by_host.setdefault(key.host, []).append(pid)
        what = f"sending signal {number}"

        def send(host: str) -> Collection[int]:
            order = {"do": "signal", "pids": by_host[host], "number": int(number)}
            with speak(_place(run, host), order, (), what, end) as connection:
                there: list[int] = hear(connection, what)["there"]
                return there

        there = self._workers.each(send, by_host, doing=what, deadline=_SIGNAL_DEADLINE)
        return {key for key, pid in pids.items() if pid in there[key.host]}

    def examine(
        self, run: RunTag, hosts: Mapping[str, Examination], deadline: float
    ) -> Mapping[str, Examined]:
        end = time.monotonic() + deadline

        place = RunPlace(run.id).path

        def look(host: str) -> Examined:
            what = f"looking at host {host} from beside it"
            request = examine.request(hosts[host], "/")
            order = {"do": "probe", "request": request}
            _, out, errors = finish(_place(run, host), order, what, end)
            if not out:
                raise EngineError(f"{what}: {errors.decode('utf-8', 'replace')[-1000:]}")
            found = examine.parse(host, hosts[host], out.decode("utf-8", "replace"))
            return as_their_owners_see(place, host, found) if self._mapped else found

        doing = "looking at hosts from beside them"
        return self._workers.each(look, hosts, doing=doing, deadline=deadline)

    def condition(
        self, run: RunTag, scripts: Mapping[str, str], deadline: float, *, inside: bool = False
    ) -> Mapping[str, str]:
        end = time.monotonic() + deadline
        place = RunPlace(run.id)
        env = environment.variables(0, own())

        def change(host: str) -> str:
            what = f"changing {'' if inside else 'the network of '}host {host}"
            if not inside:
                self._ask(place, {"do": "beside", "host": host}, what, end)
            order = command(("/bin/sh", "-c", scripts[host]), env)
            return checked(_place(run, host, "" if inside else BESIDE), order, what, end)

        doing = "changing hosts" if inside else "changing networks"
        return self._workers.each(change, scripts, doing=doing, deadline=deadline)

    def power(self, run: RunTag, hosts: Mapping[str, Power], deadline: float) -> None:
        end = time.monotonic() + deadline
        order = {"do": "power", "hosts": dict(hosts)}
        self._ask(RunPlace(run.id), order, "switching hosts", end)

    def destroy(self, run_id: str, deadline: float) -> int:
        return RunPlace(run_id).remove(time.monotonic() + deadline)

    def sweep(self, deadline: float) -> Mapping[str, int]:
        return sweep(deadline)

    def close(self) -> None:
        self._workers.close()
        self._pump.close()
        # Last: what it loses hold of goes on, and is no loss to who listens no more.
        self._starter.close()
        if self._held >= 0:
            os.close(self._held)
            self._held = -1

    def _states(self, run: RunTag, names: list[str], end: float) -> dict[str, Any]:
        order = {"do": "hosts", "names": names}
        return self._ask(RunPlace(run.id), order, "asking for hosts", end)

    def _ask(self, place: RunPlace, order: Message, what: str, end: float) -> Message:
        """What the run's keeper answers. EngineError, DeadlineError."""
        try:
            with channel.connect(place.keeper_socket, max(end - time.monotonic(), 0.1)) as keeper:
                channel.send(keeper, order)
                told, _ = channel.receive(keeper)
        except TimeoutError as error:
            raise DeadlineError(f"{what}: not done in time") from error
        except (channel.Gone, OSError, json.JSONDecodeError) as error:
            whom = order.get("names") or order.get("host") or ""
            raise EngineError(f"{what}: run {place.run_id} has no hosts {whom}") from error
        if told.get("planned"):
            raise NotAsPlanned(
                f"{what}: {told['error']}",
                remedy="Leave it out, or run where it can be kept: as root, on a kernel with "
                "control groups, or with --engine docker.",
            )
        if "error" in told:
            raise EngineError(f"{what}: {told['error']}")
        return told


def _python(run: RunTag) -> NodePython:
    """What the run's hosts run, whoever made them."""
    try:
        return from_text((RunPlace(run.id).path / _PYTHON).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return own()


def _place(run: RunTag, host: str, which: str = "") -> HostPlace:
    return HostPlace(host, str(RunPlace(run.id).path / HOSTS / f"{host}{which}.sock"))
