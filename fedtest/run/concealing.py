"""An engine that alone knows the values of secrets: filled in on the way in, masked on the way out.

What is on this side of it (checks, reporters, artifacts) cannot tell what it
does not know.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from fedtest.engine.base import Engine, EngineInfo, Prepared, ProcessKey
from fedtest.errors import FedtestError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from fedtest.engine.base import Power, RunTag, Sink
    from fedtest.engine.examine import Examination, Examined, FileFacts
    from fedtest.engine.snapshot import Snapshot
    from fedtest.plan import Plan, ProcessPlan
    from fedtest.run.secrets import MaskedStream, Secrets


class Concealing(Engine):
    """Another engine, seen without secrets."""

    def __init__(self, engine: Engine, secrets: Secrets) -> None:
        self._engine = engine
        self._secrets = secrets

    @contextmanager
    def _masked(self) -> Iterator[None]:
        """What is raised within tells no secret."""
        try:
            yield
        except FedtestError as error:
            _mask(error, self._secrets)
            raise

    def _telling(self, progress: Callable[[str], None]) -> Callable[[str], None]:
        return lambda text: progress(self._secrets.mask(text))

    def _seen(self, snapshots: Mapping[str, Snapshot]) -> Mapping[str, Snapshot]:
        return {
            name: replace(
                found,
                text=self._secrets.mask(found.text),
                hosts_file=self._secrets.mask(found.hosts_file),
                resolv_conf=self._secrets.mask(found.resolv_conf),
            )
            for name, found in snapshots.items()
        }

    def info(self) -> EngineInfo:
        return self._engine.info()

    def prepare(self, plan: Plan, run: RunTag, progress: Callable[[str], None]) -> Prepared:
        with self._masked():
            return self._engine.prepare(plan, run, self._telling(progress))

    def realise(
        self,
        plan: Plan,
        run: RunTag,
        prepared: Prepared,
        progress: Callable[[str], None],
        deadline: float,
    ) -> Mapping[str, Snapshot]:
        with self._masked():
            whole = self._secrets.revealed(plan)
            return self._seen(
                self._engine.realise(whole, run, prepared, self._telling(progress), deadline)
            )

    def observe(self, run: RunTag, hosts: Iterable[str], deadline: float) -> Mapping[str, Snapshot]:
        with self._masked():
            return self._seen(self._engine.observe(run, hosts, deadline))

    def start(
        self, run: RunTag, processes: Sequence[ProcessPlan], sink: Sink, deadline: float
    ) -> Mapping[ProcessKey, int]:
        with self._masked():
            whole = self._secrets.revealed_processes(processes)
            return self._engine.start(run, whole, _MaskedSink(sink, self._secrets), deadline)

    def cold_starts(self) -> Mapping[ProcessKey, str]:
        found = self._engine.cold_starts()
        return {key: self._secrets.mask(why) for key, why in found.items()}

    def signal(
        self, run: RunTag, pids: Mapping[ProcessKey, int], number: int
    ) -> Collection[ProcessKey]:
        with self._masked():
            return self._engine.signal(run, pids, number)

    def examine(
        self, run: RunTag, hosts: Mapping[str, Examination], deadline: float
    ) -> Mapping[str, Examined]:
        with self._masked():
            found = self._engine.examine(run, hosts, deadline)
        return {
            name: replace(
                item,
                stacks=self._secrets.mask_commands(item.stacks),
                files=self._contents(item.files),
                whole=self._contents(item.whole),
            )
            for name, item in found.items()
        }

    def _contents(self, files: Mapping[str, FileFacts]) -> Mapping[str, FileFacts]:
        return {
            path: replace(facts, content=self._secrets.mask_bytes(facts.content))
            for path, facts in files.items()
        }

    def condition(
        self, run: RunTag, scripts: Mapping[str, str], deadline: float, *, inside: bool = False
    ) -> Mapping[str, str]:
        with self._masked():
            told = self._engine.condition(run, scripts, deadline, inside=inside)
        return {host: self._secrets.mask(text) for host, text in told.items()}

    def power(self, run: RunTag, hosts: Mapping[str, Power], deadline: float) -> None:
        with self._masked():
            self._engine.power(run, hosts, deadline)

    def destroy(self, run_id: str, deadline: float) -> int:
        with self._masked():
            return self._engine.destroy(run_id, deadline)

    def sweep(self, deadline: float) -> Mapping[str, int]:
        with self._masked():
            return self._engine.sweep(deadline)

    def close(self) -> None:
        self._engine.close()


def _mask(error: FedtestError, secrets: Secrets) -> None:
    error.message = secrets.mask(error.message)
    error.remedy = secrets.mask(error.remedy)
    error.args = (error.message, *error.args[1:])


class _MaskedSink:
    """A Sink before another. Each stream of each process has one thread that tells of it."""

    def __init__(self, sink: Sink, secrets: Secrets) -> None:
        self._sink = sink
        self._secrets = secrets
        self._streams: dict[tuple[ProcessKey, Literal["stdout", "stderr"]], MaskedStream] = {}

    def output(self, key: ProcessKey, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        masked = self._streams.get((key, stream))
        if masked is None:
            masked = self._streams.setdefault((key, stream), self._secrets.stream())
        if shown := masked.feed(data):
            self._sink.output(key, stream, shown)

    def exited(self, key: ProcessKey, status: int) -> None:
        self._rest(key)
        self._sink.exited(key, status)

    def lost(self, key: ProcessKey, error: FedtestError) -> None:
        self._rest(key)
        _mask(error, self._secrets)
        self._sink.lost(key, error)

    def _rest(self, key: ProcessKey) -> None:
        for (owner, stream), masked in list(self._streams.items()):
            if owner == key and (rest := masked.rest()):
                self._sink.output(key, stream, rest)
