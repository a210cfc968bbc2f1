"""docs/exit-codes.md has a section on every exit code and every verdict, and on nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fedtest.errors import ExitCode, FedtestError
from fedtest.run.result import Verdict

DOCUMENT = Path(__file__).parents[2] / "docs" / "exit-codes.md"


def sections(above: str) -> dict[str, str]:
    """Title -> text of the sections under a heading."""
    text = DOCUMENT.read_text(encoding="utf-8")
    part = re.split(r"^## ", text, flags=re.MULTILINE)
    (chosen,) = [piece for piece in part if piece.startswith(f"{above}\n")]
    pieces = re.split(r"^### (.*)$", chosen, flags=re.MULTILINE)
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


def test_every_verdict_has_its_section() -> None:
    assert list(sections("Verdicts")) == [verdict.value for verdict in Verdict]


def test_every_exit_code_has_its_section() -> None:
    assert list(sections("Exit codes")) == [
        f"{int(code)}: {code.name.lower()}" for code in ExitCode
    ]


@pytest.mark.parametrize("above", ["Verdicts", "Exit codes"])
def test_every_section_but_that_of_success_says_what_to_do(above: str) -> None:
    for title, text in sections(above).items():
        assert text.strip()
        if title.split(": ")[-1] not in {"passed", "failed", "interrupted"}:
            assert "**What to do:**" in text, title


def errors(base: type[FedtestError]) -> list[type[FedtestError]]:
    return [base, *(error for sub in base.__subclasses__() for error in errors(sub))]


@pytest.mark.parametrize("error", errors(FedtestError))
def test_every_error_leads_to_one_of_the_codes(error: type[FedtestError]) -> None:
    assert error.exit_code in ExitCode
    assert error.exit_code not in {ExitCode.PASSED, ExitCode.FAILED}
