"""What all parts of the model share: strict, closed, frozen."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """A mapping of the scenario: no unknown keys, no conversions, no changes afterwards."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)
