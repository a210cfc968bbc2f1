"""What became of a fault."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class FaultState:
    """When a fault was to happen, and when it was seen to be in effect and to be over.

    All in seconds since the run began, in order; a fault that is repeated has several.
    `found`: what was measured each time.
    """

    asked: list[float] = field(default_factory=list)
    applied: list[float] = field(default_factory=list)
    healed: list[float] = field(default_factory=list)
    found: list[str] = field(default_factory=list)

    def first(self, state: str, start: float = 0.0) -> float | None:
        """When it first was `applied` or `healed`, at `start` or later."""
        times: list[float] = getattr(self, state)
        return next((at for at in times if at >= start), None)
