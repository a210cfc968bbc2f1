"""A run's stages on the fake engine with real processes: what each does, and leaves."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

import pytest

from faulty import ALL, EXIT, Faulty, throws
from fedtest.engine.fake import FakeEngine
from fedtest.errors import EngineError, ExitCode
from fedtest.run.result import Verdict
from fedtest.scenario.load import loads
from runs import Lab, Recorder, scenario

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


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


def test_runs_side_by_side_do_not_disturb_each_other(lab: Lab) -> None:
    """They share an engine, as on a machine; in threads, where signals are nobody's."""
    engine = FakeEngine()
    engine.close = lambda: None  # type: ignore[method-assign] # each would end the others
    results = []

    def work(number: int) -> None:
        text = scenario(f"echo {number}", EXIT, hosts="a, b")
        runner = lab.runner(text, lambda: engine, Recorder())
        results.append(runner.run())

    threads = [threading.Thread(daemon=True, target=work, args=(number,)) for number in range(4)]
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
