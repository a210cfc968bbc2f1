"""What is wrong with a scenario file, said so that it can be mended.

A `Finding` says what and at which path, without knowing the text; a `Problem`
is a finding with its place in the file, ready to be shown.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

Loc = tuple[str | int, ...]

_SHOWN = 60  # characters of a value that are worth repeating
_LISTED = 20  # names that are worth listing
_COMPARED = 1000  # names that a misspelt one is compared with


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to mend. `line` and `column` count from 1; line 0 means the file as a whole."""

    file: str
    line: int
    column: int
    path: str
    message: str
    found: str = ""
    allowed: str = ""
    hint: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        parts = [f"{self.path}: {self.message}" if self.path else self.message]
        if self.found:
            parts.append(f"found {self.found}")
        if self.allowed:
            parts.append(f"allowed {self.allowed}")
        if self.hint:
            parts.append(self.hint)
        return f"{place}: {'; '.join(parts)}"


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem before its place is known.

    `at_key`: it is the key that is wrong, not its value. `template`: which of
    the `${{` in the text at `loc` it is about, counted from 0. `wrong` and
    `names`: a name that is none of these; what is allowed and near follows
    from them, but only when it is shown, because comparing costs.
    """

    loc: Loc
    message: str
    found: str = ""
    allowed: str = ""
    hint: str = ""
    at_key: bool = False
    template: int | None = None
    wrong: str | None = None
    names: Collection[str] | None = None

    def at(self, file: str, line: int, column: int) -> Problem:
        """The finding as a problem at a place."""
        found, allowed, hint = self.found, self.allowed, self.hint
        if self.names is not None:
            found = found or shown(self.wrong)
            allowed = allowed or listed(self.names)
            hint = hint or near_miss(self.wrong, self.names)
        return Problem(file, line, column, path_of(self.loc), self.message, found, allowed, hint)


def path_of(loc: Loc) -> str:
    """A location as people write it: `checks[3].bytes.min`."""
    text = ""
    for part in loc:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def shown(value: object) -> str:
    """A value of the file as it is repeated in a message: short, on one line."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        cut = value if len(value) <= _SHOWN else value[:_SHOWN] + "..."
        return json.dumps(cut, ensure_ascii=not cut.isprintable())
    return str(value)[:_SHOWN]


def listed(names: Collection[str]) -> str:
    """The allowed values, in their own order; long lists are cut."""
    if not names:
        return "none, because nothing of that kind is declared"
    more = f", ... ({len(names)} in all)" if len(names) > _LISTED else ""
    return ", ".join(islice(names, _LISTED)) + more


def near_miss(found: object, names: Iterable[str]) -> str:
    """`did you mean X?` if one of the names is close to what was found."""
    if not isinstance(found, str):
        return ""
    candidates = [name[:_SHOWN] for name in islice(names, _COMPARED)]
    close = get_close_matches(found[:_SHOWN], candidates, n=1, cutoff=0.6)
    return f'did you mean "{close[0]}"?' if close else ""
