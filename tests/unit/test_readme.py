"""The README's first own scenario is the one in examples/two, and its picture a run's."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from fedtest.engine.base import EngineInfo
from fedtest.errors import ExitCode
from fedtest.reporters.terminal import TerminalReporter
from fedtest.run.result import CheckResult, Result, Verdict
from fedtest.scenario.load import load

ROOT = Path(__file__).parents[2]
TWO = ROOT / "examples" / "two"


@pytest.mark.parametrize(
    ("language", "file"), [("yaml", "two.yaml"), ("dockerfile", "my-training/Dockerfile")]
)
def test_what_the_readme_shows_is_what_there_is(language: str, file: str) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.findall(rf"```{language}\n(.*?)```", readme, re.DOTALL)
    assert shown[0] == (TWO / file).read_text(encoding="utf-8")


def test_the_first_own_scenario_is_one() -> None:
    assert load(TWO / "two.yaml").scenario.name == "two"


def test_the_picture_of_a_run_is_what_a_terminal_shows() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"```\n\$ python -m fedtest run \S+\n(.*?)```", readme, re.DOTALL)
    assert block
    *picture, end = block[1].splitlines()
    ended = re.fullmatch(
        r"passed ring on docker (\S+) \((.+)\): 8 of 8 checks hold, ([\d.]+) s, (\S+)", end
    )
    assert ended
    version, why, seconds, directory = ended.groups()
    info = EngineInfo("docker", version, "", "", "", None, chosen=why)
    check = CheckResult("1", "exit", passed=True, expected="", found="")
    result = Result(
        "2c1f7a90", "ring", Verdict.PASSED, ExitCode.PASSED, "", float(seconds), directory,
        (), (check,) * 8, (), (), {"engine": info},
    )  # fmt: skip
    out = io.StringIO()
    reporter = TerminalReporter(Console(file=out, width=150, force_terminal=True, no_color=True))
    reporter.run_started("ring", "2c1f7a90", directory)
    stages = [line for line in picture if line.startswith("✓")]
    for line in stages:
        stage = re.fullmatch(r"✓ (.+?) +([\d.]+) s(?:  (.*))?", line)
        assert stage
        reporter.stage_started(stage[1])
        reporter.stage_progress(stage[3] or "")
        reporter.stage_ended(stage[1], float(stage[2]), failed=False)
    reporter.finished(result)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue()).replace("\r", "\n").splitlines()
    drawn = [line.rstrip() for line in shown]
    assert len(stages) == 7
    assert why in stages[0]
    for line in (picture[0], *stages, end):
        assert line in drawn
