"""Progress that a process reports: shown, and never a reason for anything."""

from __future__ import annotations

import pytest

from fedtest import values


def test_progress_is_read_as_it_was_reported(capsys: pytest.CaptureFixture[str]) -> None:
    values.progress(120, 480)
    line = capsys.readouterr().out
    assert line == 'fedtest-progress {"done": 120, "total": 480}\n'
    assert values.parse_progress(line.strip()) == 0.25
    assert values.parse(line) is None


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ('{"done": 9, "total": 3}', 1.0),
        ('{"done": -1, "total": 3}', 0.0),
        ('{"done": 1, "total": 0}', None),
        ('{"done": 1e308, "total": 1e-308}', None),
        ('{"done": "x", "total": 3}', None),
        ('{"done": NaN, "total": 3}', None),
        ("[]", None),
        ("half", None),
        ("[" * 100_000, None),
    ],
)
def test_progress_that_cannot_be_is_not_shown(text: str, share: float | None) -> None:
    assert values.parse_progress(values.PROGRESS + text) == share


def test_a_line_of_something_else_is_no_progress() -> None:
    assert values.parse_progress("done 1 of 4") is None
