"""JUnit XML from the Result: what CI systems show. A test case per check, and one for the run.

A check that does not hold is a failure of its case. What went wrong with the
run itself is in the case `run`: a problem that makes the run invalid is an
error, and one that makes it fail a failure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from fedtest.errors import InvalidError
from fedtest.run.result import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from fedtest.run.result import CheckResult, Problem, Result

# XML has no way at all to say these.
_UNSAYABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def write_junit(result: Result, paths: Iterable[Path]) -> None:
    """Write the same document to each path; InvalidError where that cannot be."""
    text = to_junit(result)
    for path in paths:
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise InvalidError(f"cannot write {path}: {error.strerror}") from error


def to_junit(result: Result) -> str:
    """The document."""
    whole = ET.Element("testsuites")
    suite = ET.SubElement(
        whole,
        "testsuite",
        name=result.scenario,
        tests=str(len(result.checks) + 1),
        failures=str(sum(not check.passed for check in result.checks) + _has_failed(result)),
        errors=str(int(_is_invalid(result))),
        skipped="0",
        time=f"{result.seconds:.3f}",
        timestamp=result.started,
    )
    properties = ET.SubElement(suite, "properties")
    facts = {"run": result.id, "directory": result.directory, "engine": result.engine}
    for name, value in facts.items():
        ET.SubElement(properties, "property", name=name, value=_said(value))
    case = _case(suite, result, "run", result.seconds)
    if result.problems:
        name = "error" if _is_invalid(result) else "failure"
        _outcome(case, name, result.problems[0].message, _problems(result.problems))
    for check in result.checks:
        case = _case(suite, result, check.id, 0)
        if not check.passed:
            message = f"expected: {check.expected}; found: {check.found}"
            _outcome(case, "failure", message, _lines(check))
    ET.indent(whole)
    return ET.tostring(whole, encoding="unicode", xml_declaration=True) + "\n"


def _is_invalid(result: Result) -> bool:
    return any(problem.verdict is Verdict.INVALID for problem in result.problems)


def _has_failed(result: Result) -> int:
    """Whether the case `run` is a failure: an error weighs more."""
    return int(bool(result.problems) and not _is_invalid(result))


def _case(suite: ET.Element, result: Result, name: str, seconds: float) -> ET.Element:
    return ET.SubElement(
        suite,
        "testcase",
        classname=f"fedtest.{result.scenario}",
        name=_said(name),
        time=f"{seconds:.3f}",
    )


def _outcome(case: ET.Element, kind: str, message: str, text: str) -> None:
    element = ET.SubElement(case, kind, message=_said(message), type=kind)
    element.text = _said(text)


def _lines(check: CheckResult) -> str:
    return "\n".join((f"expected: {check.expected}", f"found: {check.found}", *check.details))


def _problems(problems: Iterable[Problem]) -> str:
    lines = []
    for problem in problems:
        lines += [problem.message, problem.remedy, *problem.details]
    return "\n".join(line for line in lines if line)


def _said(text: str) -> str:
    return _UNSAYABLE.sub("\N{REPLACEMENT CHARACTER}", text)
