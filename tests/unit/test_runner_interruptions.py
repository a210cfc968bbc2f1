"""A run that somebody interrupts, on the fake engine with real processes."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from faulty import ALL, EXIT, LOGS, PLANNED, START, Faulty, throws
from fedtest.errors import ExitCode, ImageError
from fedtest.run.result import Verdict
from runs import Lab, Recorder, scenario

if TYPE_CHECKING:
    from pathlib import Path

    from fedtest.engine.base import ProcessKey


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


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

    def test_what_a_library_makes_of_it_is_no_defect(self, lab: Lab) -> None:
        """A condition whose wait is interrupted twice over complains of its lock."""

        def interrupted_within_a_library() -> None:
            try:
                signal.raise_signal(signal.SIGINT)
            finally:
                raise RuntimeError("cannot release un-acquired lock")

        run = lab.run(scenario("true", EXIT), Faulty("observe", interrupted_within_a_library))
        assert run.result.exit_code is ExitCode.INTERRUPTED
        assert run.messages == ["interrupted by SIGINT"]

    def test_while_processes_run_their_logs_are_kept(self, lab: Lab) -> None:
        class Impatient(Recorder):
            def line(self, key: ProcessKey, stream: str, text: str) -> None:
                signal.raise_signal(signal.SIGTERM)

        run = lab.run(scenario("echo hello; sleep 600"), observer=Impatient())
        assert run.result.exit_code is ExitCode.INTERRUPTED
        assert run.text("logs/a.work.log") == "hello\n"
        assert run.result.processes[0].status is None

    def test_while_a_process_prints_without_end_it_does_not_take_long(self, lab: Lab) -> None:
        sockets = 'sockets: {process: work, local: "${{ nics.data.ip }}"}'
        # The shell's parent is this process.
        run = lab.run(scenario("kill -INT $PPID; yes", sockets))
        assert run.result.exit_code is ExitCode.INTERRUPTED
        # What waited to be taken when the signal came, not all that it could say.
        assert (run.path / "logs/a.work.log").stat().st_size < 16_000_000
        assert run.result.processes[0].log_bytes_cut == 0

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
