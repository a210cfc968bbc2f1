"""The Docker engine: each verb of the interface, by the pieces beside this file."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from fedtest.engine import snapshot
from fedtest.engine.base import Engine, EngineInfo, Prepared, ProcessKey
from fedtest.engine.docker import images, labels, removal, volumes
from fedtest.engine.docker.beside import describe_beside, look_beside
from fedtest.engine.docker.client import engine_errors
from fedtest.engine.docker.helper import run_in_network
from fedtest.engine.docker.hosts import API_NAMES, Hosts, parsed
from fedtest.engine.docker.looker import Looker
from fedtest.engine.docker.networks import make_networks
from fedtest.engine.docker.power import set_power
from fedtest.engine.docker.processes import signal_processes, start_process
from fedtest.engine.docker.reach import reach
from fedtest.engine.docker.scripts import run_script
from fedtest.engine.netem import has_netem
from fedtest.engine.parallel import Workers
from fedtest.errors import EngineError, InvalidError
from fedtest.plan import ImagePlan

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from fedtest.engine.base import Power, RunTag, Sink
    from fedtest.engine.docker.endpoint import Endpoint
    from fedtest.engine.examine import Examination, Examined
    from fedtest.engine.snapshot import Snapshot
    from fedtest.plan import Plan, ProcessPlan

_SIGNAL_DEADLINE = 30.0

_QUEUE = 1800.0
"""Seconds to wait for runs that hold the same fixed subnet: as long as a few of them take."""


class DockerEngine(Engine):
    """Hosts as containers. EngineUnavailable if none answers at `endpoint`, or the one meant."""

    def __init__(self, endpoint: Endpoint | None = None) -> None:
        self._client = reach(endpoint)
        self._workers = Workers()
        self._lookers: dict[tuple[str, str], Looker] = {}
        self._lock = threading.Lock()

    def info(self) -> EngineInfo:
        client = self._client
        with engine_errors("asking the engine what it is"):
            details = client.api.info()
        by_option = client.api_version >= API_NAMES
        return EngineInfo(
            kind="docker",
            version=client.version["Version"],
            api=client.version["ApiVersion"],
            kernel=client.version["KernelVersion"],
            naming="endpoint option" if by_option else "renamed after the start",
            netem=has_netem(client.version["KernelVersion"]),
            details={
                "url": client.url,
                "found by": str(client.endpoint),
                "os": str(details.get("OperatingSystem", "")),
                "storage": str(details.get("Driver", "")),
                "cgroups": str(details.get("CgroupVersion", "")),
            },
        )

    def prepare(self, plan: Plan, run: RunTag, progress: Callable[[str], None]) -> Prepared:
        node = ImagePlan()
        wanted = dict.fromkeys(host.image for host in plan.hosts)
        if self._client.api_version < API_NAMES or plan.needs_tools:
            wanted[node] = None  # Helpers run from it.
        found = {
            image: images.ensure_image(
                self._client, image, progress=progress, labels=labels.of_run(run)
            )
            for image in wanted
        }
        sets = dict.fromkeys(name for host in plan.hosts for name, _ in host.data)
        data = {
            name: volumes.ensure_volume(
                self._client,
                name,
                image=next(iter(found.values())),
                labels=labels.of_run(run),
                progress=progress,
            )
            for name in sets
        }
        versions = {
            tag: {
                # A name can be given to another image; this is the one that was used.
                "id": images.image_id(self._client, tag) or "",
                **images.image_versions(self._client, tag),
            }
            for tag in found.values()
        }
        return Prepared(images=found, data=data, versions=versions)

    def realise(
        self,
        plan: Plan,
        run: RunTag,
        prepared: Prepared,
        progress: Callable[[str], None],
        deadline: float,
    ) -> Mapping[str, Snapshot]:
        make_networks(self._client, self._workers, plan, run, progress=progress, deadline=_QUEUE)
        end = time.monotonic() + deadline
        hosts = Hosts(self._client, run, prepared)
        return self._workers.each(
            lambda name: hosts.realise(plan.host(name), end),
            [host.name for host in plan.hosts],
            doing="starting hosts",
            deadline=deadline,
        )

    def observe(self, run: RunTag, hosts: Iterable[str], deadline: float) -> Mapping[str, Snapshot]:
        end = time.monotonic() + deadline
        return self._workers.each(
            lambda host: self._look(run, host, end),
            hosts,
            doing="looking into hosts",
            deadline=deadline,
        )

    def _look(self, run: RunTag, host: str, end: float) -> Snapshot:
        try:
            return parsed(host, self._looker(run, host).look(end))
        except EngineError:
            # A host whose processes have forked to its limit has none to look with.
            with suppress(InvalidError, ValueError):
                return snapshot.parse(describe_beside(self._client, run, host, end))
            raise

    def _looker(self, run: RunTag, host: str) -> Looker:
        with self._lock:
            return self._lookers.setdefault((run.id, host), Looker(self._client, run, host))

    def start(
        self, run: RunTag, processes: Sequence[ProcessPlan], sink: Sink, deadline: float
    ) -> Mapping[ProcessKey, int]:
        end = time.monotonic() + deadline
        plans = {ProcessKey(plan.host, plan.name): plan for plan in processes}
        return self._workers.each(
            lambda key: start_process(self._client, run, plans[key], sink, end),
            plans,
            doing="starting processes",
            deadline=deadline,
        )

    def signal(
        self, run: RunTag, pids: Mapping[ProcessKey, int], number: int
    ) -> Collection[ProcessKey]:
        end = time.monotonic() + _SIGNAL_DEADLINE
        by_host: dict[str, list[int]] = {}
        for key, pid in pids.items():
            by_host.setdefault(key.host, []).append(pid)

        def send(host: str) -> Collection[int]:
            pids_there = by_host[host]
            return signal_processes(self._client, run, host, pids_there, number=number, end=end)

        there = self._workers.each(
            send, by_host, doing=f"sending signal {number}", deadline=_SIGNAL_DEADLINE
        )
        return {key for key, pid in pids.items() if pid in there[key.host]}

    def examine(
        self, run: RunTag, hosts: Mapping[str, Examination], deadline: float
    ) -> Mapping[str, Examined]:
        end = time.monotonic() + deadline
        return self._workers.each(
            lambda host: look_beside(self._client, run, host, hosts[host], end),
            hosts,
            doing="looking at hosts from beside them",
            deadline=deadline,
        )

    def condition(
        self, run: RunTag, scripts: Mapping[str, str], deadline: float, *, inside: bool = False
    ) -> Mapping[str, str]:
        end = time.monotonic() + deadline
        if inside:
            return self._workers.each(
                lambda host: run_script(self._client, run, host, scripts[host], end=end),
                scripts,
                doing="changing hosts",
                deadline=deadline,
            )

        def image() -> str:
            return images.node_image(
                self._client, progress=lambda _: None, labels=labels.of_run(run)
            )

        return self._workers.each(
            lambda host: run_in_network(
                self._client, run, host, scripts[host], image=image, end=end
            ),
            scripts,
            doing="changing networks",
            deadline=deadline,
        )

    def power(self, run: RunTag, hosts: Mapping[str, Power], deadline: float) -> None:
        self._workers.each(
            lambda host: set_power(self._client, run, host, hosts[host]),
            hosts,
            doing="switching hosts",
            deadline=deadline,
        )

    def destroy(self, run_id: str, deadline: float) -> int:
        return removal.destroy(self._client, self._workers, run_id, deadline)

    def sweep(self, deadline: float) -> Mapping[str, int]:
        end = time.monotonic() + deadline
        found: dict[str, int] = {}
        stuck: InvalidError | None = None
        for run_id in removal.dead_runs(self._client):
            try:
                found[run_id] = self.destroy(run_id, max(end - time.monotonic(), 1.0))
            except InvalidError as error:
                stuck = stuck or error  # The others are removed all the same.
        if stuck is not None:
            raise stuck
        return found

    def close(self) -> None:
        self._workers.close()
        for looker in self._lookers.values():
            looker.close()
        self._client.close()
