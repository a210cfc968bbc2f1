"""The plan with faults in effect: what each kind changes, and that nothing of it stays."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtest.plan_links import BarrierPlan, LinkPlan
from fedtest.run.faults.desired import called_alike, cut_ways, desired
from fedtest.run.faults.passages import barred
from fedtest.scenario.faults import CutFault, PartitionFault
from pretend_links import plan_of

QUICK = settings(max_examples=200, deadline=None, database=None)

SCENARIO = """
fedtest: 1
name: desired
networks:
  mgmt: {}
  data: {subnet: 10.9.0.0/24, link: {delay: 5ms}, pairs: [{from: a, to: b, link: {rate: 1mbit}}]}
hosts:
  a: {nics: {mgmt: mgmt0, data: {name: eth0, ip: 10.9.0.11}}, firewall: {accept: [22]}}
  b: {nics: {mgmt: mgmt0, data: {name: ib0, ip: 10.9.0.12}}}
  c: {nics: {mgmt: mgmt0, data: {name: ib0, ip: 10.9.0.13}}}
groups: {pair: {members: [b, c], network: data}}
processes: {p: {hosts: [a], run: "true"}}
checks: [exit: {process: p}]
faults:
"""
KINDS = [
    "cut: {network: data}",
    "cut: {network: data, from: a, to: b}",
    "cut: {network: data, to: c}",
    "cut: {network: data, from: b}",
    "partition: {network: data, sides: [[a], [pair]]}",
    "partition: {network: data, sides: [[a], [b], [c]], way: forward}",
    "block: {host: a, ports: [22, 80-90], answer: reject}",
    "block: {host: b, ports: [80], from: a}",
    "link: {network: data, change: {delay: 20ms}}",
    "link: {network: data, from: a, to: c, change: {loss: 1%}}",
    "link: {network: data, from: a, change: {rate: 5mbit}}",
    "interface: {host: a, network: data, down: true}",
    "interface: {host: a, network: data, name: eth9}",
    "interface: {host: a, network: data, ip: 10.9.0.99}",
    "resolve: {host: a, names: {b: 127.0.1.1, c: missing, x: b}}",
    "resolve: {names: {a: b}}",
]
PLAN = plan_of(SCENARIO + "".join(f"  - {{{kind}, at: 1s}}\n" for kind in KINDS))
SPECS = {kind: fault.spec for kind, fault in zip(KINDS, PLAN.faults, strict=True)}


def barriers(host: str, *kinds: str) -> tuple[BarrierPlan, ...]:
    return desired(PLAN, [SPECS[kind] for kind in kinds]).host(host).barriers


@QUICK
@given(st.lists(st.sampled_from(KINDS), max_size=6), st.randoms())
def test_however_they_come_and_go_the_plan_is_there_again_when_all_are_over(
    kinds: list[str], source: st.DrawFn
) -> None:
    active = []
    for kind in kinds:
        active.append(SPECS[kind])
        changed = desired(PLAN, active)
        assert changed != PLAN
        assert desired(PLAN, active) == changed
        assert [host.name for host in changed.hosts] == [host.name for host in PLAN.hosts]
        assert changed.processes == PLAN.processes
    source.shuffle(active)  # type: ignore[attr-defined]
    while active:
        active.pop()
    assert desired(PLAN, active) == PLAN


@QUICK
@given(st.lists(st.sampled_from(KINDS[:8]), unique=True, min_size=1), st.randoms())
def test_what_keeps_packets_out_does_not_depend_on_the_order(
    kinds: list[str], source: st.DrawFn
) -> None:
    one = desired(PLAN, [SPECS[kind] for kind in kinds])
    source.shuffle(kinds)  # type: ignore[attr-defined]
    other = desired(PLAN, [SPECS[kind] for kind in kinds])
    for host in one.hosts:
        assert set(host.barriers) == set(other.host(host.name).barriers)


@QUICK
@given(st.lists(st.sampled_from(KINDS[:6]), unique=True))
def test_a_way_is_closed_while_any_fault_closes_it(kinds: list[str]) -> None:
    plan = desired(PLAN, [SPECS[kind] for kind in kinds])
    closed = set()
    for kind in kinds:
        spec = SPECS[kind]
        assert isinstance(spec, (CutFault, PartitionFault))
        closed |= set(cut_ways(PLAN, spec))
    for one in "abc":
        for other in set("abc") - {one}:
            assert barred(plan, "data", one, other, 5) == ((one, other) in closed)
            assert not barred(plan, "mgmt", one, other, 5)


def test_whoever_sends_on_a_network_that_is_cut_is_kept_out() -> None:
    assert barriers("a", KINDS[0]) == (BarrierPlan("eth0"),)
    assert barriers("c", KINDS[2]) == (BarrierPlan("ib0"),)
    assert barriers("a", KINDS[2]) == ()


def test_a_directed_cut_is_at_its_receiver_alone() -> None:
    assert barriers("b", KINDS[1]) == (BarrierPlan("ib0", "10.9.0.11"),)
    assert barriers("a", KINDS[1]) == barriers("c", KINDS[1]) == ()


def test_a_partition_leaves_those_of_one_side_together() -> None:
    assert barriers("a", KINDS[4]) == (
        BarrierPlan("eth0", "10.9.0.12"), BarrierPlan("eth0", "10.9.0.13")
    )  # fmt: skip
    assert barriers("b", KINDS[4]) == (BarrierPlan("ib0", "10.9.0.11"),)


def test_a_partition_forward_lets_answers_back() -> None:
    assert [len(barriers(host, KINDS[5])) for host in "abc"] == [0, 1, 2]


def test_blocked_ports() -> None:
    (everybody,) = barriers("a", KINDS[6])
    assert (everybody.source, everybody.ports, everybody.answer) == (
        None, ((22, 22), (80, 90)), "reject"
    )  # fmt: skip
    assert {item.source for item in barriers("b", KINDS[7])} == {
        str(nic.address.ip) for nic in PLAN.host("a").attachments
    }


def link(plan_kinds: list[str], host: str) -> LinkPlan:
    return desired(PLAN, [SPECS[kind] for kind in plan_kinds]).host(host).attachments[1].link


def test_a_changed_link_keeps_what_is_not_said_and_pairs_stay_their_own() -> None:
    assert link([KINDS[8]], "c") == LinkPlan(delay=0.02)
    changed = desired(PLAN, [SPECS[KINDS[8]]])
    (pair,) = changed.networks[1].pairs
    assert pair.link == LinkPlan(rate=10**6, delay=0.02)


def test_the_change_of_one_way_is_a_pair_of_its_own() -> None:
    changed = desired(PLAN, [SPECS[KINDS[9]]])
    pairs = {(item.sender, item.receiver): item for item in changed.networks[1].pairs}
    assert pairs["a", "c"].link == LinkPlan(delay=0.005, loss=0.01)
    assert pairs["a", "c"].shares_rate
    assert changed.host("a").attachments == PLAN.host("a").attachments


def test_changes_add_up_in_the_order_in_which_they_came() -> None:
    assert link([KINDS[8], KINDS[10]], "a") == LinkPlan(rate=5 * 10**6, delay=0.02)


def test_everything_speaks_of_the_interface_as_it_is() -> None:
    changed = desired(PLAN, [SPECS[kind] for kind in (KINDS[0], KINDS[4], KINDS[12], KINDS[13])])
    host = changed.host("a")
    assert host.attachments[1].interface == "eth9"
    assert str(host.attachments[1].address) == "10.9.0.99/24"
    assert host.firewall is not None
    assert host.firewall.interfaces == ("mgmt0", "eth9")
    assert {item.interface for item in host.barriers} == {"eth9"}
    assert BarrierPlan("ib0", "10.9.0.99") in changed.host("b").barriers
    assert host.names == PLAN.host("a").names


@pytest.mark.parametrize("others", [[], [KINDS[12]], [KINDS[13]]])
def test_an_interface_that_is_down_stays_down(others: list[str]) -> None:
    kinds = [*others, KINDS[11]]
    assert not desired(PLAN, [SPECS[kind] for kind in kinds]).host("a").attachments[1].up
    assert barred(desired(PLAN, [SPECS[KINDS[11]]]), "data", "a", "b", 5)
    assert barred(desired(PLAN, [SPECS[KINDS[11]]]), "data", "b", "a", 5)


def test_names_that_lead_elsewhere_come_first_and_the_old_ones_are_gone() -> None:
    changed = desired(PLAN, [SPECS[KINDS[14]]])
    names = changed.host("a").names
    address_of_b = next(address for address, some in PLAN.host("a").names if "b" in some)
    assert names[:2] == (("127.0.1.1", ("b",)), (address_of_b, ("x",)))
    assert not any("c" in some for _, some in names)
    assert sum("b" in some for _, some in names) == 1
    assert changed.host("b") == PLAN.host("b")


def test_a_name_may_be_another_hosts_everywhere() -> None:
    changed = desired(PLAN, [SPECS[KINDS[15]]])
    address_of_b = next(address for address, some in PLAN.host("a").names if "b" in some)
    assert all(host.names[0] == (address_of_b, ("a",)) for host in changed.hosts)


def test_two_faults_that_give_one_name_to_two_interfaces_are_found() -> None:
    fault = "  - {interface: {host: a, network: NETWORK, name: eth9}, at: 1s}\n"
    text = SCENARIO + fault.replace("NETWORK", "data") + fault.replace("NETWORK", "mgmt")
    plan = plan_of(text)
    one, other = (item.spec for item in plan.faults)
    assert called_alike(desired(plan, [one])) == []
    assert called_alike(desired(plan, [one, other])) == [
        "host a: 2 interfaces would be called eth9"
    ]
