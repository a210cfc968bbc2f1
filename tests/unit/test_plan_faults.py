"""The timeline: the same seed gives the same one, and what is drawn is drawn for each time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st
from scenario_texts import BASE

from pretend_links import plan_of

if TYPE_CHECKING:
    from fedtest.plan_faults import FaultPlan

QUICK = settings(max_examples=50, deadline=None, database=None)
DRAWN = (
    "pause: {process: trainer, host: {any: ring}}, at: 1s..60s, for: 1s..9s,"
    " repeat: {times: 20, every: 10s..20s}"
)
ANOTHER = "cut: {network: data}, at: 5s..50s, for: 1s..9s"


def timeline(*faults: str, seed: int = 7) -> tuple[FaultPlan, ...]:
    listed = "".join(f"  - {{{fault}}}\n" for fault in faults)
    return plan_of(f"{BASE}seed: {seed}\nfaults:\n{listed}").faults


@QUICK
@given(st.integers(0, 2**31))
def test_the_same_seed_gives_the_same_timeline_and_another_seed_another(seed: int) -> None:
    assert timeline(DRAWN, ANOTHER, seed=seed) == timeline(DRAWN, ANOTHER, seed=seed)
    one, other = (
        [fault.turns for fault in timeline(DRAWN, ANOTHER, seed=at)] for at in (seed, seed + 1)
    )
    assert one[0] != other[0]
    assert one[1] != other[1]


def test_it_is_the_same_everywhere_and_for_ever() -> None:
    """The numbers themselves: a seed that somebody wrote down keeps its meaning."""
    (fault,) = timeline(ANOTHER, seed=1)
    assert [(turn.after, turn.lasts) for turn in fault.turns] == [(27.264, 5.999)]


def test_one_more_fault_leaves_the_others_as_they_were() -> None:
    one = timeline(f"{DRAWN}, id: drawn", f"{ANOTHER}, id: another")
    more = timeline("stop: {host: c}, at: 1s..9s", f"{DRAWN}, id: drawn", f"{ANOTHER}, id: another")
    assert more[1:] == one
    assert timeline(DRAWN, ANOTHER)[0] == timeline(DRAWN)[0]


def test_two_alike_faults_do_not_come_at_the_same_time() -> None:
    one, other = timeline(ANOTHER, ANOTHER)
    assert one.turns != other.turns


def test_hosts_and_ranges_are_drawn_anew_each_time() -> None:
    (fault,) = timeline(DRAWN)
    assert len(fault.turns) == 20
    assert {turn.hosts for turn in fault.turns} == {("a",), ("b",)}
    first, *others = fault.turns
    assert 1 <= first.after <= 60
    assert all(10 <= turn.after <= 20 for turn in others)
    assert all(turn.lasts is not None and 1 <= turn.lasts <= 9 for turn in fault.turns)
    assert len({turn.after for turn in others}) > 15
    assert len({turn.lasts for turn in fault.turns}) > 15


def test_what_leaves_no_choice_is_not_drawn() -> None:
    (fault,) = timeline("stop: {host: a}, at: 5s, for: 2s, repeat: {times: 3, every: 9s}")
    assert [(turn.after, turn.lasts) for turn in fault.turns] == [(5, 2), (9, 2), (9, 2)]


def test_whom_a_fault_is_about() -> None:
    found = timeline(
        "kill: {process: trainer}, at: 1s",
        "kill: {process: other, host: c}, at: 1s",
        "pause: {host: b}, at: 1s",
        "cut: {network: data}, at: 1s",
    )
    assert [fault.turns[0].hosts for fault in found] == [("a", "b"), ("c",), ("b",), ()]
    assert [fault.id for fault in found] == ["kill-1", "kill-2", "pause-3", "cut-4"]


def test_without_at_it_comes_at_once_and_without_for_it_stays() -> None:
    (fault,) = timeline("stop: {host: a}, when: {host: a, log: x}")
    assert (fault.turns[0].after, fault.turns[0].lasts) == (0, None)
