"""One run from a scenario to a Result, on the fake engine with real processes."""

from __future__ import annotations

import json
import signal
import threading
from ipaddress import IPv4Network
from typing import TYPE_CHECKING

import pytest
from runs import HOSTS, Lab, Recorder, scenario

from fedtest.engine.fake import Defects, FakeEngine
from fedtest.errors import (
    DataError,
    EngineError,
    EngineUnavailable,
    ExitCode,
    ImageError,
    SubnetTaken,
)
from fedtest.run.result import Verdict
from fedtest.scenario.load import loads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from fedtest.engine.base import EngineInfo, Prepared, ProcessKey, RunTag, Sink
    from fedtest.engine.snapshot import Snapshot
    from fedtest.plan import Plan, ProcessPlan

EXIT = "exit: {process: work, code: 0}"
START = {"scenario.yaml", "versions.json", "events.jsonl", "result.json"}
PLANNED = START | {"plan.json"}
BEFORE = PLANNED | {f"hosts/{host}.before.{kind}" for host in "ab" for kind in ("json", "txt")}
LOGS = BEFORE | {"logs/a.work.log"}
ALL = LOGS | {f"hosts/{host}.after.{kind}" for host in "ab" for kind in ("json", "txt")}


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


class Gone(FakeEngine):
    """Its hosts cannot be looked at."""

    def observe(self, run: RunTag, hosts: Iterable[str], deadline: float) -> Mapping[str, Snapshot]:
        raise EngineError("gone")


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


class TestPassed:
    def test_everything_is_there_afterwards(self, lab: Lab) -> None:
        run = lab.run(scenario("echo hello", EXIT, hosts="a, b"))
        assert run.result.verdict is Verdict.PASSED
        assert run.result.exit_code is ExitCode.PASSED
        assert run.names == ALL | {"logs/b.work.log"}
        assert run.text("logs/a.work.log") == "hello\n"

    def test_stages_come_in_their_order_with_what_happens_in_them(self, lab: Lab) -> None:
        run = lab.run(scenario("echo hello", EXIT))
        assert run.recorder.told == [
            "run small",
            "begin engine",
            "fake 0, interface names: claimed",
            "end engine",
            "begin images and data",
            "nothing to prepare",
            "end images and data",
            "begin hosts",
            "planned",
            "end hosts",
            "begin processes",
            "a stdout: hello",
            "a exited 0",
            "end processes",
            "begin checks",
            "end checks",
            "begin clean-up",
            "removed 4 hosts and networks",
            "end clean-up",
            "finished passed",
        ]

    def test_the_result_file_says_all_that_the_result_does(self, lab: Lab) -> None:
        run = lab.run(scenario("echo hello", EXIT))
        written = run.json("result.json")
        assert written["verdict"] == "passed"
        assert written["exit_code"] == 0
        assert written["directory"] == str(run.path)
        assert written["id"] in run.path.name
        assert [stage["name"] for stage in written["stages"]] == [
            "engine", "images and data", "hosts", "processes", "checks", "clean-up",
        ]  # fmt: skip
        assert written["checks"][0] == {
            "id": "exit-1", "kind": "exit", "passed": True, "expected": "work exits with 0",
            "found": "a: 0", "details": [],
        }  # fmt: skip
        (process,) = written["processes"]
        assert (process["host"], process["process"], process["status"]) == ("a", "work", 0)
        assert 0 <= process["started"] <= process["ended"] <= written["seconds"]
        assert (run.path / process["log"]).is_file()
        assert written["versions"]["engine"]["kind"] == "fake"
        assert written["problems"] == []

    def test_the_scenario_can_be_run_again_from_what_was_kept(self, lab: Lab) -> None:
        text = scenario("echo hello", EXIT)
        run = lab.run(text)
        assert loads(run.text("scenario.yaml")).scenario == loads(text).scenario

    def test_versions_and_plan_are_kept(self, lab: Lab) -> None:
        run = lab.run(scenario("true"))
        assert {"fedtest", "python", "machine", "engine", "images"} <= set(
            run.json("versions.json")
        )
        assert [host["name"] for host in run.json("plan.json")["hosts"]] == ["a", "b"]

    def test_events_are_numbered_in_order(self, lab: Lab) -> None:
        events = lab.run(scenario("true", EXIT)).events()
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
        kinds = [event["kind"] for event in events]
        assert kinds.index("started") < kinds.index("exited") < kinds.index("check")

    def test_hosts_are_removed_and_the_engine_let_go(self, lab: Lab) -> None:
        engine = Faulty("", print)
        run = lab.run(scenario("true"), engine)
        assert engine.destroyed[0] == run.result.id
        assert engine.closed
        assert not engine.realised

    def test_no_thread_and_no_handler_is_left(self, lab: Lab) -> None:
        before = signal.getsignal(signal.SIGINT)
        sockets = 'sockets: {process: work, local: "${{ nics.data.ip }}"}'
        lab.run(scenario("sleep 0.3", sockets))
        names = [thread.name for thread in threading.enumerate()]
        assert "sampler" not in names
        assert signal.getsignal(signal.SIGINT) is before


class TestFailed:
    def test_a_check_that_does_not_hold_fails_the_run(self, lab: Lab) -> None:
        run = lab.run(scenario("echo broken; exit 3", EXIT))
        assert run.result.verdict is Verdict.FAILED
        assert run.result.exit_code is ExitCode.FAILED
        assert run.result.checks[0].details[-1].strip() == "broken"
        assert run.names == ALL

    def test_an_overdue_process_is_worth_less_than_an_invalid_testbed(self, lab: Lab) -> None:
        engine = Gone()
        run = lab.run(scenario("sleep 60", EXIT, extra=", deadline: 0.1s"), engine)
        assert run.result.verdict is Verdict.INVALID
        assert len(run.messages) == 3  # The process, and each host that is gone.


class TestExit:
    def test_a_process_that_nobody_checks_must_end_with_0(self, lab: Lab) -> None:
        run = lab.run(scenario("exit 3"))
        assert run.result.verdict is Verdict.FAILED
        assert [(item.id, item.found) for item in run.result.checks] == [("exit-work", "a: 3")]

    def test_a_check_takes_the_place_of_that(self, lab: Lab) -> None:
        run = lab.run(scenario("exit 3", "exit: {process: work, code: 3}"))
        assert [item.id for item in run.result.checks] == ["exit-1"]
        assert run.result.verdict is Verdict.PASSED


class TestInvalid:
    def test_an_interface_that_is_named_otherwise_is_told_before_anything_runs(
        self, lab: Lab
    ) -> None:
        engine = FakeEngine(Defects(misnamed={("b", "ib0"): "eth1"}))
        run = lab.run(scenario("true", EXIT), engine)
        assert (run.result.verdict, run.result.exit_code) == (Verdict.INVALID, ExitCode.INVALID)
        assert "interface ib0 (network data) is not there; there are: eth1" in run.messages[0]
        assert run.names == BEFORE
        assert run.result.processes == ()

    def test_no_engine_is_told_with_what_to_do(self, lab: Lab) -> None:
        error = EngineUnavailable("nobody answers", remedy="Start one.")
        runner = lab.runner(scenario("true"), throws(error))  # type: ignore[arg-type]
        result = runner.run()
        assert result.exit_code is ExitCode.INVALID
        assert (result.problems[0].message, result.problems[0].remedy) == (
            "nobody answers",
            "Start one.",
        )

    def test_what_a_dead_run_left_may_be_stuck_without_harm_to_this_one(self, lab: Lab) -> None:
        run = lab.run(scenario("true", EXIT), Faulty("sweep", throws(EngineError("stuck"))))
        assert run.result.verdict is Verdict.PASSED
        assert [event["error"] for event in run.events("not swept")] == ["stuck"]

    @pytest.mark.parametrize(
        ("stage", "error", "left"),
        [
            ("info", EngineUnavailable("no"), START),
            ("prepare", ImageError("no"), START),
            ("prepare", DataError("no"), START),
            ("realise", EngineError("no"), PLANNED),
            ("start", EngineError("no"), LOGS),
            ("destroy", EngineError("no"), ALL),
        ],
    )
    def test_what_was_written_survives_a_failure_at_every_stage(
        self, lab: Lab, stage: str, error: Exception, left: set[str]
    ) -> None:
        engine = Faulty(stage, throws(error))
        run = lab.run(scenario("echo hello", EXIT), engine)
        assert run.result.exit_code is ExitCode.INVALID
        assert run.json("result.json")["problems"][0]["message"] == "no"
        assert run.names == left
        assert engine.closed
        if stage in {"realise", "start", "observe"}:
            assert run.result.id in engine.destroyed

    def test_a_process_that_ran_is_in_the_result_of_a_run_that_failed_later(self, lab: Lab) -> None:
        run = lab.run(scenario("echo hello"), Faulty("observe", throws(EngineError("no"))))
        assert run.result.processes[0].status == 0

    def test_an_engine_that_is_gone_for_good_is_told_of_both_times(self, lab: Lab) -> None:
        class Gone(Faulty):
            def destroy(self, run_id: str, deadline: float) -> int:
                raise EngineUnavailable("still gone")

        run = lab.run(scenario("true"), Gone("observe", throws(EngineUnavailable("gone"))))
        assert run.messages == ["gone", "still gone"]
        assert run.result.exit_code is ExitCode.INVALID
        assert run.recorder.told[-1] == "finished invalid"

    def test_a_host_that_goes_away_is_named_and_the_others_evidence_kept(self, lab: Lab) -> None:
        class WithoutB(FakeEngine):
            def observe(
                self, run: RunTag, hosts: Iterable[str], deadline: float
            ) -> Mapping[str, Snapshot]:
                if "b" in (names := list(hosts)):
                    raise EngineError("no such container")
                return super().observe(run, names, deadline)

        run = lab.run(scenario("true", EXIT), WithoutB())
        assert run.result.exit_code is ExitCode.INVALID
        assert run.messages == ["host b: went away during the run: no such container"]
        assert run.result.checks == ()
        assert "hosts/a.after.json" in run.names

    def test_a_host_that_somebody_started_anew_makes_it_so(self, lab: Lab) -> None:
        class Restarted(FakeEngine):
            def observe(
                self, run: RunTag, hosts: Iterable[str], deadline: float
            ) -> Mapping[str, Snapshot]:
                self.power(run, {"b": "off"}, deadline)
                return super().observe(run, hosts, deadline)

        run = lab.run(scenario("true", EXIT), Restarted())
        assert run.result.exit_code is ExitCode.INVALID
        assert "host b: was started anew" in run.messages[0]

    def test_an_interface_that_somebody_took_away_makes_it_so(self, lab: Lab) -> None:
        class Renamed(FakeEngine):
            def observe(
                self, run: RunTag, hosts: Iterable[str], deadline: float
            ) -> Mapping[str, Snapshot]:
                self.defects.misnamed = {("b", "ib0"): "eth1"}
                return super().observe(run, hosts, deadline)

        run = lab.run(scenario("true", EXIT), Renamed())
        assert run.result.exit_code is ExitCode.INVALID
        assert "the hosts were changed while the processes ran" in run.messages[0]

    def test_a_subnet_that_somebody_else_has_is_replaced_by_another(self, lab: Lab) -> None:
        class Crowded(FakeEngine):
            tries = 0

            def realise(
                self,
                plan: Plan,
                run: RunTag,
                prepared: Prepared,
                progress: Callable[[str], None],
                deadline: float,
            ) -> Mapping[str, Snapshot]:
                self.tries += 1
                if self.tries <= 3:
                    subnet = plan.networks[0].subnet
                    raise SubnetTaken(f"{subnet} is in use", subnet=subnet)
                return super().realise(plan, run, prepared, progress, deadline)

        run = lab.run(scenario("true", EXIT), Crowded())
        assert run.result.verdict is Verdict.PASSED
        taken = [event["subnet"] for event in run.events("subnet taken")]
        assert len(set(taken)) == 3
        assert run.json("plan.json")["networks"][0]["subnet"] not in taken

    def test_a_subnet_that_the_scenario_asks_for_is_not_replaced(self, lab: Lab) -> None:
        text = scenario("true").replace("data: {}", "data: {subnet: 192.168.0.0/24}")
        engine = FakeEngine(Defects(taken=(IPv4Network("192.168.0.0/16"),)))
        run = lab.run(text, engine)
        assert run.messages == ["192.168.0.0/24 is in use"]
        assert run.events("subnet taken") == []

    def test_events_that_cannot_be_written_make_it_so_but_all_is_cleaned_up(
        self, lab: Lab, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        engine = Faulty("", print)
        runner = lab.runner(scenario("true", EXIT), lambda: engine)
        (lab.runs / "latest" / "events.jsonl").symlink_to("/dev/full")
        result = runner.run()
        assert result.exit_code is ExitCode.INVALID
        assert "events.jsonl: No space left" in result.problems[0].message
        assert engine.destroyed == [result.id]

    def test_a_result_that_cannot_be_written_is_told(self, lab: Lab) -> None:
        runner = lab.runner(scenario("true", EXIT), FakeEngine)
        (lab.runs / "latest" / ".result.json.part").symlink_to("/dev/full")
        result = runner.run()
        assert result.exit_code is ExitCode.INVALID
        assert "result.json: No space left" in result.problems[0].message


class TestOwnErrors:
    @pytest.mark.parametrize(
        "stage", ["info", "sweep", "prepare", "realise", "start", "observe", "destroy"]
    )
    def test_a_defect_is_told_without_a_traceback_which_is_kept(
        self, lab: Lab, stage: str, capfd: pytest.CaptureFixture[str]
    ) -> None:
        engine = Faulty(stage, throws(ZeroDivisionError("oops")))
        run = lab.run(scenario("true", EXIT), engine)
        assert run.result.exit_code is ExitCode.INTERNAL
        assert run.messages == ["fedtest's own error: ZeroDivisionError: oops"]
        assert "error.txt" in run.result.problems[0].remedy
        assert "Traceback" in run.text("error.txt")
        assert "Traceback" not in "".join(capfd.readouterr())
        assert engine.closed
        if stage in {"prepare", "realise", "start", "observe"}:
            assert run.result.id in engine.destroyed

    def test_a_defect_while_cleaning_up_does_not_hide_what_was_first(self, lab: Lab) -> None:
        class Twice(Faulty):
            def destroy(self, run_id: str, deadline: float) -> int:
                raise ZeroDivisionError("second")

        run = lab.run(scenario("true"), Twice("start", throws(EngineError("first"))))
        assert run.result.exit_code is ExitCode.INVALID
        assert run.messages[0] == "first"
        assert "second" in run.text("error.txt")

    def test_a_reporter_that_fails_does_not_keep_the_run_from_its_end(self, lab: Lab) -> None:
        class Broken(Recorder):
            def stage_started(self, name: str) -> None:
                raise ZeroDivisionError("in a reporter")

        engine, reporter = Faulty("", print), Broken()
        run = lab.run(scenario("true", EXIT), engine, reporter)
        assert run.result.exit_code is ExitCode.INTERNAL
        assert engine.destroyed == [run.result.id]
        assert "in a reporter" in run.text("error.txt")
        assert reporter.told[-1] == "finished invalid"

    def test_that_nobody_reads_the_output_any_more_is_no_defect(self, lab: Lab) -> None:
        class Unread(Recorder):
            def stage_started(self, name: str) -> None:
                raise BrokenPipeError

        engine = Faulty("", print)
        run = lab.run(scenario("true", EXIT), engine, Unread())
        assert run.result.exit_code is ExitCode.PASSED
        assert engine.destroyed == [run.result.id]


class TestInterrupted:
    @pytest.mark.parametrize(
        ("stage", "left"),
        [
            ("info", START),
            ("sweep", START),
            ("prepare", START),
            ("realise", PLANNED),
            ("start", LOGS),
            ("observe", LOGS),
        ],
    )
    def test_in_every_stage_it_ends_with_130_and_everything_removed(
        self, lab: Lab, stage: str, left: set[str]
    ) -> None:
        engine = Faulty(stage, lambda: signal.raise_signal(signal.SIGINT))
        run = lab.run(scenario("true", EXIT), engine)
        assert (run.result.verdict, run.result.exit_code) == (
            Verdict.INVALID,
            ExitCode.INTERRUPTED,
        )
        assert run.messages == ["interrupted by SIGINT"]
        assert run.names == left
        assert not engine.realised
        assert engine.closed
        assert run.recorder.told[-1] == "finished invalid"
        if stage not in {"info", "sweep"}:
            assert run.result.id in engine.destroyed

    def test_while_processes_run_their_logs_are_kept(self, lab: Lab) -> None:
        class Impatient(Recorder):
            def line(self, key: ProcessKey, stream: str, text: str) -> None:
                signal.raise_signal(signal.SIGTERM)

        run = lab.run(scenario("echo hello; sleep 60"), observer=Impatient())
        assert run.result.exit_code is ExitCode.INTERRUPTED
        assert run.text("logs/a.work.log") == "hello\n"
        assert run.result.processes[0].status is None
        assert run.result.seconds < 20

    def test_while_a_process_prints_without_end_it_does_not_take_long(self, lab: Lab) -> None:
        sockets = 'sockets: {process: work, local: "${{ nics.data.ip }}"}'
        # The shell's parent is this process.
        run = lab.run(scenario("kill -INT $PPID; yes", sockets))
        assert run.result.exit_code is ExitCode.INTERRUPTED
        assert run.result.seconds < 20

    def test_in_the_clean_up_it_is_put_off_to_its_end(
        self, lab: Lab, capfd: pytest.CaptureFixture[str]
    ) -> None:
        engine = Faulty("destroy", lambda: signal.raise_signal(signal.SIGTERM))
        run = lab.run(scenario("true", EXIT), engine)
        assert run.result.exit_code is ExitCode.INTERRUPTED
        assert run.result.checks[0].passed
        assert engine.destroyed == [run.result.id]
        assert run.names == ALL
        assert "once more to leave at once" in capfd.readouterr().err

    def test_what_was_first_in_the_way_decides(self, lab: Lab) -> None:
        class Both(Faulty):
            def destroy(self, run_id: str, deadline: float) -> int:
                signal.raise_signal(signal.SIGINT)
                return super().destroy(run_id, deadline)

        run = lab.run(scenario("true"), Both("prepare", throws(ImageError("no image"))))
        assert run.result.exit_code is ExitCode.INVALID
        assert run.messages == ["no image", "interrupted by SIGINT"]


def test_runs_side_by_side_do_not_disturb_each_other(lab: Lab) -> None:
    """They share an engine, as on a machine; in threads, where signals are nobody's."""
    engine = FakeEngine()
    engine.close = lambda: None  # type: ignore[method-assign] # each would end the others
    results = []

    def work(number: int) -> None:
        text = scenario(f"echo {number}", EXIT, hosts="a, b")
        runner = lab.runner(text, lambda: engine, Recorder())
        results.append(runner.run())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result.verdict for result in results] == [Verdict.PASSED] * 4
    assert len({result.directory for result in results}) == 4
    assert not engine.realised


def test_dead_runs_are_swept_first_and_told_of(lab: Lab) -> None:
    class Littered(FakeEngine):
        def sweep(self, deadline: float) -> Mapping[str, int]:
            return {"deadbeef": 6}

    run = lab.run(scenario("true"), Littered())
    assert "removed what the dead run deadbeef left" in run.recorder.told
    (event,) = run.events("swept")
    assert (event["run"], event["removed"]) == ("deadbeef", 6)


def test_odd_words_of_a_process_leave_valid_files(lab: Lab) -> None:
    script = r"""
    printf '\033[31m[red]\377\000\n'
    printf 'fedtest-value {"name": "\\ud800", "value": "\\udfff"}\n'
    exit 1
    """
    run = lab.run(scenario(script, EXIT))
    assert run.json("result.json")["processes"][0]["values"] == {"\ud800": "\udfff"}
    assert json.loads(run.text("events.jsonl").splitlines()[0])["seq"] == 1
    assert HOSTS.split()[0] in run.text("scenario.yaml")
