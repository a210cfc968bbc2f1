"""Scenarios made from the model itself: from its fields, their types and their bounds.

A new part or kind is covered without a word here as long as `POOL` has a value
that it accepts; `test_scenario_fuzz` tells which field has none. What fits
together is found by trying: parts are validated as they are made, and what the
model or the references refuse is taken out again.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, get_args

from generated_choices import World
from generated_makers import field_maker, key_title, maker_of, ways_to
from pydantic import ValidationError

from fedtest.scenario import references, wording
from fedtest.scenario.counted import Counted
from fedtest.scenario.draft import Draft
from fedtest.scenario.model import Scenario

if TYPE_CHECKING:
    from collections.abc import Collection

    from generated_choices import Choices
    from generated_makers import Key, Maker

Context = dict[str, Any]
"""Where a scenario's file is, as `load.loads` tells the model: `base` and `look`."""


def scenario_data(choices: Choices, wanted: Collection[Key] = ()) -> dict[str, Any]:
    """Plain data of a scenario, most of the time a valid one; with the keys `wanted` if it can."""
    world = World(choices, ways_to(wanted) if wanted else frozenset())
    for name, info in Scenario.model_fields.items():
        title = key_title(info)
        if title is not None:
            least = 1 if info.is_required() else 0
            letters = "abcd" if name == "hosts" else "mnop"
            # None at all now and then.
            count = max(least, (choices.below(8) + 2) // 3)
            world.names[title] = [f"{letters[at]}-{name[:-1]}" for at in range(count)]
    data: dict[str, Any] = {}
    for name, info in Scenario.by_key().items():
        title, maker = key_title(info), _makers()[name]
        if title is not None:
            data[name] = {key: maker(world) for key in world.names[title]}
        elif maker is not None and (info.is_required() or choices.below(2)):
            data[name] = maker(world)
    return data


@cache
def _makers() -> dict[str, Maker]:
    """Of each top-level key; of a section, what makes one of its parts."""
    return {
        name: field_maker(info)
        if key_title(info) is None
        else maker_of(get_args(info.annotation)[1], ())
        for name, info in Scenario.by_key().items()
    }


def repaired(data: dict[str, Any], context: Context) -> bool:
    """Takes out of the data what is refused; whether a valid scenario is left."""
    for _ in range(60):
        wrong = [finding.loc for finding in _findings(data, context)]
        if not wrong:
            return True
        # Of one list the last first, so that the others keep their places.
        _one_image(data)
        for loc in sorted(set(wrong), key=lambda loc: [str(part).rjust(9) for part in loc])[::-1]:
            if not _take_out(data, loc):
                return False
    return False


def _one_image(data: dict[str, Any]) -> None:
    """Of image and build one stays: what is refused is the whole that has both."""
    hosts = data.get("hosts")
    for part in (data, *(hosts.values() if isinstance(hosts, dict) else ())):
        if isinstance(part, dict) and "build" in part:
            part.pop("image", None)


def _findings(data: dict[str, Any], context: Context) -> list[Any]:
    counted = Counted.of(data)
    try:
        scenario = Scenario.model_validate(counted.data, context=context)
    except ValidationError as error:
        found = wording.findings(error)
    else:
        found = list(references.findings(Draft.of(scenario)))
    return [*counted.findings, *counted.origin(found)]


def _take_out(data: Any, loc: tuple[str | int, ...]) -> bool:
    """Removes the node at `loc`, or the nearest one above; False at the root."""
    above: list[tuple[Any, str | int]] = []
    current = data
    for part in loc:
        there = part in current if isinstance(current, dict) else (
            isinstance(current, list) and isinstance(part, int) and part < len(current)
        )  # fmt: skip
        if not there:
            break
        above.append((current, part))
        current = current[part]
    if not above:
        return False
    holder, key = above[-1]
    del holder[key]
    return True
