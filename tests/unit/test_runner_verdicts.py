"""What a run comes to, on the fake engine with real processes."""

from __future__ import annotations

import json
from ipaddress import IPv4Network
from typing import TYPE_CHECKING

import pytest

from faulty import ALL, BEFORE, EXIT, LOGS, PLANNED, START, Faulty, throws
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
from fedtest.subnets import POOL
from runs import HOSTS, Lab, scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from fedtest.engine.base import Prepared, RunTag
    from fedtest.engine.snapshot import Snapshot
    from fedtest.plan import Plan


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


class Gone(FakeEngine):
    """Its hosts cannot be looked at."""

    def observe(self, run: RunTag, hosts: Iterable[str], deadline: float) -> Mapping[str, Snapshot]:
        raise EngineError("gone")


class TestFailed:
    def test_a_check_that_does_not_hold_fails_the_run(self, lab: Lab) -> None:
        run = lab.run(scenario("echo broken; exit 3", EXIT))
        assert run.result.verdict is Verdict.FAILED
        assert run.result.exit_code is ExitCode.FAILED
        assert run.result.checks[0].details[-1].strip() == "broken"
        assert run.names == ALL | {"tails.txt"}

    def test_an_overdue_process_is_worth_less_than_an_invalid_testbed(self, lab: Lab) -> None:
        engine = Gone()
        run = lab.run(scenario("sleep 600", EXIT, extra=", deadline: 0.1s"), engine)
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

    def test_why_it_is_this_engine_is_in_the_result(self, lab: Lab) -> None:
        engine = FakeEngine()
        engine.chosen = "chosen by DOCKER_HOST=unix:///x"
        run = lab.run(scenario("true", EXIT), engine)
        for file, found in (("result.json", run.json("result.json")["versions"]),
                            ("versions.json", run.json("versions.json"))):  # fmt: skip
            assert found["engine"]["chosen"] == engine.chosen, file

    def test_a_range_that_is_taken_is_left_out_whole(self, lab: Lab) -> None:
        """As where the machine routes all of our pool."""

        class Routed(FakeEngine):
            def realise(
                self,
                plan: Plan,
                run: RunTag,
                prepared: Prepared,
                progress: Callable[[str], None],
                deadline: float,
            ) -> Mapping[str, Snapshot]:
                raise SubnetTaken("all of it is in use", subnet=POOL)

        run = lab.run(scenario("true", EXIT), Routed())
        assert run.result.exit_code is ExitCode.INVALID
        assert len(run.events("subnet taken")) == 1
        assert f"is free in {POOL}" in run.messages[0]

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
