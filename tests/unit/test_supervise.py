"""Processes run to their end or to their deadline, and what they say is taken in."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from fedtest.engine.fake import Defects, FakeEngine
from fedtest.errors import EngineError, ExitCode
from fedtest.run import intake, supervise
from fedtest.run.logs import HEAD, TAIL
from fedtest.run.observer import Observer
from fedtest.run.result import Verdict
from runs import Awaited, Lab, Looked, scenario, until

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from fedtest.engine.base import ProcessKey, RunTag, Sink
    from fedtest.engine.snapshot import Snapshot
    from fedtest.plan import ProcessPlan


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setattr(supervise, "_GRACE", 0.3)
    return Lab(tmp_path)


def test_a_process_that_overruns_its_deadline_fails_the_run_with_its_last_words(lab: Lab) -> None:
    text = scenario("echo connecting; sleep 600", extra=", deadline: 0.2s")
    run = lab.run(text, Awaited({"work": "connecting"}))
    assert (run.result.verdict, run.result.exit_code) == (Verdict.FAILED, ExitCode.FAILED)
    (problem,) = run.result.problems
    assert problem.message == "work on a: still running after its deadline of 0.2 s"
    assert problem.details == ("connecting",)
    assert str(run.path / "logs" / "a.work.log") in problem.remedy
    assert run.result.processes[0].status == 128 + 15


def test_its_last_words_may_lack_the_end_of_the_line(lab: Lab) -> None:
    text = scenario("printf 'waiting for peer ... '; sleep 600", extra=", deadline: 0.2s")
    run = lab.run(text, Awaited({"work": "... "}))
    assert run.result.problems[0].details == ("waiting for peer ... ",)


def test_one_that_printed_nothing_is_said_to_have(lab: Lab) -> None:
    run = lab.run(scenario("sleep 600", extra=", deadline: 0.1s"))
    assert run.result.problems[0].details == ("(it printed nothing)",)


def test_a_process_that_ignores_being_asked_is_ended(lab: Lab) -> None:
    script = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
    run = lab.run(scenario(script, extra=", deadline: 0.1s"), Awaited({"work": "ready"}))
    assert run.result.processes[0].status == 128 + 9


def test_what_a_process_says_when_asked_to_end_is_kept(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "_GRACE", 30.0)
    script = "trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.02; done"
    run = lab.run(scenario(script, extra=", deadline: 0.1s"), Awaited({"work": "ready"}))
    assert run.result.processes[0].status == 5
    assert "bye" in run.text("logs/a.work.log")


def test_a_process_that_never_stops_talking_is_overdue_like_a_silent_one(lab: Lab) -> None:
    run = lab.run(scenario("yes", extra=", deadline: 0.2s"), observer=Observer())
    assert run.result.verdict is Verdict.FAILED
    assert "still running" in run.messages[0]
    # What waited to be taken at its deadline and at its end, not all that it could say.
    assert (run.path / "logs/a.work.log").stat().st_size < 16_000_000
    assert run.result.processes[0].log_bytes_cut == 0


def test_the_scenarios_deadline_binds_a_process_with_a_longer_one(lab: Lab) -> None:
    text = scenario("sleep 600", hosts="a, b", extra=", deadline: 50s")
    run = lab.run(text.replace("deadline: 200s", "deadline: 0.2s"))
    assert run.messages == [
        "work on a: still running after the scenario's deadline of 0.2 s",
        "work on b: still running after the scenario's deadline of 0.2 s",
    ]


def test_when_one_is_overdue_the_others_end_too_but_are_not_blamed(lab: Lab) -> None:
    text = scenario("sleep 600", extra=", deadline: 0.2s").replace(
        "processes: {", "processes: {other: {hosts: [b], run: sleep 600}, "
    )
    run = lab.run(text)
    assert run.messages == ["work on a: still running after its deadline of 0.2 s"]
    assert {item.process: item.status for item in run.result.processes} == {
        "work": 143,
        "other": 143,
    }


def test_a_short_deadline_that_was_kept_does_not_matter_any_more(lab: Lab) -> None:
    text = scenario("true", extra=", deadline: 0.3s").replace(
        "processes: {", "processes: {other: {hosts: [b], run: sleep 0.6}, "
    )
    assert lab.run(text, Awaited({"work": None})).result.verdict is Verdict.PASSED


def test_a_scenario_without_processes_is_over_at_once(lab: Lab) -> None:
    text = scenario("true")
    run = lab.run(text[: text.index("processes:")])
    assert run.result.verdict is Verdict.PASSED


def test_the_last_value_under_a_name_counts_and_all_are_events(lab: Lab) -> None:
    script = 'for v in 1 2 3; do echo "fedtest-value {\\"name\\": \\"n\\", \\"value\\": $v}"; done'
    run = lab.run(scenario(script, 'value: {process: work, name: n, each: "== 3"}'))
    assert run.result.verdict is Verdict.PASSED
    assert run.result.processes[0].values == {"n": 3}
    assert [event["value"] for event in run.events("value")] == [1, 2, 3]


def test_a_value_on_standard_error_is_no_value(lab: Lab) -> None:
    script = """printf 'fedtest-value {"name": "n", "value": 1}' >&2"""
    assert lab.run(scenario(script)).result.processes[0].values == {}


def test_a_value_whose_line_is_not_ended_is_one(lab: Lab) -> None:
    script = """printf 'fedtest-value {"name": "n", "value": 1}'"""
    assert lab.run(scenario(script)).result.processes[0].values == {"n": 1}


def test_a_value_that_cannot_be_read_fails_the_run_once_however_many_there_are(lab: Lab) -> None:
    run = lab.run(scenario("for i in 1 2 3; do echo 'fedtest-value {oops'; done"))
    assert run.result.verdict is Verdict.FAILED
    (message,) = run.messages
    assert message.startswith("work on a: reported a value that cannot be read: not JSON")
    assert message.endswith("fedtest-value {oops")
    assert len(run.events("bad value")) == 3


def test_a_whole_number_too_large_to_be_compared_is_refused_as_a_value(lab: Lab) -> None:
    script = """echo "fedtest-value {\\"name\\": \\"n\\", \\"value\\": 1$(printf %0400d 0)}" """
    checks = """value: {process: work, name: n, monotonic: increasing}},
    {value: {process: work, name: n, across: {sum: "> 1"}}"""
    run = lab.run(scenario(script, f"{{{checks}}}"))
    assert run.result.verdict is Verdict.FAILED
    assert run.messages[0].startswith(
        'work on a: reported a value that cannot be read: "value" is a whole number of more than'
    )


def test_values_that_json_cannot_say_leave_valid_json(lab: Lab) -> None:
    script = """
    echo 'fedtest-value {"name": "loss", "value": NaN}'
    echo 'fedtest-value {"name": "huge", "value": 1e999}'
    """
    run = lab.run(scenario(script))
    assert run.json("result.json")["processes"][0]["values"] == {"loss": "nan", "huge": "inf"}
    assert [event["value"] for event in run.events("value")] == ["nan", "inf"]


def test_reports_without_end_fill_neither_memory_nor_disk(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "_MOST_REPORTS", 10)
    monkeypatch.setattr(intake, "_MOST_NAMES", 5)
    script = """for i in $(seq 100); do
        echo "fedtest-value {\\"name\\": \\"n$i\\", \\"value\\": 0}"
        echo "fedtest-value {\\"name\\": \\"n1\\", \\"value\\": $i}"
    done"""
    run = lab.run(scenario(script))
    assert run.result.processes[0].values == {"n1": 100, "n2": 0, "n3": 0, "n4": 0, "n5": 0}
    assert run.messages == ["work on a: reported values under more than 5 names"]
    assert len(run.events("value")) == 10
    assert len(run.events("values no longer recorded")) == 1


def test_output_without_end_of_line_is_taken_and_bounded(lab: Lab) -> None:
    run = lab.run(scenario("head -c 200000000 /dev/zero"), observer=Observer())
    assert run.result.verdict is Verdict.PASSED
    assert run.result.processes[0].log_bytes_cut == 200_000_000 - HEAD - TAIL
    assert (run.path / "logs" / "a.work.log").stat().st_size < HEAD + TAIL + 100
    assert (run.path / "result.json").stat().st_size < 100_000


def test_a_log_that_cannot_be_written_makes_the_run_invalid(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedtest.run.artifacts.RunDirectory.log", lambda self, _: _full(self.path))
    run = lab.run(scenario("echo hello"))
    assert run.result.exit_code is ExitCode.INVALID
    assert run.messages == ["work on a: its log could not be written: No space left on device"]
    assert "a stdout: hello" in run.recorder.told


def _full(directory: Path) -> Path:
    path = directory / "logs" / "full"
    path.symlink_to("/dev/full")
    return path


class LosesSight(FakeEngine):
    """Its connection to processes breaks as soon as they run."""

    def start(
        self, run: RunTag, processes: Sequence[ProcessPlan], sink: Sink, deadline: float
    ) -> Mapping[ProcessKey, int]:
        pids = super().start(run, processes, sink, deadline)
        for key in pids:
            sink.lost(key, EngineError("the connection broke"))
        return pids


def test_a_process_that_is_lost_makes_the_run_invalid(lab: Lab) -> None:
    run = lab.run(scenario("sleep 600"), LosesSight())
    assert run.result.exit_code is ExitCode.INVALID
    assert run.messages == ["work on a: the connection broke"]
    assert run.result.processes[0].status is None


class ExitsAtOnce(FakeEngine):
    """Processes have ended before `start` returns."""

    def start(
        self, run: RunTag, processes: Sequence[ProcessPlan], sink: Sink, deadline: float
    ) -> Mapping[ProcessKey, int]:
        pids = super().start(run, processes, sink, deadline)
        waiting = sink.waiting  # type: ignore[attr-defined] # the runner's own sink
        end = time.monotonic() + 20
        while waiting() < 2 and time.monotonic() < end:
            time.sleep(0.005)
        return pids


def test_a_process_may_end_before_its_start_is_known(lab: Lab) -> None:
    run = lab.run(scenario("echo hello"), ExitsAtOnce())
    (process,) = run.result.processes
    assert process.status == 0
    assert process.ended is not None
    assert process.started <= process.ended
    assert run.text("logs/a.work.log") == "hello\n"


SOCKETS = 'sockets: {process: work, local: "${{ nics.data.ip }}"}'


def test_sockets_are_seen_while_a_process_runs(lab: Lab, tmp_path: Path) -> None:
    seen = ("work", "192.168.7.2", 5000, "192.168.7.3", 6000)
    engine = Looked(tmp_path / "looks", Defects(sockets=(seen,)))
    text = scenario(engine.wait, SOCKETS).replace("data: {}", "data: {subnet: 192.168.7.0/24}")
    run = lab.run(text, engine)
    assert run.result.checks[0].found == "a: 192.168.7.2"
    assert run.result.verdict is Verdict.PASSED


class Blind(Looked):
    """The first look while processes run fails with `error`."""

    def __init__(self, path: Path, error: Exception) -> None:
        super().__init__(path)
        self.failed = path.with_suffix(".failed")
        self.error = error
        self.looks = 0

    def observe(self, run: RunTag, hosts: Iterable[str], deadline: float) -> Mapping[str, Snapshot]:
        self.looks += 1
        if self.looks == 1:
            self.failed.touch()
            raise self.error
        return super().observe(run, hosts, deadline)


def test_a_look_that_the_engine_fails_at_is_done_again(lab: Lab, tmp_path: Path) -> None:
    engine = Blind(tmp_path / "looks", EngineError("busy"))
    run = lab.run(scenario(engine.wait, SOCKETS), engine)
    assert engine.looks >= 3
    assert run.result.checks[0].found == "a: no socket seen"


def test_a_defect_in_looking_is_told_as_one(lab: Lab, tmp_path: Path) -> None:
    engine = Blind(tmp_path / "looks", RuntimeError("a bug"))
    run = lab.run(scenario(until(engine.failed), SOCKETS), engine)
    assert run.result.exit_code is ExitCode.INTERNAL
    assert "RuntimeError: a bug" in run.messages[0]
