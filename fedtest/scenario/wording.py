"""pydantic's errors in our words: what is wrong, what was found, what is allowed."""

from __future__ import annotations

from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from fedtest.scenario import refusal
from fedtest.scenario.base import FORMS, Part
from fedtest.scenario.model import Scenario
from fedtest.scenario.problems import Finding, shown

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

    from fedtest.scenario.problems import Loc

_TYPES = {
    "string_type": "a string",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "tuple_type": "a list",
    "list_type": "a list",
}
_BOUNDS = {
    "greater_than_equal": ("too small", "at least {ge}"),
    "greater_than": ("too small", "more than {gt}"),
    "less_than_equal": ("too large", "at most {le}"),
    "less_than": ("too large", "less than {lt}"),
    "too_short": ("too few items", "at least {min_length}"),
    "too_long": ("too many items", "at most {max_length}"),
    "string_too_short": ("too short", "at least {min_length} characters"),
    "string_too_long": ("too long", "at most {max_length} characters"),
    "string_pattern_mismatch": ("nothing but white space", "a command"),
}
_LIMITS = {
    "greater_than_equal": "ge",
    "greater_than": "gt",
    "less_than_equal": "le",
    "less_than": "lt",
}


def findings(error: ValidationError) -> list[Finding]:
    """One finding for each of pydantic's errors."""
    return [_finding(item) for item in error.errors(include_url=False)]


def _finding(item: ErrorDetails) -> Finding:  # noqa: PLR0911 - a kind of error each
    loc: Loc = tuple(part for part in item["loc"] if part not in FORMS)
    kind, value = item["type"], item["input"]
    context: dict[str, Any] = item.get("ctx", {})
    at_key = len(loc) > 1 and loc[-1] == "[key]"
    if at_key:
        loc = loc[:-1]
    if kind == refusal.TYPE:
        found = "" if isinstance(value, (dict, Part)) else shown(value)
        return Finding(
            loc, context["message"], found, context["allowed"], context["hint"], at_key=at_key
        )
    if kind == "missing":
        return Finding(loc, "a required key is missing", hint=_describe(loc))
    if kind == "extra_forbidden":
        names = tuple(_model_at(loc[:-1]).by_key())
        return Finding(loc, "an unknown key", at_key=True, wrong=str(loc[-1]), names=names)
    if kind in _TYPES:
        return Finding(loc, f"not {_TYPES[kind]}", shown(value), _TYPES[kind], _hint(kind, value))
    if kind == "literal_error":
        expected = str(context["expected"]).replace("'", "")
        return Finding(
            loc, "not one of the values it can have", shown(value), expected, at_key=at_key
        )
    if kind in _BOUNDS:
        message, allowed = (text.format(**context) for text in _BOUNDS[kind])
        found = str(len(value)) if isinstance(value, (dict, list, tuple)) else shown(value)
        return Finding(loc, message, found, allowed)
    if kind == "finite_number":
        return Finding(loc, "a number that is not finite", shown(value), _range(loc))
    return Finding(loc, item["msg"], shown(value))


def _range(loc: Loc) -> str:
    """The least and the greatest that a number can be."""
    bounds = _model_at(loc[:-1]).by_key()[str(loc[-1])].metadata
    said = [
        _BOUNDS[kind][1].format(**{key: getattr(bound, key)})
        for bound in bounds
        for kind, key in _LIMITS.items()
        if hasattr(bound, key)
    ]
    return " and ".join(said) or "a finite number"


def _hint(kind: str, value: object) -> str:
    if kind == "string_type" and isinstance(value, (bool, int, float)):
        return f'in quotes it is a string: "{shown(value)}"'
    if value is None and _TYPES[kind] == "a mapping":
        return "an empty mapping is written {}"
    if kind == "bool_type" and value in ("yes", "no", "on", "off"):
        return f"YAML 1.2 knows only true and false; {value} is a string"
    return ""


def _describe(loc: Loc) -> str:
    """What a missing key is for: the first sentence of its description."""
    description = _model_at(loc[:-1]).by_key()[str(loc[-1])].description or ""
    return description.partition(". ")[0].rstrip(".")


def _model_at(loc: Loc) -> type[Part]:
    """The model of the mapping at `loc`."""
    current: Any = Scenario
    for part in loc:
        if isinstance(current, type) and issubclass(current, Part):
            if isinstance(part, int):
                continue  # In a list, where one such mapping is allowed as well.
            current = current.by_key()[str(part)].annotation
        else:  # a dict's values, a tuple's items
            current = get_args(current)[-1 if get_origin(current) is dict else 0]
        current = _bare(current)
    assert issubclass(current, Part)  # noqa: S101 - these errors are about mappings only
    model: type[Part] = current
    return model


def _bare(annotation: Any) -> Any:
    """An annotation without `Annotated` and `| None`."""
    options = get_args(annotation)
    if get_origin(annotation) is Annotated:
        return _bare(options[0])
    if type(None) in options:
        return _bare(next(item for item in options if item is not type(None)))
    # Of the forms that something can have, the mapping is the one with keys.
    if get_origin(annotation) in {Union, UnionType}:
        bare = [_bare(item) for item in options]
        return next(
            (item for item in bare if isinstance(item, type) and issubclass(item, Part)),
            annotation,
        )
    return annotation
