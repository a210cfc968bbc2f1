"""docs/result.schema.json is what `result.json` really looks like."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from fedtest.engine.fake import Defects, FakeEngine
from fedtest.errors import EngineUnavailable
from fedtest.run.schema import render
from runs import Lab, scenario

DOCUMENT = Path(__file__).parents[2] / "docs" / "result.schema.json"
REPORTS = """echo 'fedtest-value {"name": "x", "value": NaN}'; exit 3"""
EXIT = "exit: {process: work, code: 0}"
FAULTS = """
faults:
  - {pause: {process: work}, when: {process: work, log: made}, for: 10ms, id: still}
  - {kill: {process: work}, when: still.healed}
"""


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = json.loads(DOCUMENT.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_the_document_is_generated() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text == render(), "python -m fedtest.run.schema > docs/result.schema.json"


@pytest.mark.parametrize(
    ("text", "defects", "verdict"),
    [
        (scenario("true", EXIT), Defects(), "passed"),
        (scenario(REPORTS, EXIT), Defects(), "failed"),
        (scenario("sleep 600", EXIT, extra=", deadline: 200ms"), Defects(), "failed"),
        (scenario("true"), Defects(realise=EngineUnavailable("gone", remedy="Start.")), "invalid"),
    ],
)
def test_results_of_runs_keep_to_it(
    tmp_path: Path,
    validator: jsonschema.Draft202012Validator,
    text: str,
    defects: Defects,
    verdict: str,
) -> None:
    result = Lab(tmp_path).run(text, FakeEngine(defects)).json("result.json")
    assert result["verdict"] == verdict
    validator.validate(result)


def test_a_result_with_faults_and_collected_files_keeps_to_it(
    tmp_path: Path, validator: jsonschema.Draft202012Validator
) -> None:
    made = tmp_path / "made"
    text = scenario(f"echo x > {made}; echo made; sleep 600", "exit: {process: work, signal: KILL}")
    collected = text.replace("eth0}}", f"eth0}}, collect: [{made}]}}")
    result = Lab(tmp_path / "runs").run(collected + FAULTS).json("result.json")
    assert [len(fault["found"]) for fault in result["faults"]] == [2, 1]
    assert [file["path"] for file in result["collected"]] == [str(made)]
    validator.validate(result)


@pytest.mark.parametrize(
    ("key", "value"), [("more", 1), ("verdict", "fine"), ("exit_code", 5), ("checks", [{}])]
)
def test_what_is_no_result_is_refused(
    tmp_path: Path, validator: jsonschema.Draft202012Validator, key: str, value: Any
) -> None:
    result = Lab(tmp_path).run(scenario("true", EXIT)).json("result.json")
    assert not validator.is_valid({**result, key: value})
