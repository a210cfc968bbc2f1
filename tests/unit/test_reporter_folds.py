"""Where a CI system reads the output: its parts are folded, and no host commands the system."""

from __future__ import annotations

import io
import re

from fedtest.engine.base import ProcessKey
from fedtest.errors import ExitCode
from fedtest.reporters.folds import folds
from fedtest.reporters.plain import PlainReporter, QuietReporter
from fedtest.run.result import CheckResult, Result, Verdict

KEY = ProcessKey("a", "work")


def told(env: dict[str, str], line: str = "hello") -> str:
    out = io.StringIO()
    reporter = PlainReporter(out, folds=folds(env))
    reporter.run_started("ring", "c0ffee", "/runs/x")
    reporter.stage_started("images and data")
    reporter.line(KEY, "stdout", line)
    reporter.stage_ended("images and data", 1.0, failed=False)
    return out.getvalue()


def obeyed(text: str) -> list[str]:
    """The workflow commands that GitHub's runner obeys in `text`, by its documented rules."""
    found: list[str] = []
    token = None
    for line in text.splitlines():
        command = line.strip()
        if token is not None:
            token = None if command == f"::{token}::" else token
        elif command.startswith("::stop-commands::"):
            token = command.removeprefix("::stop-commands::")
        elif command.startswith("::") or "##[" in command:
            found.append(command)
    return found


def test_without_a_ci_system_nothing_is_folded() -> None:
    assert told({}).splitlines() == [
        "scenario ring, run c0ffee, /runs/x",
        "images and data ...",
        "a work| hello",
        "images and data: done in 1.0 s",
    ]


def test_on_github_each_stage_is_a_group_and_what_came_of_it_is_outside() -> None:
    text = told({"GITHUB_ACTIONS": "true"})
    assert obeyed(text) == ["::group::images and data", "::endgroup::"]
    assert text.index("a work| hello") < text.index("::endgroup::")
    assert text.index("::endgroup::") < text.index("images and data: done in")


def test_what_a_host_prints_is_no_command_for_github() -> None:
    for line in (
        "::error::x",
        "##[add-mask]x",
        "::endgroup::",
        "::stop-commands::x",
        "x\n::set-env",
    ):
        assert obeyed(told({"GITHUB_ACTIONS": "true"}, line)) == [
            "::group::images and data",
            "::endgroup::",
        ]


def test_what_a_host_printed_is_no_command_for_github_at_a_quiet_end() -> None:
    out = io.StringIO()
    bad = CheckResult("log", "log", False, "no ::error::", "::error::x", ("::add-mask::a", "##[x]"))
    result = Result(
        "c0ffee", "ring", Verdict.FAILED, ExitCode.FAILED, "2024-02-03T04:05:06+00:00", 1.0,
        "/runs/x", (), (bad,), (), (),
    )  # fmt: skip
    QuietReporter(out, folds=folds({"GITHUB_ACTIONS": "true"})).finished(result)
    assert "::add-mask::a" in out.getvalue()
    assert obeyed(out.getvalue()) == []
    assert obeyed(out.getvalue() + "::notice::theirs") == ["::notice::theirs"]


def test_the_token_that_lets_github_obey_again_is_another_in_each_run() -> None:
    one, other = (
        re.search("::stop-commands::([0-9a-f]{32})\n", told({"GITHUB_ACTIONS": "true"}))
        for _ in range(2)
    )
    assert one
    assert other
    assert one[1] != other[1]


SECTION = re.compile(r"section_(start|end):\d+:([a-z0-9_.-]+)(\[collapsed=true\])?\r\x1b\[0K")


def test_on_gitlab_each_stage_is_a_section_that_ends() -> None:
    begun, ended = SECTION.findall(told({"GITLAB_CI": "true"}))
    assert begun[0] == "start"
    assert ended == ("end", begun[1], "")
    assert begun[1].endswith("_images_and_data")


def test_what_a_host_prints_begins_no_section() -> None:
    line = "\x1b[0Ksection_end:1:x\r\x1b[0K"
    assert len(SECTION.findall(told({"GITLAB_CI": "true"}, line))) == 2
