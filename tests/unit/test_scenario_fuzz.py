"""Any text gives a scenario or a ScenarioError; a scenario survives being written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from generated import repaired, scenario_data
from generated_choices import Random
from generated_makers import keys_used, parts_of
from generated_through import MEGABYTES, Through, forget_peak, peak_megabytes, send
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scenario_texts import BASE, GIVEN

from fedtest.errors import ScenarioError
from fedtest.plan import make_plan
from fedtest.scenario.load import Loaded, loads
from fedtest.scenario.model import Scenario
from fedtest.subnets import choose

if TYPE_CHECKING:
    from collections.abc import Iterator

QUICK = settings(
    max_examples=200,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def load_or_refuse(text: str) -> None:
    try:
        loaded = loads(text)
    except ScenarioError as refusal:
        problems = refusal.problems
    else:
        assert isinstance(loaded, Loaded)
        make_plan(loaded.scenario, choose(loaded.scenario, "run", ()))
        return
    assert problems
    for problem in problems:
        assert str(problem)
        assert 0 <= problem.line <= text.count("\n") + 1
        assert problem.column >= 0


# What YAML is made of, so that random texts get beyond the first character.
PIECES = st.one_of(
    st.sampled_from(":-?,[]{}&*!|>'\"%@`#~.$=a \n\t\\\0\x85"),
    st.sampled_from(["${{", "}}", "<<", "---", "...", "\n  ", "\n- ", ": ", "b: c", "&a", "*a"]),
)


@QUICK
@given(st.one_of(st.text(), st.lists(PIECES).map("".join)))
def test_any_text(text: str) -> None:
    load_or_refuse(text)


@st.composite
def mistyped(draw: st.DrawFn) -> str:
    """Values of the wrong type: lines stay whole, so that the model is reached."""
    lines = draw(st.sampled_from([BASE, GIVEN])).splitlines()
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(lines) - 1))
        key, colon, _ = lines[at].partition(": ")
        value = draw(
            st.sampled_from(["5", "x", "null", "true", "[a]", "{a: b}", "[{}]", "[[]]", '""'])
        )
        lines[at] = f"{key}{colon or ' '}{value}"
    return "\n".join(lines)


@QUICK
@given(mistyped())
def test_mistyped_scenarios(text: str) -> None:
    load_or_refuse(text)


# Together 2,000: those that hypothesis makes can be made smaller, the numbered
# ones cost half; `tox -e soak` goes through 100,000 of these.
DRAWN, NUMBERED, PARTS = 50, 450, 4
SLOW = pytest.mark.timeout(1200)  # each scenario has a deadline of its own: see `Through`


@pytest.fixture
def through() -> Iterator[Through]:
    forget_peak()
    through = Through()
    yield through
    through.close()
    assert peak_megabytes() < MEGABYTES


@SLOW
@pytest.mark.parametrize("part", range(PARTS))
def test_generated_and_mutated_scenarios(through: Through, part: int) -> None:
    send(through, DRAWN, seed=part)
    assert sum(through.outcomes.values()) >= DRAWN
    assert any("passed" in outcome for outcome in through.outcomes)


@SLOW
@pytest.mark.parametrize("part", range(PARTS))
def test_numbered_scenarios(through: Through, part: int) -> None:
    for number in range(part * NUMBERED, (part + 1) * NUMBERED):
        through.one(Random(number))
    assert sum(through.outcomes.values()) == NUMBERED
    assert 2 * through.outcomes["generated, passed"] > through.outcomes["generated, usage"]


RARE = {
    ("Fault", "partition"),
    ("PartitionFault", "network"),
    ("PartitionFault", "sides"),
    ("PartitionFault", "way"),
    ("Route", "to"),
    ("Route", "via"),
}
"""What needs several parts that fit together, which are drawn too seldom; other tests have them."""


def test_every_key_of_the_model_is_in_some_generated_scenario() -> None:
    """A new key that is not: does `generated.POOL` have a value that it takes?"""
    left = {(model.__name__, name) for model in parts_of(Scenario) for name in model.model_fields}
    left.discard(("Host", "count"))  # Followed before the model sees it; of many hosts each is one.
    left -= RARE
    anywhere = {"base": "/", "look": False}
    for number in range(800):
        # First whatever comes, then one after the other of what is left is asked for.
        wanted = {sorted(left)[number % len(left)]} if number > 60 else ()
        data = scenario_data(Random(number), wanted)
        if repaired(data, anywhere):
            scenario = Scenario.model_validate(data, context=anywhere)
            left.difference_update(keys_used(Scenario, scenario))
        if not left:
            break
    assert not left
