"""One run, from a scenario to a Result, on an engine.

Stages one after the other; what was made is removed in every case, and what
was learned is in the run's directory before the next thing begins.
"""

from __future__ import annotations

import os
import platform
import secrets
import traceback
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fedtest import __version__
from fedtest.engine.base import RunTag
from fedtest.engine.examine import Examination
from fedtest.engine.owner import Owner
from fedtest.errors import (
    EngineError,
    ExitCode,
    FedtestError,
    InvalidError,
    NotAsPlanned,
    interruption_behind,
)
from fedtest.links.mechanism import mechanism, refuse_impossible
from fedtest.plan import make_plan
from fedtest.run.artifacts import RunDirectory
from fedtest.run.bring_up import DESTROY_DEADLINE, OBSERVE_DEADLINE, BringUp
from fedtest.run.checks import evaluate
from fedtest.run.checks.needs import declare, examinations, looks
from fedtest.run.checks.repeated import Repeated
from fedtest.run.collecting import Collecting
from fedtest.run.concealing import Concealing
from fedtest.run.events import EventLog, Inbox
from fedtest.run.faults.provide import provide_faults, refuse_impossible_faults
from fedtest.run.interrupt import Interruption
from fedtest.run.observer import Tolerant
from fedtest.run.outcome import CODES, fault_results, process_results, verdict_of
from fedtest.run.pairs import Pairs
from fedtest.run.postmortem import at_the_end
from fedtest.run.readback import compare_again
from fedtest.run.result import (
    CheckResult,
    Collected,
    Problem,
    Result,
    Saved,
    StageResult,
    Verdict,
)
from fedtest.run.secrets import Secrets
from fedtest.run.supervise import Supervisor, started_at
from fedtest.scenario.load import dump
from fedtest.subnets import choose

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from fedtest.engine.base import Engine, Prepared
    from fedtest.engine.snapshot import Snapshot
    from fedtest.plan import Plan
    from fedtest.run.evidence import Evidence
    from fedtest.run.faults.driver import FaultDriver
    from fedtest.run.observer import Observer
    from fedtest.scenario.model import Scenario

_SWEEP_DEADLINE = 30.0


class Runner:
    """Runs one scenario once. `open_engine` is called within the run, so its errors are its."""

    def __init__(
        self, scenario: Scenario, open_engine: Callable[[], Engine], observer: Observer, runs: Path
    ) -> None:
        self._scenario = scenario
        self._open_engine = open_engine
        self._observer = Tolerant(observer)
        self._clock = started_at()
        self._began = datetime.now(UTC)
        self._tag = RunTag(secrets.token_hex(4), scenario.name, Owner.me())
        self._secrets = Secrets.read(scenario, os.environ)
        self._directory = RunDirectory(runs, scenario.name, self._tag.id, self._began)
        self._events = EventLog(self._directory.path / "events.jsonl")
        self._directory.secrets = self._events.secrets = self._secrets
        self._interruption = Interruption()
        self._inbox = Inbox()
        self._evidence: Evidence | None = None
        self._stages: list[StageResult] = []
        self._problems: list[Problem] = []
        self._checks: tuple[CheckResult, ...] = ()
        self._saved: tuple[Saved, ...] = ()
        self._collected: tuple[Collected, ...] = ()
        self._versions: dict[str, Any] = {
            "fedtest": __version__,
            "python": platform.python_version(),
            "machine": f"{platform.system()} {platform.release()} {platform.machine()}",
        }
        self._netem: bool | None = None
        self._exit_code: ExitCode | None = None
        self._defects = ""

    def run(self) -> Result:
        """The Result, whatever happened; only a second signal ends it sooner."""
        with self._interruption.watch():
            with self._recorded():
                self._directory.text("scenario.yaml", dump(self._scenario))
                self._directory.json("versions.json", self._versions)
                self._observer.run_started(
                    self._scenario.name, self._tag.id, str(self._directory.path)
                )
                self._run()
            result = self._finish()
            self._observer.observer.finished(result)
        return result

    def _run(self) -> None:
        with self._interruption.allowed():
            engine = self._open()
        with closing(engine):
            try:
                with self._recorded(), self._interruption.allowed():
                    self._on(engine)
            finally:
                with self._stage("clean-up"):
                    count = engine.destroy(self._tag.id, DESTROY_DEADLINE)
                    self._observer.stage_progress(f"removed {count} hosts and networks")

    @contextmanager
    def _recorded(self) -> Iterator[None]:
        """What is raised within becomes part of the Result."""
        try:
            yield
        except FedtestError as error:
            self._fail(error, error.exit_code)
        except Exception as error:  # noqa: BLE001 - our own defect must not lose the run
            if interrupted := interruption_behind(error):
                self._fail(interrupted, interrupted.exit_code)
            else:
                self._defect(error)

    def _open(self) -> Engine:
        with self._stage("engine"):
            engine = self._open_engine()
            try:
                info = replace(engine.info(), chosen=engine.chosen)
                self._versions["engine"] = info
                self._netem = info.netem
                self._directory.json("versions.json", self._versions)
                self._observer.stage_progress(
                    f"{info.kind} {info.version}, interface names: {info.naming}"
                    + (f"; {info.chosen}" if info.chosen else "")
                )
                for sweep in (engine.sweep, *engine.also_sweep):
                    self._sweep(sweep)
            except BaseException:
                engine.close()
                raise
        return Concealing(engine, self._secrets) if self._secrets else engine

    def _sweep(self, sweep: Callable[[float], Mapping[str, int]]) -> None:
        """What a dead run left may be stuck; that is no reason against this one."""
        try:
            swept = sweep(_SWEEP_DEADLINE)
        except InvalidError as error:
            self._events.add("not swept", error=error.message)
            self._observer.stage_progress(f"left alone: {error.message}")
            return
        for run_id, count in swept.items():
            self._events.add("swept", run=run_id, removed=count)
            self._observer.stage_progress(f"removed what the dead run {run_id} left")

    def _on(self, engine: Engine) -> None:
        with self._stage("images and data"):
            draft = make_plan(self._scenario, choose(self._scenario, self._tag.id, ()))
            if self._netem is not None:
                chosen = mechanism(netem=self._netem)
                refuse_impossible(draft, chosen)
                refuse_impossible_faults(draft, chosen)
            prepared = engine.prepare(draft, self._tag, self._observer.stage_progress)
            self._versions["images"] = prepared.versions
            self._directory.json("versions.json", self._versions)
        bring_up = BringUp(
            self._scenario,
            engine,
            self._tag,
            self._directory,
            self._events,
            self._observer,
            self._secrets,
            self._stage,
        )
        evidence = self._evidence = bring_up.hosts(prepared, self._netem)
        if bring_up.links is not None:
            self._versions["links"] = bring_up.links
            self._directory.json("versions.json", self._versions)
        repeated = Repeated(self._scenario, evidence, self._clock)
        pairs = Pairs(engine, self._tag, evidence.plan, self._scenario.checks)
        pairs.start()
        self._processes(engine, prepared, evidence, bring_up, repeated)
        collecting = Collecting(self._scenario, engine, self._tag, self._directory)
        if collecting:
            with self._stage("files"):
                self._collect(collecting)
        with self._stage("checks"):
            pairs.read(evidence)
            self._judge(engine, evidence, repeated)
        if verdict_of(self._checks, self._problems) is Verdict.FAILED:
            self._saved = at_the_end(evidence, self._directory, self._saved)

    def _processes(
        self,
        engine: Engine,
        prepared: Prepared,
        evidence: Evidence,
        bring_up: BringUp,
        repeated: Repeated,
    ) -> None:
        """Everything that runs, and what is broken meanwhile."""
        supervisor = Supervisor(
            self._scenario,
            engine,
            self._tag,
            evidence,
            repeated,
            self._inbox,
            self._events,
            self._directory,
            self._observer,
            self._clock,
        )
        declare(self._scenario, evidence)
        wanted = looks(self._scenario, evidence)
        faults = None
        try:
            with self._stage("processes"):
                # Whatever looking needs is there before there is something to see.
                engine.examine(
                    self._tag, dict.fromkeys(wanted.beside, Examination()), OBSERVE_DEADLINE
                )
                if evidence.plan.faults:
                    faults = self._provide_faults(engine, prepared, evidence, bring_up, supervisor)
                    supervisor.follow(faults)
                supervisor.run(wanted)
        finally:
            supervisor.close()
            self._problems += supervisor.problems
            self._saved = tuple(supervisor.saved)
        if faults is not None:
            faults.judge()
            self._problems += faults.problems

    def _collect(self, collecting: Collecting) -> None:
        """What hosts leave, whatever the verdict will be."""
        collecting.collect()
        self._collected = tuple(collecting.collected)
        self._problems += collecting.problems
        self._observer.stage_progress(f"copied {len(self._collected)} files of hosts")

    def _provide_faults(
        self,
        engine: Engine,
        prepared: Prepared,
        evidence: Evidence,
        bring_up: BringUp,
        supervisor: Supervisor,
    ) -> FaultDriver:
        return provide_faults(
            engine,
            self._tag,
            evidence,
            prepared,
            bring_up,
            self._netem,
            self._inbox,
            self._events,
            supervisor.starts.start_again,
            self._observer.stage_progress,
            self._clock,
        )

    def _judge(self, engine: Engine, evidence: Evidence, repeated: Repeated) -> None:
        plan = evidence.plan
        after = self._look_again(engine, plan)
        for host, found in after.items():
            self._directory.snapshot("after", host, found)
        evidence.after = dict(after)
        evidence.saw(after)
        try:
            compare_again(plan, evidence.before, after)
        except NotAsPlanned as error:
            self._fail(error, ExitCode.INVALID)
        if len(after) < len(plan.hosts):
            return  # Checks would judge by half of the evidence.
        beside = examinations(self._scenario.checks, evidence)
        evidence.looked_beside(engine.examine(self._tag, beside, OBSERVE_DEADLINE))
        self._checks = evaluate(self._scenario, evidence, repeated)
        for check in self._checks:
            self._events.add("check", id=check.id, passed=check.passed, found=check.found)

    def _look_again(self, engine: Engine, plan: Plan) -> Mapping[str, Snapshot]:
        """A host that is gone does not cost the others' evidence; it is told by name."""
        names = [host.name for host in plan.hosts]
        with suppress(EngineError):
            return engine.observe(self._tag, names, OBSERVE_DEADLINE)
        found: dict[str, Snapshot] = {}
        for name in names:
            try:
                found |= engine.observe(self._tag, [name], OBSERVE_DEADLINE)
            except EngineError as error:
                gone = NotAsPlanned(f"host {name}: went away during the run: {error.message}")
                self._fail(gone, ExitCode.INVALID)
        return found

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        began = self._clock()
        self._events.add("stage", name=name)
        self._observer.stage_started(name)
        failed = True
        try:
            yield
            failed = False
        finally:
            seconds = self._clock() - began
            self._stages.append(StageResult(name, round(seconds, 3)))
            self._observer.stage_ended(name, seconds, failed=failed)

    def _fail(self, error: FedtestError, code: ExitCode) -> None:
        self._events.add("failed", error=str(error))
        self._problems.append(Problem(Verdict.INVALID, error.message, error.remedy))
        # What was first in the way decides; that clean-up failed too does not change it.
        self._exit_code = self._exit_code or code

    def _defect(self, error: Exception) -> None:
        trace = "".join(traceback.format_exception(error))
        self._defects += trace
        with suppress(InvalidError):
            self._directory.text("error.txt", self._defects)
        self._fail(
            FedtestError(
                f"fedtest's own error: {type(error).__name__}: {error}",
                remedy=f"This is a defect; {self._directory.path}/error.txt has the traceback "
                "to report.",
            ),
            ExitCode.INTERNAL,
        )

    def _finish(self) -> Result:
        """The Result, written down; what cannot be written is told of in it."""
        if self._interruption.pending:
            self._fail(self._interruption.pending, ExitCode.INTERRUPTED)
        # That nobody reads our output any more is no defect.
        if self._observer.error and not isinstance(self._observer.error, OSError):
            self._defect(self._observer.error)
        if error := self._events.error:
            why = InvalidError(f"cannot write {self._events.path}: {error.strerror}")
            self._fail(why, ExitCode.INVALID)
        result = self._result()
        try:
            self._directory.json("result.json", result)
        except InvalidError as unwritten:
            self._fail(unwritten, unwritten.exit_code)
            result = self._result()
        self._events.close()
        return result

    def _result(self) -> Result:
        verdict = verdict_of(self._checks, self._problems)
        path = self._directory.path
        return Result(
            id=self._tag.id,
            scenario=self._scenario.name,
            verdict=verdict,
            exit_code=self._exit_code or CODES[verdict],
            started=self._began.isoformat(),
            seconds=round(self._clock(), 3),
            directory=str(path),
            problems=self._secrets.masked(tuple(self._problems)),
            checks=self._secrets.masked(self._checks),
            processes=tuple(process_results(self._evidence, path, self._secrets)),
            stages=tuple(self._stages),
            versions=self._versions,
            saved=self._saved,
            faults=tuple(fault_results(self._evidence, self._secrets)),
            collected=self._collected,
        )
