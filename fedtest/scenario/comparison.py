"""`each: ">= 0.97"`: one comparison with a number or a string, and nothing more."""

from __future__ import annotations

import json
import math
import operator
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from fedtest.scenario.refusal import refuse

if TYPE_CHECKING:
    from collections.abc import Callable

Value = float | int | str | bool | None

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    ">": operator.gt,
    "<=": operator.le,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}
_FORM = re.compile(r"\s*(>=|<=|==|!=|>|<)\s*(\S(?:.*\S)?)\s*", re.DOTALL)
_NUMBER = re.compile(
    r"[-+]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][-+]?[0-9]{1,3})?"
)
_WORDS: dict[str, Value] = {"true": True, "false": False, "null": None}
_ALLOWED = '">= 0.97": one of >= > <= < == != and a number; == and != also with a string'


@dataclass(frozen=True, slots=True)
class Comparison:
    """A sign and what is on its right."""

    sign: str
    operand: Value

    def holds(self, value: Value) -> bool:
        """Whether `value` satisfies it. A value of another kind is unequal, and never in order."""
        if _kind(value) != _kind(self.operand):
            return self.sign == "!="
        return _COMPARE[self.sign](value, self.operand)

    def __str__(self) -> str:
        operand = self.operand
        if not isinstance(operand, str):
            return f"{self.sign} {json.dumps(operand)}"
        bare = _FORM.fullmatch(f"== {operand}")
        needs_quotes = not bare or bare[2] != operand or operand[0] == '"'
        quoted = needs_quotes or not isinstance(_operand(operand), str)
        return f"{self.sign} {json.dumps(operand) if quoted else operand}"


def _kind(value: Value) -> str:
    if value is None or isinstance(value, (bool, str)):
        return type(value).__name__
    return "number"


def _operand(text: str) -> Value:
    """A number, a word of JSON, a string in quotes, or the text itself."""
    if text in _WORDS:
        return _WORDS[text]
    if _NUMBER.fullmatch(text):
        return int(text) if re.fullmatch(r"[-+]?[0-9]+", text) else float(text)
    if text[:1] == '"':
        try:
            value = json.loads(text)
        except ValueError as error:
            raise refuse("quotes that do not close", allowed=_ALLOWED) from error
        assert isinstance(value, str)  # noqa: S101 - it begins with a quotation mark
        return value
    return text


def parse_comparison(text: Any) -> Comparison:
    """`text` as a comparison; raises the error that pydantic and `wording` understand."""
    match = _FORM.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise refuse("not a comparison", allowed=_ALLOWED)
    sign, operand = match[1], _operand(match[2])
    if isinstance(operand, float) and not math.isfinite(operand):
        raise refuse("a number that is not finite", allowed=_ALLOWED)
    if sign not in ("==", "!=") and _kind(operand) != "number":
        raise refuse(f"{sign} needs a number on its right", allowed=_ALLOWED)
    return Comparison(sign, operand)


Compared = Annotated[
    Comparison,
    PlainValidator(parse_comparison),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "title": "comparison"}),
]


@dataclass(frozen=True, slots=True)
class Counted:
    """A comparison with a number; a number alone means that very one."""

    comparison: Comparison

    @property
    def number(self) -> float:
        """What it compares with."""
        operand = self.comparison.operand
        assert isinstance(operand, (int, float))  # noqa: S101 - `parse_count` looked
        return operand

    def holds(self, value: float) -> bool:
        """Whether `value` satisfies it."""
        return self.comparison.holds(value)

    def __str__(self) -> str:
        same = self.comparison.sign == "=="
        return str(self.comparison.operand) if same else str(self.comparison)


def parse_count(value: Any) -> Counted:
    """A whole number or a comparison with one."""
    if type(value) is int and abs(value) < 10**18:
        return Counted(Comparison("==", value))
    comparison = parse_comparison(value) if _is_comparison(value) else None
    if comparison is None or type(comparison.operand) is not int:
        allowed = 'a whole number, or a comparison with one: ">= 3"'
        raise refuse("not a whole number, nor a comparison with one", allowed=allowed)
    return Counted(comparison)


def _is_comparison(value: Any) -> bool:
    return isinstance(value, str) and _FORM.fullmatch(value) is not None


def _plain_count(count: Counted) -> int | str:
    return int(count.number) if count.comparison.sign == "==" else str(count)


Count = Annotated[
    Counted,
    PlainValidator(parse_count),
    PlainSerializer(_plain_count),
    WithJsonSchema({"type": "string", "title": "whole number or comparison"}),
]
