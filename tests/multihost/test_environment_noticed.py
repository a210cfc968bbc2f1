"""What a process has as environment on real hosts is what the scenario says, or it is noticed."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from conftest import run_with

from fedtest.engine import inside
from fedtest.engine.choose import open_engine
from fedtest.run.result import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from fedtest.plan import ProcessPlan

# Shells have their own idea of some of these; one looks like what a start is told by.
ODD = {"UID": "4", "LINES": "a\nfedtest-pid 7\nb=c", "EMPTY": "", "SIGN": "a=ä", "WORD": "said"}
TELL = "import json, os; print(json.dumps({name: os.environ.get(name) for name in %r}))"


def scenario(env: dict[str, str], check: str) -> str:
    command = ["python3", "-c", TELL % sorted({"WORD", *env})]
    whole = {
        "fedtest": 1,
        "name": "environment",
        "networks": {"net": {}},
        "secrets": {"KEY": {"env": "FEDTEST_TRY"}},
        "hosts": {name: {"nics": {"net": "eth0"}, "env": {"WORD": "said"}} for name in "ab"},
        "processes": {"tell": {"hosts": ["a", "b"], "run": command, "env": env}},
        "checks": [{"log": {"process": "tell", "host": "b", "match": re.escape(check)}}],
    }
    return json.dumps(whole)


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDTEST_TRY", "s3cret")


def test_a_process_has_the_environment_that_the_scenario_says(
    tmp_path: Path, engine_name: str
) -> None:
    told = json.dumps(dict(sorted(ODD.items())))
    result = run_with(open_engine(engine_name), scenario(ODD, told), tmp_path)
    assert result.verdict is Verdict.PASSED, (result.problems, result.checks)


@pytest.mark.docker  # Without it no shell comes between.
def test_a_variable_that_the_images_shell_changes_makes_the_run_invalid(tmp_path: Path) -> None:
    text = scenario({"PWD": "/elsewhere", "IFS": "${{ secrets.KEY }}"}, "elsewhere")
    result = run_with(open_engine("docker"), text, tmp_path)
    assert result.verdict is Verdict.INVALID
    (problem,) = result.problems
    assert problem.message.startswith("tell on ")
    assert "PWD should be '/elsewhere', it is '/home/fedtest'" in problem.message
    assert "IFS should be '***', it is ' \\t\\n'" in problem.message
    assert "WORD" not in problem.message
    assert "env NAME=VALUE COMMAND" in problem.remedy


@pytest.mark.docker
def test_a_variable_that_is_lost_when_a_process_starts_makes_the_run_invalid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inside, "WRAPPER", f"unset WORD; {inside.WRAPPER}")
    result = run_with(open_engine("docker"), scenario({}, "said"), tmp_path)
    assert result.verdict is Verdict.INVALID
    assert "WORD should be 'said', it is not set" in result.problems[0].message


def test_a_variable_that_an_engine_does_not_set_is_seen_by_a_check(
    tmp_path: Path, engine_name: str
) -> None:
    engine = open_engine(engine_name)
    original = engine.start

    def start(tag: Any, processes: Sequence[ProcessPlan], *rest: Any) -> Mapping[Any, int]:
        plans = [
            replace(plan, env=tuple(item for item in plan.env if item[0] != "WORD"))
            for plan in processes
        ]
        return original(tag, plans, *rest)

    engine.start = start  # type: ignore[method-assign, assignment]
    result = run_with(engine, scenario({}, '{"WORD": "said"}'), tmp_path)
    assert result.verdict is Verdict.FAILED
    (check,) = [check for check in result.checks if not check.passed]
    assert "said" in check.expected
    assert '{"WORD": null}' in "\n".join([check.found, *check.details])
