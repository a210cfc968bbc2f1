"""Which environment variables Python code reads while modules are imported."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import ItemsView, Iterator, ValuesView

_read: set[str] = set()

_Environment = os._Environ  # noqa: SLF001 - there is no other way to hear of what is read


class _Recording(_Environment[str]):
    """Notes each name that is asked for; what takes all of them asks for none."""

    def __getitem__(self, key: str) -> str:
        _read.add(key)
        return super().__getitem__(key)

    def copy(self) -> dict[str, str]:
        return {os.fsdecode(key): os.fsdecode(value) for key, value in os.environb.items()}

    def items(self) -> ItemsView[str, str]:
        return self.copy().items()

    def values(self) -> ValuesView[str]:
        return self.copy().values()


@contextmanager
def recorded() -> Iterator[set[str]]:
    """The set of names grows while this lasts."""
    _read.clear()
    os.environ.__class__ = _Recording
    try:
        yield _read
    finally:
        os.environ.__class__ = _Environment  # type: ignore[assignment]
