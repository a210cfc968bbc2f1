"""Texts of scenarios that something has happened to: to their bytes, or to what they say."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generated import repaired, scenario_data
from generated_choices import POOL, Random

from fedtest.scenario.docs import EXAMPLE
from fedtest.scenario.load import dump
from fedtest.scenario.model import Scenario
from fedtest.scenario.source import parse_leniently

if TYPE_CHECKING:
    from generated_choices import Choices

BASE = Path(__file__).parents[2]
"""Where paths begin: a directory with a Dockerfile."""
CONTEXT = {"base": BASE, "look": True}

# What YAML is made of, so that what comes of a mutation is often YAML again.
PIECES = (
    *":-?,[]{}&*!|>'\"%@`#~.$=a \n\t\\\0\x85",
    *("${{", "}}", "<<", "---", "...", "\n  ", "\n- ", ": ", "b: c", "&a ", "*a", "!!str ", "!x "),
    *("null", "[]", "{}", "5", "true", "-1", "1e999", ".nan", '""', "|-\n", "? ", "\r\n", "\ufeff"),
)
BYTES = (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\0", b"\x80", b"\xf4\x90\x80\x80", b"\r")

_VALUES = (
    *POOL, *(None, float("nan"), float("inf"), -(10**30), 10**19, 1e308, "", "x" * 40_000),
    *([], {}, [[]], [{}], {"a": {}}, [None], {"": ""}, {"\u2028": "\ud7ff"}, ["a", "a"]),
)  # fmt: skip
_LONG = 8000
_KEYS = ("", "a", "A", "-", "x" * 500, "image", "build", "from", "fedtest", "<<", "a b", "\0")


def generated_text(choices: Choices) -> tuple[str, bool]:
    """A scenario of the generator as it is written; whether it is a valid one."""
    data = scenario_data(choices)
    if repaired(data, CONTEXT):
        scenario = Scenario.model_validate(data, context=CONTEXT)
        return dump(scenario), True
    return json.dumps(data), False


@cache
def bases() -> tuple[str, ...]:
    """What is mutated: scenarios that ship, the documentation's, and some generated ones."""
    shipped = [
        path.read_text(encoding="utf-8") for path in sorted((BASE / "scenarios").glob("*.yaml"))
    ]
    made = [generated_text(Random(seed)) for seed in range(60)]
    # Of a long one most is the same again, and reading it takes the time of ten others.
    return (EXAMPLE, *shipped, *(text for text, valid in made if valid and len(text) < _LONG))


def mutated_bytes(choices: Choices) -> bytes:
    """A few places cut, doubled, exchanged, or made of something else."""
    found = bases()
    raw = found[choices.below(len(found))].encode()
    for _ in range(1 + choices.below(3)):
        start = choices.below(len(raw) + 1)
        end = min(len(raw), start + choices.below(12))
        kind = choices.below(6)
        if kind == 0:
            piece = b""
        elif kind == 1:
            piece = raw[start:end] * 2
        elif kind == 2:
            other = choices.below(len(raw) + 1)
            piece = raw[other : other + choices.below(200)]
        elif kind == 3:
            piece = BYTES[choices.below(len(BYTES))]
        elif kind == 4:
            piece = bytes([choices.below(256)])
        else:
            piece = PIECES[choices.below(len(PIECES))].encode("utf-8", "surrogatepass")
        raw = raw[:start] + piece + raw[end:]
    return raw


def mutated_structure(choices: Choices) -> bytes:
    """The text is whole, what it says is not: values of other kinds, in other places."""
    found = bases()
    data: dict[str, Any] = json.loads(_as_json(found[choices.below(len(found))]))
    for _ in range(1 + choices.below(4)):
        holder, key = _somewhere(data, choices)
        kind = choices.below(6) if choices.below(20) else 6
        if kind == 0:
            del holder[key]
        elif kind == 1:
            holder[key] = _VALUES[choices.below(len(_VALUES))]
        elif kind == 2:
            other, at = _somewhere(data, choices)
            holder[key] = json.loads(json.dumps(other[at]))
        elif kind == 3 and isinstance(holder, dict):
            holder[_KEYS[choices.below(len(_KEYS))]] = holder.pop(key)
        elif kind == 4:
            holder[key] = [holder[key]] * (1 + choices.below(3))
        elif kind == 6:
            # Far more of it than anybody means, or deeper.
            holder[key] = _much(holder[key], choices)
        else:
            holder[key] = choices.text()
    if choices.below(3) == 0:
        repaired(data, CONTEXT)  # What is left is mostly a scenario that nobody would write.
    return json.dumps(data, ensure_ascii=bool(choices.below(2))).encode("utf-8", "surrogatepass")


@cache
def _as_json(text: str) -> str:
    return json.dumps(parse_leniently(text, "base")[0].data)


def _somewhere(data: dict[str, Any], choices: Choices) -> tuple[Any, Any]:
    """A place in the tree: what holds it, and its key or index there."""
    holder, key = data, _key(data or {"": None}, choices)
    data.setdefault(key, None)
    while isinstance(inner := holder[key], (dict, list)) and inner and choices.below(4):
        holder, key = inner, _key(inner, choices)
    return holder, key


def _key(inner: Any, choices: Choices) -> Any:
    at = choices.below(len(inner))
    return list(inner)[at] if isinstance(inner, dict) else at


def _much(value: Any, choices: Choices) -> Any:
    count = (40, 300, 1001)[choices.below(3)]
    kind = choices.below(4)
    if kind == 0:
        for _ in range(min(count, 300)):
            value = [value]
        return value
    if kind == 1:
        return [value] * count
    if kind == 2:
        return {f"n{number}": value for number in range(count)}
    return f"{value} ${{{{ seed }}}}" * count
