"""Subnets of our own: small, disjoint, the same for the same run, others for another."""

from __future__ import annotations

from ipaddress import IPv4Network
from itertools import combinations
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtest.errors import ExitCode, InvalidError
from fedtest.scenario.load import loads
from fedtest.subnets import POOL, choose, needed

if TYPE_CHECKING:
    from fedtest.scenario.model import Scenario


def scenario(hosts: int = 1, networks: int = 1, extra: str = "") -> Scenario:
    names = [f"n{at}" for at in range(networks)]
    nics = ", ".join(f"{name}: e{name}" for name in names)
    return loads(
        "fedtest: 1\nname: s\nnetworks:\n"
        + "".join(f"  {name}: {{}}\n" for name in names)
        + extra
        + "hosts:\n"
        + "".join(f"  h{at}: {{nics: {{{nics}}}}}\n" for at in range(hosts))
    ).scenario


@pytest.mark.parametrize(
    ("hosts", "length"), [(1, 28), (13, 28), (14, 27), (29, 27), (30, 26), (253, 24), (254, 23)]
)
def test_a_prefix_has_room_for_hosts_gateway_network_and_broadcast(hosts: int, length: int) -> None:
    assert needed(scenario(hosts)) == {"n0": length}


def test_fixed_subnets_are_not_chosen_but_avoided() -> None:
    fixed = "  fixed: {subnet: 198.18.0.0/16}\n"
    for key in map(str, range(50)):
        chosen = choose(scenario(networks=3, extra=fixed), key, ())
        assert set(chosen) == {"n0", "n1", "n2"}
        assert all(subnet.subnet_of(IPv4Network("198.19.0.0/16")) for subnet in chosen.values())


@settings(max_examples=50, deadline=None, database=None)
@given(
    st.text(max_size=8),
    st.lists(st.tuples(st.integers(0, 2**17 - 1), st.integers(18, 30)), max_size=30),
)
def test_chosen_subnets_overlap_nothing(key: str, blocks: list[tuple[int, int]]) -> None:
    taken = [
        IPv4Network((int(POOL.network_address) + offset, length), strict=False)
        for offset, length in blocks
    ]
    chosen = choose(scenario(20, 3), key, taken)
    assert chosen == choose(scenario(20, 3), key, taken)
    for one, other in combinations(chosen.values(), 2):
        assert not one.overlaps(other)
    for subnet in chosen.values():
        assert subnet.subnet_of(POOL)
        assert not any(subnet.overlaps(block) for block in taken)


def test_another_run_begins_elsewhere_and_a_taken_one_gives_another() -> None:
    subnets = {choose(scenario(), str(key), ())["n0"] for key in range(100)}
    assert len(subnets) > 95
    first = choose(scenario(), "run", ())["n0"]
    second = choose(scenario(), "run", (first,))["n0"]
    assert not first.overlaps(second)


def test_the_last_free_one_is_found_and_then_the_pool_is_exhausted() -> None:
    last = IPv4Network("198.19.77.32/28")
    taken = list(POOL.address_exclude(last))
    assert choose(scenario(), "any", taken) == {"n0": last}
    # Others' ranges need not be aligned with ours, nor lie within the pool.
    with pytest.raises(InvalidError, match="no /28 is free") as caught:
        choose(
            scenario(), "any", [*taken, IPv4Network("198.19.77.40/30"), IPv4Network("10.0.0.0/8")]
        )
    assert caught.value.exit_code is ExitCode.INVALID
    with pytest.raises(InvalidError):
        choose(scenario(), "any", [IPv4Network("0.0.0.0/0")])
    with pytest.raises(InvalidError, match="network n1"):
        choose(scenario(networks=2), "any", taken)


def test_forty_networks_in_one_scenario() -> None:
    chosen = choose(scenario(2, 40), "run", ())
    assert len(set(chosen.values())) == 40
