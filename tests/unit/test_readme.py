"""The README's first own scenario is the one in examples/two, and a scenario."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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
