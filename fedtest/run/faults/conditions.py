"""Measures changed links while processes run: beside their traffic, and in one direction.

Others' traffic can only add to a delay and to what is lost, and take from a
rate, so none of these may be less impaired than was asked for.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from fedtest.errors import NotAsPlanned
from fedtest.links import measure
from fedtest.links.tolerance import judge
from fedtest.links.ways import Ways
from fedtest.run.faults.passages import barred
from fedtest.run.faults.world import DEADLINE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fedtest.links.measure import Measurement
    from fedtest.links.tolerance import Measured
    from fedtest.plan import Plan
    from fedtest.run.faults.world import World
    from fedtest.scenario.faults import LinkFault

_MOST = 16
"""Ways that are measured; of more, the first so many."""


def measure_change(world: World, spec: LinkFault, before: Plan) -> str:
    """Measure the ways that are no longer as in `before`; what was found. NotAsPlanned."""
    old = Ways(before)
    wanted = [
        item
        for item in measure.measurements(world.now)
        if item.way.network == spec.network
        and not _barred(world, item)
        and old.way(item.way.network, item.way.sender, item.way.receiver).link != item.way.link
    ][:_MOST]
    if not wanted:
        return "read back"
    wrong = []
    count = 0
    for some in measure.rounds(wanted):
        for item, figures in _round(world, some):
            count += 1
            wrong += [f"{item}: {figure}" for figure in figures if not figure.fits]
    if wrong:
        raise NotAsPlanned("\n".join(wrong))
    return f"measured on {count} ways"


def _barred(world: World, item: Measurement) -> bool:
    """Whether the probe cannot come there and back because of other faults."""
    one, other, network = item.way.sender, item.way.receiver, item.way.network
    return not {one, other}.isdisjoint(world.off) or any(
        barred(world.now, network, *way, measure.PORT) for way in ((one, other), (other, one))
    )


def _round(world: World, some: list[Measurement]) -> Iterator[tuple[Measurement, list[Measured]]]:
    hosts = {item.way.receiver for item in some}
    engine, run = world.engine, world.run
    # A firewall would keep the probe out.
    engine.condition(run, dict.fromkeys(hosts, measure.let_in() + measure.serving()), DEADLINE)
    try:
        asked = {item.way.sender: measure.asking([item.order()]) for item in some}
        told = engine.condition(run, asked, DEADLINE)
    finally:
        done = measure.no_longer_serving() + "\n" + measure.keep_out()
        engine.condition(run, dict.fromkeys(hosts, done), DEADLINE)
    for item in some:
        answer = measure.answers(told[item.way.sender])
        yield item, [_one_sided(figure) for figure in judge(item, answer)]


def _one_sided(figure: Measured) -> Measured:
    if figure.what == "the rate":
        return replace(figure, low=0.0)
    return replace(figure, high=math.inf)
