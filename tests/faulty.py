"""An engine that fails when a test wants it to, and what runs leave up to then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.engine.fake import FakeEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from fedtest.engine.base import EngineInfo, Prepared, ProcessKey, RunTag, Sink
    from fedtest.engine.snapshot import Snapshot
    from fedtest.plan import Plan, ProcessPlan

EXIT = "exit: {process: work, code: 0}"
START = {"scenario.yaml", "versions.json", "events.jsonl", "result.json"}
PLANNED = START | {"plan.json"}
BEFORE = PLANNED | {f"hosts/{host}.before.{kind}" for host in "ab" for kind in ("json", "txt")}
LOGS = BEFORE | {"logs/a.work.log"}
ALL = LOGS | {f"hosts/{host}.after.{kind}" for host in "ab" for kind in ("json", "txt")}


class Faulty(FakeEngine):
    """Does `act` when it comes to `stage`, once."""

    def __init__(self, stage: str, act: Callable[[], None]) -> None:
        super().__init__()
        self.stage = stage
        self.act = act
        self.destroyed: list[str] = []
        self.closed = False

    def at(self, stage: str) -> None:
        if stage == self.stage:
            self.stage = ""
            self.act()

    def info(self) -> EngineInfo:
        self.at("info")
        return super().info()

    def sweep(self, deadline: float) -> Mapping[str, int]:
        self.at("sweep")
        return super().sweep(deadline)

    def prepare(self, plan: Plan, run: RunTag, progress: Callable[[str], None]) -> Prepared:
        self.at("prepare")
        return super().prepare(plan, run, progress)

    def realise(
        self,
        plan: Plan,
        run: RunTag,
        prepared: Prepared,
        progress: Callable[[str], None],
        deadline: float,
    ) -> Mapping[str, Snapshot]:
        found = super().realise(plan, run, prepared, progress, deadline)
        self.at("realise")
        return found

    def start(
        self, run: RunTag, processes: Sequence[ProcessPlan], sink: Sink, deadline: float
    ) -> Mapping[ProcessKey, int]:
        pids = super().start(run, processes, sink, deadline)
        self.at("start")
        return pids

    def observe(self, run: RunTag, hosts: Iterable[str], deadline: float) -> Mapping[str, Snapshot]:
        self.at("observe")
        return super().observe(run, hosts, deadline)

    def destroy(self, run_id: str, deadline: float) -> int:
        self.at("destroy")
        self.destroyed.append(run_id)
        return super().destroy(run_id, deadline)

    def close(self) -> None:
        self.closed = True
        super().close()


def throws(error: Exception) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act
