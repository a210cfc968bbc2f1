"""Whole runs on the fake engine, for the tests of what a run does and leaves."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fedtest.engine.fake import FakeEngine
from fedtest.run.observer import Observer
from fedtest.run.runner import Runner
from fedtest.scenario.load import loads

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fedtest.engine.base import Engine, ProcessKey
    from fedtest.plan import Plan
    from fedtest.run.result import Result

HOSTS = """
fedtest: 1
name: small
deadline: 30s
networks: {mgmt: {}, data: {}}
hosts:
  a: {nics: {mgmt: mgmt0, data: eth0}}
  b: {nics: {mgmt: mgmt0, data: ib0}}
"""


def scenario(script: str, checks: str = "", *, hosts: str = "a", extra: str = "") -> str:
    """A scenario whose one process, `work`, is a shell script on `hosts`."""
    process = f"processes: {{work: {{hosts: [{hosts}], run: {json.dumps(script)}{extra}}}}}"
    return f"{HOSTS}{process}\nchecks: [{checks}]\n"


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
