"""How a validator of the model refuses a value: in our words, with what is allowed."""

from __future__ import annotations

from pydantic_core import PydanticCustomError

TYPE = "fedtest"


def refuse(message: str, *, allowed: str = "", hint: str = "") -> PydanticCustomError:
    """The error to raise; pydantic adds where it was, `wording` what was found."""
    # The message travels as data: in the template, braces would be placeholders.
    context = {"message": message, "allowed": allowed, "hint": hint}
    return PydanticCustomError(TYPE, "{message}", context)
