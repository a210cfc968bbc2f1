"""JUnit XML: a case per check and one for the run, fit for any parser whatever was printed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from fedtest.engine.base import EngineInfo
from fedtest.errors import ExitCode, InvalidError
from fedtest.reporters.junit import to_junit, write_junit
from fedtest.run.result import CheckResult, Problem, Result, Verdict

if TYPE_CHECKING:
    from pathlib import Path

GOOD = CheckResult("exit-1", "exit", True, "trainer exits with 0", "0 on all 4 hosts")
BAD = CheckResult("loss", "value", False, "loss < 1", "server1: 2", ("a <line>", "\x1b[2J\x00"))
PASSED = Result(
    "c0ffee", "ring", Verdict.PASSED, ExitCode.PASSED, "2024-02-03T04:05:06+00:00", 12.34,
    "/runs/x", (), (GOOD,), (), (),
)  # fmt: skip


def suite(result: Result) -> ET.Element:
    found = ET.fromstring(to_junit(result)).find("testsuite")
    assert found is not None
    return found


def cases(result: Result) -> dict[str, str]:
    """Name -> how it came out."""
    return {
        case.attrib["name"]: next((child.tag for child in case), "passed")
        for case in suite(result).iter("testcase")
    }


def counts(result: Result) -> tuple[str, ...]:
    attributes = suite(result).attrib
    return tuple(attributes[name] for name in ("tests", "failures", "errors"))


def test_a_run_that_passed() -> None:
    assert cases(PASSED) == {"run": "passed", "exit-1": "passed"}
    assert counts(PASSED) == ("2", "0", "0")
    assert suite(PASSED).attrib["name"] == "ring"
    assert suite(PASSED).attrib["time"] == "12.340"


def test_the_engine_is_told_of_with_why_it_was_taken() -> None:
    info = EngineInfo("netns", "1", "none", "6.18", "given", None, chosen="as Docker is\x1b off")
    text = to_junit(replace(PASSED, versions={"engine": info}))
    assert '<property name="engine" value="netns 1 (as Docker is\ufffd off)" />' in text


def test_a_check_that_does_not_hold_is_a_failure_with_what_was_found() -> None:
    failed = replace(PASSED, verdict=Verdict.FAILED, checks=(GOOD, BAD))
    assert cases(failed) == {"run": "passed", "exit-1": "passed", "loss": "failure"}
    assert counts(failed) == ("3", "1", "0")
    failure = suite(failed).find(".//failure")
    assert failure is not None
    assert failure.attrib["message"] == "expected: loss < 1; found: server1: 2"
    assert str(failure.text).splitlines()[:3] == [
        "expected: loss < 1",
        "found: server1: 2",
        "a <line>",
    ]


def test_what_xml_cannot_say_is_replaced() -> None:
    text = to_junit(replace(PASSED, checks=(BAD,)))
    assert "\x1b" not in text
    assert "\N{REPLACEMENT CHARACTER}[2J\N{REPLACEMENT CHARACTER}" in text


def test_a_problem_that_makes_the_run_invalid_is_an_error() -> None:
    problem = Problem(Verdict.INVALID, "no engine", "Start one.", ("its words",))
    invalid = replace(PASSED, verdict=Verdict.INVALID, checks=(), problems=(problem,))
    assert cases(invalid) == {"run": "error"}
    assert counts(invalid) == ("1", "0", "1")
    error = suite(invalid).find(".//error")
    assert error is not None
    assert error.attrib["message"] == "no engine"
    assert error.text == "no engine\nStart one.\nits words"


def test_a_problem_that_makes_it_fail_is_a_failure() -> None:
    problem = Problem(Verdict.FAILED, "still running")
    failed = replace(PASSED, verdict=Verdict.FAILED, problems=(problem,), checks=(GOOD, BAD))
    assert cases(failed) == {"run": "failure", "exit-1": "passed", "loss": "failure"}
    assert counts(failed) == ("3", "2", "0")


def test_where_it_cannot_be_written_that_is_said(tmp_path: Path) -> None:
    write_junit(PASSED, [tmp_path / "junit.xml"])
    assert (tmp_path / "junit.xml").read_text(encoding="utf-8") == to_junit(PASSED)
    with pytest.raises(InvalidError, match="nosuch"):
        write_junit(PASSED, [tmp_path / "nosuch" / "junit.xml"])
