"""What a check found, and how hosts are told of in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass
class Finding:
    """`expected` and `found` are for a person; `details` are further lines.

    `unknown`: there is nothing yet to judge by, which while processes run means nothing.
    """

    passed: bool
    expected: str
    found: str
    details: list[str] = field(default_factory=list)
    unknown: bool = False


def by_host(items: Mapping[str, object]) -> str:
    """One text where all hosts have the same, else each host's own."""
    texts = {host: str(item) for host, item in items.items()}
    if not texts:
        return "nothing"
    if len(set(texts.values())) == 1 and len(texts) > 1:
        return f"{next(iter(texts.values()))} on all {len(texts)} hosts"
    return ", ".join(f"{host}: {text}" for host, text in texts.items())
