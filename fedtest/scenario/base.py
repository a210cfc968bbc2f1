"""What all parts of the model share: strict, closed, frozen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, BeforeValidator, ConfigDict

from fedtest.scenario.refusal import refuse

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo


MOST = 1000
"""Of a kind; more are a mistake, or meant to hurt."""

STRING, LIST, MAPPING = FORMS = ("\0string", "\0list", "\0mapping")
"""Tags of unions: they appear in pydantic's locations, and NUL cannot be in a key of the file."""


class Part(BaseModel):
    """A mapping of the scenario: no unknown keys, no conversions, no changes afterwards."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    @classmethod
    def by_key(cls) -> dict[str, FieldInfo]:
        """Its fields as the file calls them: `from` cannot be a name in Python."""
        return {field.alias or name: field for name, field in cls.model_fields.items()}


def exactly_one(part: Part, *names: str) -> None:
    """Refuses a part that has not exactly one of the keys."""
    there = [name for name in names if getattr(part, name) is not None]
    if len(there) != 1:
        found = f"both {' and '.join(there)}" if there else f"none of {', '.join(names)}"
        raise refuse(found, allowed=f"exactly one of {', '.join(names)}")


def at_least_one(part: Part, *names: str) -> None:
    """Refuses a part that has none of the keys."""
    if all(getattr(part, name) is None for name in names):
        listed = ", ".join(names)
        raise refuse(f"none of {listed}", allowed=f"at least one of {listed}")


def short(key: str) -> BeforeValidator:
    """A string is short for a mapping with one key."""
    return BeforeValidator(lambda value: value if isinstance(value, (dict, Part)) else {key: value})
