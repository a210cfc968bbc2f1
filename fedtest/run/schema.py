"""The JSON schema of `result.json`: `python -m fedtest.run.schema > docs/result.schema.json`.

Programs may rely on it: every key that is there is described, and there is no
other. What is said of a part is its docstring; a test compares the file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from inspect import cleandoc
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from fedtest.errors import ExitCode
from fedtest.run.result import Result

_NAMES = {"Mapping": Mapping, "ExitCode": ExitCode}
"""What result.py imports for the type checker only."""
_PLAIN = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    NoneType: "null",
}


def schema() -> dict[str, Any]:
    """A JSON Schema, draft 2020-12, of `result.json`."""
    definitions: dict[str, Any] = {}
    _type(Result, definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "result.json of a fedtest run",
        "$ref": f"#/$defs/{Result.__name__}",
        "$defs": definitions,
    }


def _type(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:  # noqa: PLR0911 - a form each
    if kind is Any:
        return {}
    if isinstance(kind, type) and is_dataclass(kind):
        if kind.__name__ not in definitions:
            definitions[kind.__name__] = {}  # Named first, should it contain itself.
            definitions[kind.__name__] = _object(kind, definitions)
        return {"$ref": f"#/$defs/{kind.__name__}"}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [item.value for item in kind]}
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    arguments = get_args(kind)
    origin = get_origin(kind)
    if origin is tuple:
        return {"type": "array", "items": _type(arguments[0], definitions)}
    if origin is UnionType:
        return {"anyOf": [_type(item, definitions) for item in arguments]}
    assert origin is Mapping, f"no schema of {kind}"  # noqa: S101 - the Result has no other
    return {"type": "object", "additionalProperties": _type(arguments[1], definitions)}


def _object(kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    hints = get_type_hints(kind, localns=_NAMES)
    names = [item.name for item in fields(kind)]
    return {
        "description": cleandoc(kind.__doc__ or ""),
        "type": "object",
        "properties": {name: _type(hints[name], definitions) for name in names},
        "required": names,
        "additionalProperties": False,
    }


def render() -> str:
    """The whole text of docs/result.schema.json."""
    return json.dumps(schema(), indent=2) + "\n"


if __name__ == "__main__":
    sys.stdout.write(render())
