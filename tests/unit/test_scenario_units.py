"""Durations, sizes and comparisons: what is read, what is written, what holds."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from fedtest.scenario.comparison import Comparison, parse_comparison
from fedtest.scenario.units import format_duration, format_size, parse_duration, parse_size

QUICK = settings(max_examples=200, deadline=None, database=None)


@pytest.mark.parametrize(
    ("text", "seconds", "canonical"),
    [
        ("500ms", 0.5, "500ms"),
        ("10s", 10.0, "10s"),
        ("90s", 90.0, "90s"),
        ("120s", 120.0, "2m"),
        ("1h", 3600.0, "1h"),
        ("1.5s", 1.5, "1500ms"),
        ("0.25ms", 0.00025, "0.25ms"),
        ("0.000001s", 0.000001, "0.001ms"),
        ("10 s", 10.0, "10s"),
        ("720h", 2_592_000.0, "720h"),
    ],
)
def test_durations(text: str, seconds: float, canonical: str) -> None:
    assert parse_duration(text) == seconds
    assert format_duration(seconds) == canonical


@pytest.mark.parametrize(
    ("text", "count", "canonical"),
    [
        ("0B", 0, "0B"),
        ("1500B", 1500, "1500B"),
        ("100kB", 100_000, "100kB"),
        ("5MB", 5_000_000, "5MB"),
        ("1MiB", 1_048_576, "1MiB"),
        ("1.5KiB", 1536, "1536B"),
        ("2GB", 2_000_000_000, "2GB"),
        ("1GiB", 1_073_741_824, "1GiB"),
        ("1024KiB", 1_048_576, "1MiB"),
    ],
)
def test_sizes(text: str, count: int, canonical: str) -> None:
    assert parse_size(text) == count
    assert format_size(count) == canonical


@pytest.mark.parametrize(
    "value", ["", "s", "10", "10 min", "-5s", "1e3s", "\u0661s", "1,5s", None, True, []]
)
def test_no_durations(value: object) -> None:
    with pytest.raises(PydanticCustomError):
        parse_duration(value)


@QUICK
@given(st.integers(1, 2_592_000_000_000))
def test_a_duration_written_out_is_the_same_duration(micros: int) -> None:
    assert parse_duration(format_duration(micros / 1e6)) == micros / 1e6


@QUICK
@given(st.integers(0, 10**14))
def test_a_size_written_out_is_the_same_size(count: int) -> None:
    assert parse_size(format_size(count)) == count


@pytest.mark.parametrize(
    ("text", "holding", "not_holding"),
    [
        (">= 0.97", [0.97, 1, 2.5], [0.96, math.nan, "0.98", None, True]),
        (">0", [1, 0.1], [0, -1]),
        ("<= 5", [5, 4.5], [5.1]),
        ("< 5", [4], [5]),
        ("== 3", [3, 3.0], [4, "3", True]),
        ("== -1e-3", [-0.001], [0]),
        ("!= 0", [1, "x", None, False, math.nan], [0, 0.0]),
        ("== done", ["done"], ["undone", 1]),
        ("== two words", ["two words"], ["two"]),
        ('== "3"', ["3"], [3]),
        ('== ""', [""], ["x", None]),
        ("== true", [True], [1, "true", False]),
        ("!= null", [0, ""], [None]),
        ('== "true"', ["true"], [True]),
    ],
)
def test_comparisons(text: str, holding: list[object], not_holding: list[object]) -> None:
    comparison = parse_comparison(text)
    for value in holding:
        assert comparison.holds(value), value
    for value in not_holding:
        assert not comparison.holds(value), value
    assert parse_comparison(str(comparison)) == comparison


@pytest.mark.parametrize(
    "text",
    ["", "0.97", ">=", "= 5", "~ 5", "> abc", "< true", '== "open', "== 1e999", 5, None, [">= 1"]],
)
def test_no_comparisons(text: object) -> None:
    with pytest.raises(PydanticCustomError):
        parse_comparison(text)


@QUICK
@given(st.sampled_from(["==", "!="]), st.text(st.characters(exclude_categories=["Cs"])))
def test_a_comparison_with_any_string_reads_back(sign: str, operand: str) -> None:
    comparison = Comparison(sign, operand)
    assert parse_comparison(str(comparison)) == comparison
