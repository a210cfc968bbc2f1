"""Plain data as YAML text that reads back as the same data.

The YAML library's emitter loses some characters (U+0085 in a string comes back
as a line break); what a run did must be readable from its artifacts exactly.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from fedtest.scenario.scalars import resolve

if TYPE_CHECKING:
    from collections.abc import Iterator

# Strings that need no quotes: a cautious part of those that YAML allows.
_PLAIN = re.compile(r"[A-Za-z0-9/._$][A-Za-z0-9 /._$:;=+,@|&<>(){}\[\]!?*%~'\"\\-]*")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def to_yaml(data: dict[str, Any]) -> str:
    """A mapping of mappings, lists, strings, numbers and booleans, as a document."""
    return "".join(f"{line}\n" for line in _mapping(data))


def _mapping(data: dict[str, Any]) -> Iterator[str]:
    for key, value in data.items():
        first, *rest = _value(value)
        yield f"{_string(key)}:{first and ' '}{first}"
        yield from rest


def _value(value: Any) -> Iterator[str]:
    """The line that goes on after a key or a hyphen, which may be empty, and those below it."""
    if isinstance(value, dict) and value:
        yield ""
        yield from (f"  {line}" if line else line for line in _mapping(value))
    elif isinstance(value, list) and value:
        yield ""
        for item in value:
            yield from _item(item)
    elif isinstance(value, str) and _is_block(value):
        yield "|" if value.endswith("\n") else "|-"
        yield from (f"  {line}" if line else line for line in value.removesuffix("\n").split("\n"))
    else:
        yield _scalar(value)


def _item(item: Any) -> Iterator[str]:
    """An item of a list; a mapping begins on the hyphen's line."""
    lines = list(_mapping(item) if isinstance(item, dict) and item else _value(item))
    yield f"  - {lines[0]}" if lines[0] else "  -"
    yield from (f"    {line}" if line else line for line in lines[1:])


def _is_block(text: str) -> bool:
    """Whether it has lines that a literal block shows as they are."""
    lines = text.removesuffix("\n").split("\n")
    clean = all(line.isprintable() and line == line.strip() for line in lines)
    return len(lines) > 1 and clean and bool(lines[0]) and bool(lines[-1])


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dict, list)):
        return "{}" if isinstance(value, dict) else "[]"
    return _string(value) if isinstance(value, str) else str(value)


def _string(text: str) -> str:
    plain = _PLAIN.fullmatch(text) and ": " not in text and text[-1] not in " :"
    if plain and isinstance(resolve(text, plain=True, tag=None)[0], str):
        return text
    return '"' + "".join(_ESCAPES.get(char) or _escaped(char) for char in text) + '"'


def _escaped(char: str) -> str:
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\U{code:08x}"
