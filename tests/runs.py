"""Whole runs on the fake engine, for the tests of what a run does and leaves."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from fedtest.engine.base import ProcessKey
from fedtest.engine.fake import Defects, FakeEngine
from fedtest.run.observer import Observer
from fedtest.run.runner import Runner
from fedtest.scenario.load import loads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from fedtest.engine.base import Engine, RunTag, Sink
    from fedtest.engine.snapshot import Snapshot
    from fedtest.errors import FedtestError
    from fedtest.plan import Plan, ProcessPlan
    from fedtest.run.result import Result

HOSTS = """
fedtest: 1
name: small
deadline: 200s
networks: {mgmt: {}, data: {}}
hosts:
  a: {nics: {mgmt: mgmt0, data: eth0}}
  b: {nics: {mgmt: mgmt0, data: ib0}}
"""


def scenario(script: str, checks: str = "", *, hosts: str = "a", extra: str = "") -> str:
    """A scenario whose one process, `work`, is a shell script on `hosts`."""
    process = f"processes: {{work: {{hosts: [{hosts}], run: {json.dumps(script)}{extra}}}}}"
    return f"{HOSTS}{process}\nchecks: [{checks}]\n"


def until(path: Path) -> str:
    """A script that waits until a file is there."""
    return f"until [ -e {path} ]; do sleep 0.02; done"


class Awaited(FakeEngine):
    """Processes have started only when each named one has printed a text, or (None) has ended.

    Their deadlines count from then, so that a test's short one is not a measure of how soon a
    loaded machine gets round to a shell or to Python.
    """

    def __init__(self, awaited: Mapping[str, str | None]) -> None:
        super().__init__()
        self._awaited = awaited

    def start(
        self, run: RunTag, processes: Sequence[ProcessPlan], sink: Sink, deadline: float
    ) -> Mapping[ProcessKey, int]:
        wanted = {
            ProcessKey(plan.host, plan.name): self._awaited[plan.name]
            for plan in processes
            if plan.name in self._awaited
        }
        heard = _Heard(sink, wanted)
        pids = super().start(run, processes, heard, deadline)
        assert heard.all.wait(deadline), f"waited in vain for {heard.left}"
        return pids


class _Heard:
    """Hands on what it is told, and knows when all that is awaited was among it."""

    def __init__(self, sink: Sink, wanted: Mapping[ProcessKey, str | None]) -> None:
        self._sink = sink
        self._said: dict[ProcessKey, bytes] = defaultdict(bytes)
        self._lock = threading.Lock()
        self.left = dict(wanted)
        self.all = threading.Event()
        self._check()

    def output(self, key: ProcessKey, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        self._sink.output(key, stream, data)
        with self._lock:
            text = self.left.get(key)
            if text is not None:
                self._said[key] += data
                if text.encode() in self._said[key]:
                    self._check(key)

    def exited(self, key: ProcessKey, status: int) -> None:
        self._sink.exited(key, status)
        with self._lock:
            self._check(key)

    def lost(self, key: ProcessKey, error: FedtestError) -> None:
        self._sink.lost(key, error)

    def _check(self, key: ProcessKey | None = None) -> None:
        if key is not None:
            self.left.pop(key, None)
        if not self.left:
            self.all.set()


class Looked(FakeEngine):
    """Writes a line to a file after each look at hosts; `wait` is a script that waits for two.

    A look may be under way when the script begins; the second began after that.
    """

    def __init__(self, path: Path, defects: Defects | None = None) -> None:
        super().__init__(defects)
        count = f"$(cat {path} | wc -l)"
        self.wait = f"n={count}; until [ {count} -ge $((n + 2)) ]; do sleep 0.02; done"
        self._path = path
        path.touch()

    def observe(self, run: RunTag, hosts: Iterable[str], deadline: float) -> Mapping[str, Snapshot]:
        try:
            return super().observe(run, hosts, deadline)
        finally:
            with self._path.open("a", encoding="utf-8") as file:
                file.write("looked\n")


class Recorder(Observer):
    """Keeps all that it is told, as one list of texts."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def run_started(self, scenario: str, run_id: str, directory: str) -> None:
        self.told.append(f"run {scenario}")

    def stage_started(self, name: str) -> None:
        self.told.append(f"begin {name}")

    def stage_progress(self, text: str) -> None:
        self.told.append(text)

    def stage_ended(self, name: str, seconds: float, *, failed: bool) -> None:
        self.told.append(f"{'failed' if failed else 'end'} {name}")

    def planned(self, plan: Plan) -> None:
        self.told.append("planned")

    def line(self, key: ProcessKey, stream: str, text: str) -> None:
        self.told.append(f"{key.host} {stream}: {text}")

    def exited(self, key: ProcessKey, status: int) -> None:
        self.told.append(f"{key.host} exited {status}")

    def finished(self, result: Result) -> None:
        self.told.append(f"finished {result.verdict}")


@dataclass
class Run:
    """A run that is over, and what it left."""

    result: Result
    path: Path
    recorder: Recorder
    engine: Engine

    def text(self, name: str) -> str:
        return (self.path / name).read_text(encoding="utf-8")

    def json(self, name: str) -> Any:
        return json.loads(self.text(name), parse_constant=_refuse)

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        lines = self.text("events.jsonl").splitlines()
        found = [json.loads(line, parse_constant=_refuse) for line in lines]
        return [item for item in found if kind in (None, item["kind"])]

    @property
    def order(self) -> list[str]:
        """What started and ended, in the order in which the run took note of it."""
        return [
            f"{event['process']} {event['kind']}"
            for event in self.events()
            if event["kind"] in {"started", "exited"}
        ]

    @property
    def names(self) -> set[str]:
        return {str(path.relative_to(self.path)) for path in self.path.rglob("*") if path.is_file()}

    @property
    def messages(self) -> list[str]:
        return [problem.message for problem in self.result.problems]


@dataclass
class Lab:
    """Runs scenarios, each in a directory of the test's own."""

    runs: Path
    recorder: Recorder = field(default_factory=Recorder)

    def runner(
        self, text: str, engine: Callable[[], Engine], observer: Observer | None = None
    ) -> Runner:
        return Runner(loads(text).scenario, engine, observer or self.recorder, self.runs)

    def run(self, text: str, engine: Engine | None = None, observer: Observer | None = None) -> Run:
        engine = engine or FakeEngine()
        result = self.runner(text, lambda: engine, observer).run()
        return Run(result, (self.runs / "latest").resolve(), self.recorder, engine)


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")
