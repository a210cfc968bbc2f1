"""From a file to a Scenario, or to everything that is wrong with it; and back to text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from fedtest.errors import ScenarioError
from fedtest.scenario import references, wording
from fedtest.scenario.counted import Counted
from fedtest.scenario.draft import Draft
from fedtest.scenario.emit import to_yaml
from fedtest.scenario.model import Scenario
from fedtest.scenario.problems import Finding, Problem
from fedtest.scenario.source import parse_leniently, read

if TYPE_CHECKING:
    from fedtest.scenario.source import Source

_MOST_PROBLEMS = 200


@dataclass(frozen=True, slots=True)
class Loaded:
    """A valid scenario, and the text it came from for those who want to point at it."""

    scenario: Scenario
    source: Source


def load(path: str | Path) -> Loaded:
    """The scenario in the file at `path`; raises ScenarioError with every problem."""
    return loads(read(path), file=str(path), base=Path(path).parent, look=True)


def loads(text: str, *, file: str = "<text>", base: str | Path = ".", look: bool = False) -> Loaded:
    """The scenario in `text`; paths in it are relative to `base`, and with `look` must exist."""
    source, problems = parse_leniently(text, file)
    counted = Counted.of(source.data)
    try:
        scenario = Scenario.model_validate(counted.data, context={"base": base, "look": look})
    except ValidationError as error:
        found = wording.findings(error)
        draft = Draft.salvage(counted.data)
    else:
        found = []
        draft = Draft.of(scenario)
    found += references.findings(draft)
    found = [*counted.findings, *counted.origin(found)]
    if not found and not problems:
        return Loaded(scenario, source)
    raise ScenarioError(_in_order(source, found, problems))


def _in_order(source: Source, found: list[Finding], problems: list[Problem]) -> list[Problem]:
    """Problems in the order of the file, each once, and no more than anybody reads."""
    found = sorted(found, key=source.index)
    placed = [source.place(finding) for finding in found[:_MOST_PROBLEMS]]
    every = sorted(
        dict.fromkeys([*problems[:_MOST_PROBLEMS], *placed]),
        key=lambda problem: (problem.line, problem.column),
    )
    left_out = len(found) + len(problems) - len(placed) - len(problems[:_MOST_PROBLEMS])
    if left_out:
        every.append(Problem(source.file, 0, 0, "", f"and {left_out} more problems"))
    return every


def dump(scenario: Scenario) -> str:
    """The scenario as YAML, defaults written out; loads again to an equal scenario."""
    return to_yaml(scenario.model_dump(mode="json", by_alias=True, exclude_none=True))
