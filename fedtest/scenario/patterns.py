"""Regular expressions of a scenario, by RE2.

RE2 takes time linear in the text, whatever the expression: no line that a
process prints can stall a run, and no expression needs to be judged as risky.
The price is that it has no look-around and no back-references.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any

import re2
from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from fedtest.scenario.refusal import refuse

_LONGEST = 1000
_MEMORY = 1 << 20
_ALLOWED = "a regular expression as RE2 knows them: no look-around, no back-references"


@lru_cache(maxsize=1024)
def compiled(text: str) -> Any:
    """The expression, ready to search strings; raises re2.error."""
    options = re2.Options()
    options.log_errors = False  # It would write them to our standard error.
    options.max_mem = _MEMORY
    return re2.compile(text, options=options)


def groups(text: str) -> list[str]:
    """The named groups of an expression that is right."""
    return list(compiled(text).groupindex)


def parse_pattern(value: Any) -> str:
    """`value`, if it is an expression; raises the error that pydantic and `wording` understand."""
    if not isinstance(value, str):
        raise refuse("not a string", allowed=_ALLOWED)
    if not value or len(value) > _LONGEST:
        raise refuse("empty, or too long", allowed=f"1 to {_LONGEST} characters")
    try:
        compiled(value)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        said = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise refuse(f"not a regular expression: {said}", allowed=_ALLOWED) from error
    return value


Pattern = Annotated[
    str,
    PlainValidator(parse_pattern),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "title": "regular expression"}),
]
