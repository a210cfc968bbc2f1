"""What was measured against what was asked for, in both directions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import quantiles
from typing import TYPE_CHECKING, Any

from fedtest.links.measure import lost_share

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fedtest.links.measure import Measurement

RATE = 0.05
DELAY, DELAY_SECONDS = 0.05, 0.001
DEVIATIONS = 4.0
"""Standard deviations of what chance allows: once in 16,000 it allows more."""
JITTER_LOW, JITTER_HIGH, JITTER_SECONDS = 0.3, 1.5, 0.002
_LEAST_TRIPS = 5
_LEAST_JITTER = 0.001


@dataclass(frozen=True, slots=True)
class Measured:
    """One figure: between `low` and `high` it is as asked for."""

    what: str
    low: float
    high: float
    found: float
    unit: str

    @property
    def fits(self) -> bool:
        """Whether it is as asked for."""
        return self.low <= self.found <= self.high

    def __str__(self) -> str:
        bounds = f"{self.low:.4g} to {self.high:.4g} {self.unit}"
        return f"{self.what} should be {bounds}, it is {self.found:.4g} {self.unit}"


def judge(item: Measurement, answer: Mapping[str, Any]) -> list[Measured]:
    """Every figure of an answer of the probe; one that is missing is nothing found."""
    order = item.order()
    found: list[Measured] = []
    if "round_trips" in order:
        found += _trips(item, [float(value) for value in answer.get("round_trips", ())])
    if "losses" in order:
        found += _losses(item, order["losses"]["count"], answer.get("losses", {}))
    if "rate" in order:
        found.append(_rate(item, float(answer.get("rate", {}).get("rate", 0.0))))
    return found


def _trips(item: Measurement, trips: list[float]) -> Iterator[Measured]:
    """What else a machine does can only add: the lower quartile is what the way takes.

    With jitter it is the median, because the lower quartile is drawn, too.
    """
    link, back = item.way.link, item.back.link
    wanted = (link.delay or 0) + (back.delay or 0)
    jitter = (link.jitter or 0) + (back.jitter or 0)
    if len(trips) < _LEAST_TRIPS:
        yield Measured("packets that come back", _LEAST_TRIPS, math.inf, len(trips), "packets")
        return
    lower, median, upper = quantiles(trips, n=4)
    typical = median if jitter else lower
    # Of few packets, each drawn anew, the median itself is drawn.
    chance = DEVIATIONS * 0.6 * jitter / math.sqrt(len(trips))
    slack = DELAY * wanted + chance
    yield Measured(
        "a round trip",
        round((wanted - slack) * 1000, 3),
        round((wanted + slack + DELAY_SECONDS) * 1000, 3),
        round(typical * 1000, 3),
        "ms",
    )
    if jitter >= _LEAST_JITTER:
        # Evenly drawn one way, half of the width lies between the quarters, which is the
        # jitter; drawn on both ways, 0.59 of the two jitters together.
        yield Measured(
            "the jitter of a round trip (the half in the middle)",
            round(JITTER_LOW * jitter * 1000, 3),
            round((JITTER_HIGH * jitter + JITTER_SECONDS) * 1000, 3),
            round((upper - lower) * 1000, 3),
            "ms",
        )


def _losses(item: Measurement, count: int, answer: Mapping[str, float]) -> Iterator[Measured]:
    link = item.way.link
    lost = lost_share(link)
    arrived = answer.get("distinct", 0)
    yield _by_chance("packets lost", lost, count, count - arrived)
    if link.duplicate:
        # Each copy takes its own chance of being lost, a pair is seen if both arrive.
        share = link.duplicate * (1 - lost) if lost else link.duplicate
        yield _by_chance("packets that arrive twice", share, int(arrived), answer.get("twice", 0))


def _by_chance(what: str, share: float, count: int, found: float) -> Measured:
    """A binomial's expectation and spread."""
    spread = DEVIATIONS * math.sqrt(count * share * (1 - share)) + 1
    low, high = max(count * share - spread, 0), min(count * share + spread, count)
    return Measured(f"{what} of {count}", round(low, 1), round(high, 1), found, "packets")


def _rate(item: Measurement, found: float) -> Measured:
    """In bits on the wire; what is lost on the way was sent, too."""
    rate = item.way.link.rate or 0
    wanted = rate * (1 - lost_share(item.way.link))
    return Measured(
        "the rate",
        wanted * (1 - RATE) / 1e6,
        wanted * (1 + RATE) / 1e6,
        round(found / 1e6, 4),
        "Mbit/s",
    )
