"""Each reporter shows the same run in its way; what processes print is never obeyed."""

from __future__ import annotations

import io
import json
import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from fedtest.engine.base import EngineInfo, ProcessKey
from fedtest.errors import ExitCode
from fedtest.plan import make_plan
from fedtest.reporters.json import JsonReporter
from fedtest.reporters.plain import PlainReporter, QuietReporter
from fedtest.reporters.printable import printable
from fedtest.reporters.terminal import TerminalReporter
from fedtest.run.result import CheckResult, Problem, Result, Saved, Verdict
from fedtest.scenario.load import loads
from fedtest.subnets import choose
from runs import Lab, scenario

if TYPE_CHECKING:
    from pathlib import Path

    from fedtest.run.observer import Observer

KEY = ProcessKey("server1", "trainer")
GOOD = CheckResult("exit-1", "exit", True, "trainer exits with 0", "0 on all 4 hosts")
BAD = CheckResult(
    "loss", "value", False, "loss < 1 on each host", "server1: 2", ("server1 [red]said[/red]",)
)
PASSED = Result(
    "c0ffee", "ring", Verdict.PASSED, ExitCode.PASSED, "2024-02-03T04:05:06+00:00", 12.34,
    "/runs/x", (), (GOOD,), (), (),
)  # fmt: skip
FAILED = replace(PASSED, verdict=Verdict.FAILED, exit_code=ExitCode.FAILED, checks=(GOOD, BAD))
INVALID = replace(
    PASSED,
    verdict=Verdict.INVALID,
    exit_code=ExitCode.INVALID,
    checks=(),
    problems=(Problem(Verdict.INVALID, "no engine:\n  none", "Start one.", ("last [b]line",)),),
)


def tell(reporter: Observer, result: Result) -> None:
    """A run as the runner tells of it."""
    reporter.run_started("ring", "c0ffee", "/runs/x")
    reporter.stage_started("hosts")
    reporter.stage_progress("4 hosts on 2 networks")
    reporter.stage_ended("hosts", 1.25, failed=False)
    reporter.stage_started("processes")
    reporter.line(KEY, "stdout", "epoch 1 loss 0.5")
    reporter.line(KEY, "stderr", "warning: [red]hot[/red] \x1b[31mred\x1b[0m \x1b[2J")
    reporter.line(KEY, "stdout", 'fedtest-value {"name": "loss", "value": 2}')
    reporter.exited(KEY, 0)
    reporter.stage_ended("processes", 9.0, failed=True)
    reporter.finished(result)


def test_plain_tells_one_line_for_each_thing_that_happens() -> None:
    out = io.StringIO()
    tell(PlainReporter(out), FAILED)
    assert out.getvalue().splitlines() == [
        "scenario ring, run c0ffee, /runs/x",
        "hosts ...",
        "  4 hosts on 2 networks",
        "hosts: done in 1.2 s",
        "processes ...",
        "server1 trainer| epoch 1 loss 0.5",
        "server1 trainer! warning: [red]hot[/red] red ",
        'server1 trainer| fedtest-value {"name": "loss", "value": 2}',
        "server1 trainer: exited with 0",
        "processes: FAILED after 9.0 s",
        "    check                  found           ",
        "ok  trainer exits with 0   0 on all 4 hosts",
        "NO  loss < 1 on each host  server1: 2      ",
        "loss:",
        "  server1 [red]said[/red]",
        "failed ring: 1 of 2 checks hold, 12.3 s, /runs/x",
    ]


def test_plain_shows_the_first_and_last_lines_of_a_process_and_verbose_all() -> None:
    brief, verbose = io.StringIO(), io.StringIO()
    for reporter in (PlainReporter(brief), PlainReporter(verbose, verbose=True)):
        for step in range(190):
            reporter.line(KEY, "stdout", f"step={step}")
            reporter.line(KEY, "stdout", f'fedtest-progress {{"done": {step}, "total": 190}}')
        reporter.exited(KEY, 0)
    assert brief.getvalue().splitlines() == [
        *(f"server1 trainer| step={step}" for step in (0, 1, 2)),
        "server1 trainer: 184 lines not shown; the log has all",
        *(f"server1 trainer| step={step}" for step in (187, 188, 189)),
        "server1 trainer: exited with 0",
    ]
    assert len(verbose.getvalue().splitlines()) == 2 * 190 + 1


def test_plain_says_now_and_then_who_still_runs_while_nobody_says_anything() -> None:
    now = 0.0
    out = io.StringIO()
    reporter = PlainReporter(out, clock=lambda: now)
    keys = [ProcessKey(f"server{number}", "trainer") for number in range(1, 5)]
    now = 10.0
    reporter.line(KEY, "stdout", "hello")
    now = 60.0
    reporter.still_running(keys)
    now = 120.0
    reporter.still_running(keys[:1])
    now = 180.0
    reporter.still_running(keys)
    assert out.getvalue().splitlines() == [
        "server1 trainer| hello",
        "  still running: server1 trainer",
        "  still running: server1 trainer, server2 trainer, server3 trainer, ... (4 processes)",
    ]


def test_the_last_lines_of_a_process_whose_end_nobody_saw_are_shown_at_the_end() -> None:
    out = io.StringIO()
    reporter = PlainReporter(out)
    for step in range(100):
        reporter.line(KEY, "stdout", f"step={step}")
    reporter.finished(FAILED)
    shown = re.findall(r"step=(\d+)", out.getvalue())
    assert shown == [str(step) for step in (0, 1, 2, *range(90, 100))]
    assert out.getvalue().index("step=99") < out.getvalue().index("ok  trainer exits")


def test_a_process_that_is_started_again_has_first_lines_again() -> None:
    out = io.StringIO()
    reporter = PlainReporter(out)
    for _ in range(2):
        reporter.line(KEY, "stdout", "begin")
        reporter.exited(KEY, 0)
    assert out.getvalue().count("begin") == 2


def test_the_end_tells_on_which_engine_a_run_was_and_why() -> None:
    info = EngineInfo("netns", "1.0", "none", "6.18", "given when made", None)
    out = io.StringIO()
    tell(QuietReporter(out), replace(PASSED, versions={"engine": info}))
    assert out.getvalue().startswith("passed ring on netns 1.0: 1 of 1 checks hold, ")
    chosen = replace(info, chosen="chosen because no Docker engine answers")
    out = io.StringIO()
    tell(PlainReporter(out), replace(PASSED, versions={"engine": chosen}))
    end = out.getvalue().splitlines()[-1]
    assert end.startswith("passed ring on netns 1.0 (chosen because no Docker engine answers): ")


def test_what_was_saved_of_a_failed_run_is_named_but_not_every_file_of_many() -> None:
    out = io.StringIO()
    stacks = tuple(f"hosts/h{number}.stacks.txt" for number in range(5))
    saved = (Saved("the ends of all logs", ("tails.txt",)), Saved("stacks", stacks))
    tell(QuietReporter(out), replace(FAILED, saved=saved))
    assert out.getvalue().splitlines()[-3:-1] == [
        "the ends of all logs: tails.txt",
        "stacks: hosts/h0.stacks.txt, hosts/h1.stacks.txt, hosts/h2.stacks.txt, ... (5 files)",
    ]


def test_quiet_tells_only_the_end_of_a_run_that_passed() -> None:
    out = io.StringIO()
    tell(QuietReporter(out), PASSED)
    assert out.getvalue() == "passed ring: 1 of 1 checks hold, 12.3 s, /runs/x\n"


def test_quiet_tells_what_did_not_hold_and_nothing_that_did() -> None:
    out = io.StringIO()
    tell(QuietReporter(out), FAILED)
    assert "loss < 1 on each host" in out.getvalue()
    assert "trainer exits" not in out.getvalue()


def test_quiet_tells_why_a_run_is_invalid_and_what_to_do() -> None:
    out = io.StringIO()
    tell(QuietReporter(out), INVALID)
    assert out.getvalue().splitlines() == [
        "no engine:",
        "  none",
        "    last [b]line",
        "  Start one.",
        "invalid ring: 12.3 s, /runs/x",
    ]


def test_what_is_missing_and_the_command_that_installs_it_are_a_line_each() -> None:
    message, remedy = f"missing: {'tool, ' * 60}", f"/very/long{'/path' * 60} -m fedtest"
    out = io.StringIO()
    tell(
        QuietReporter(out), replace(INVALID, problems=(Problem(Verdict.INVALID, message, remedy),))
    )
    assert out.getvalue().splitlines()[:2] == [message, f"  {remedy}"]


def test_json_is_the_same_as_the_result_file_and_nothing_else(tmp_path: Path) -> None:
    out = io.StringIO()
    run = Lab(tmp_path).run(
        scenario("echo hello", "exit: {process: work, code: 0}"), observer=JsonReporter(out)
    )
    assert out.getvalue() == run.text("result.json")
    assert json.loads(out.getvalue())["verdict"] == "passed"


def test_what_a_host_printed_is_no_command_for_github_in_json_either() -> None:
    out = io.StringIO()
    commanding = replace(FAILED, checks=(replace(BAD, details=("##[add-mask]a", "x##[error]")),))
    JsonReporter(out).finished(commanding)
    assert "##[" not in out.getvalue()
    assert json.loads(out.getvalue())["checks"][0]["details"] == ["##[add-mask]a", "x##[error]"]


def show(result: Result, *, width: int = 100, height: int = 24) -> str:
    out = io.StringIO()
    console = Console(
        file=out, width=width, height=height, force_terminal=True, color_system="truecolor"
    )
    tell(TerminalReporter(console), result)
    return out.getvalue()


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def test_a_terminal_shows_stages_last_lines_and_checks() -> None:
    shown = plain(show(FAILED))
    assert "ring, run c0ffee" in shown
    assert re.search(r"✓ hosts +1\.2 s +4 hosts on 2 networks", shown)
    assert re.search(r"x processes +9\.0 s", shown)
    assert re.search(r"server1 +trainer +exited with 0", shown)
    assert "NO  loss < 1 on each host" in shown
    assert "failed ring: 1 of 2 checks hold" in shown


def test_a_terminal_lists_processes_in_the_plans_order_whoever_speaks_first(
    tmp_path: Path,
) -> None:
    out = io.StringIO()
    console = Console(file=out, width=100, height=24, force_terminal=True)
    text = scenario("echo hello", hosts="a, b")
    Lab(tmp_path).run(text, observer=TerminalReporter(console))
    told = re.findall(r"([ab]) +work +exited", plain(out.getvalue()))
    assert told[-2:] == ["a", "b"]


def picture(reporter: TerminalReporter, out: io.StringIO) -> str:
    """What is drawn when nothing new has come."""
    out.truncate(0)
    reporter._console.print(reporter._picture())
    return plain(out.getvalue())


def test_a_terminal_shows_for_how_long_a_process_has_said_nothing_and_then_what_is_left() -> None:
    out = io.StringIO()
    reporter = TerminalReporter(Console(file=out, width=120, height=24, force_terminal=True))
    whole = loads(scenario("true")).scenario
    reporter.planned(make_plan(whole, choose(whole, "", ())))
    reporter.stage_started("processes")
    assert re.search(r"a +work +not started yet", picture(reporter, out))
    key = ProcessKey("a", "work")
    reporter.started(key)
    assert re.search(r"a +work +no output yet, 0 s", picture(reporter, out))
    reporter._going[key].silent_since = time.monotonic() - 12
    assert re.search(r"a +work +no output yet, 12 s", picture(reporter, out))
    reporter.line(key, "stdout", "step=10")
    assert re.search(r"a +work +step=10", picture(reporter, out))
    reporter.line(key, "stdout", 'fedtest-progress {"done": 1, "total": 4}')
    shown = picture(reporter, out)
    assert re.search(r"a +work +━━━━━╌+  25%  step=10", shown)
    assert "fedtest-progress" not in shown
    reporter.exited(key, 0)
    assert re.search(r"a +work +exited with 0  step=10", picture(reporter, out))
    reporter.started(key)
    assert re.search(r"a +work +no output yet, 0 s", picture(reporter, out))
    reporter.line(key, "stdout", 'fedtest-value {"name": "x", "value": 1}')
    assert "no output" not in picture(reporter, out)


def test_a_terminal_does_not_show_the_lines_that_are_for_us() -> None:
    assert "fedtest-value" not in show(FAILED)


def test_markup_in_what_processes_print_is_text() -> None:
    shown = plain(show(FAILED))
    assert "[red]hot[/red]" in shown
    assert "server1 [red]said[/red]" in shown
    assert "last [b]line" in plain(show(INVALID))


def test_escape_sequences_of_processes_do_not_reach_the_terminal() -> None:
    assert "\x1b[2J" not in show(FAILED)


def test_the_cursor_is_shown_again_at_the_end() -> None:
    shown = show(PASSED)
    assert shown.rfind("\x1b[?25h") > shown.rfind("\x1b[?25l")


@pytest.mark.parametrize("size", [(1, 1), (5, 2), (20, 3), (400, 100)])
@pytest.mark.parametrize("result", [PASSED, FAILED, INVALID])
def test_any_size_of_terminal_will_do(size: tuple[int, int], result: Result) -> None:
    assert show(result, width=size[0], height=size[1])


def test_the_live_picture_can_be_drawn_at_any_moment() -> None:
    console = Console(file=io.StringIO(), width=60, height=5, force_terminal=True)
    reporter = TerminalReporter(console)
    console.print(reporter._picture())
    reporter.stage_started("processes")
    for number in range(10):
        reporter.line(ProcessKey(f"server{number}", "trainer"), "stdout", "[/] \\[")
        console.print(reporter._picture())


def test_a_terminal_that_knows_only_ascii_gets_other_characters_for_those_it_lacks() -> None:
    for reporter in (PlainReporter, QuietReporter):
        raw = io.BytesIO()
        out = io.TextIOWrapper(raw, encoding="ascii")
        problem = Problem(Verdict.INVALID, "ünïcode \udfff")
        made: Observer = reporter(out)
        made.line(KEY, "stdout", "✓ ok")
        made.finished(replace(INVALID, problems=(problem,)))
        out.flush()
        assert b"?n?code" in raw.getvalue()


class Unread(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError

    def isatty(self) -> bool:
        return False


@pytest.mark.parametrize("reporter", [PlainReporter, QuietReporter, JsonReporter])
def test_an_output_that_nobody_reads_is_an_error_for_the_runner_and_not_the_end(
    reporter: type[PlainReporter],
) -> None:
    with pytest.raises(BrokenPipeError):
        reporter(Unread()).finished(FAILED)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("10%\r50%\r100%", "100%"),
        ("100%\r", "100%"),
        ("a\x00b\x07c\x9bd", "abcd"),
        ("tab\tstays", "tab\tstays"),
        ("half \ud800 a pair", "half  a pair"),
        ("[red]\\[", "[red]\\["),
        ("日本 ✓", "日本 ✓"),
    ],
)
def test_what_a_terminal_would_obey_is_taken_out(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_a_line_without_end_is_shown_in_part() -> None:
    shown = printable("\0" * 100 + "x" * 100_000)
    assert len(shown) < 5000
    assert shown.endswith("x ... (100100 characters)")


def test_plain_shows_no_more_of_a_process_than_anybody_reads() -> None:
    out = io.StringIO()
    reporter = PlainReporter(out, verbose=True)
    for _ in range(3000):
        reporter.line(KEY, "stdout", "x" * 999)
    reporter.line(ProcessKey("server2", "trainer"), "stdout", "mine")
    reporter.exited(KEY, 0)
    *_, told, other, end = out.getvalue().splitlines()
    assert len(out.getvalue()) < 1.2 * (1 << 20)
    assert told == "server1 trainer: prints more than is shown here; see its log"
    assert other == "server2 trainer| mine"
    assert end == "server1 trainer: exited with 0"
