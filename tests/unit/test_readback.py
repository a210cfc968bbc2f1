"""Every difference between what was asked for and what is there is named."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Interface
from typing import TYPE_CHECKING

import pytest

from engine_contract import HOSTS, two_networks
from fedtest.engine.base import RunTag
from fedtest.engine.fake import FakeEngine
from fedtest.engine.owner import Owner
from fedtest.engine.snapshot import Interface
from fedtest.errors import NotAsPlanned
from fedtest.run.readback import compare
from pretend_links import plan_of

if TYPE_CHECKING:
    from fedtest.engine.snapshot import Snapshot
    from fedtest.plan import Plan

PLAN = two_networks(HOSTS)


@pytest.fixture
def there() -> dict[str, Snapshot]:
    engine, run = FakeEngine(), RunTag("r", "s", Owner.me())
    return dict(engine.realise(PLAN, run, engine.prepare(PLAN, run, print), print, 1))


def change(there: dict[str, Snapshot], host: str, name: str, **fields: object) -> None:
    interfaces = dict(there[host].interfaces)
    interfaces[name] = replace(interfaces[name], **fields)  # type: ignore[arg-type]
    there[host] = replace(there[host], interfaces=interfaces)


def lines(plan: Plan, there: dict[str, Snapshot]) -> list[str]:
    with pytest.raises(NotAsPlanned) as caught:
        compare(plan, there)
    return [line.strip() for line in caught.value.message.splitlines()[1:]]


def test_what_is_as_planned_is_silent(there: dict[str, Snapshot]) -> None:
    compare(PLAN, there)


def test_an_interface_under_another_name_is_told_with_the_names_there_are(
    there: dict[str, Snapshot],
) -> None:
    interfaces = dict(there["a"].interfaces)
    interfaces["eth1"] = interfaces.pop("enps1")
    there["a"] = replace(there["a"], interfaces=interfaces)
    assert lines(PLAN, there) == [
        "host a: interface enps1 (network two) is not there; there are: eth0, eth1",
        "host a: has an interface eth1 that nobody asked for",
    ]


def test_another_address_is_told_with_the_one_there_is(there: dict[str, Snapshot]) -> None:
    change(there, "b", "eth0", addresses=(IPv4Interface("10.0.0.9/8"),))
    (line,) = lines(PLAN, there)
    assert line.endswith("it has 10.0.0.9/8")


def test_the_right_address_with_another_prefix_is_another_address(
    there: dict[str, Snapshot],
) -> None:
    wanted = PLAN.host("b").attachments[1].address
    change(there, "b", "eth0", addresses=(IPv4Interface(f"{wanted.ip}/16"),))
    assert len(lines(PLAN, there)) == 1


def test_no_address_at_all_is_told(there: dict[str, Snapshot]) -> None:
    change(there, "b", "eth0", addresses=())
    assert lines(PLAN, there)[0].endswith("it has no address")


def test_an_interface_that_is_down_is_told(there: dict[str, Snapshot]) -> None:
    change(there, "a", "eth0", up=False)
    assert lines(PLAN, there) == ["host a: interface eth0 (network one) is down"]


def test_a_tunnel_that_every_namespace_has_does_not_count(there: dict[str, Snapshot]) -> None:
    tunnel = Interface("tunl0", "-", 1480, False, (), 0, 0, 0, 0)
    there["a"].interfaces["tunl0"] = tunnel
    compare(PLAN, there)


def test_another_hosts_file_is_told(there: dict[str, Snapshot]) -> None:
    there["a"] = replace(there["a"], hosts_file="127.0.0.1 a")
    assert lines(PLAN, there) == ["host a: /etc/hosts is not what it should be"]


def test_a_host_that_did_not_tell_of_itself_is_told(there: dict[str, Snapshot]) -> None:
    del there["b"]
    assert lines(PLAN, there) == ["host b: is not there"]


def test_all_differences_are_told_at_once(there: dict[str, Snapshot]) -> None:
    change(there, "a", "eth0", up=False)
    change(there, "b", "eth0", up=False, addresses=())
    assert len(lines(PLAN, there)) == 3


SETTLED = """
fedtest: 1
name: settled
networks: {x: {ipv6: true}, y: {}}
hosts:
  a:
    nics: {x: {name: eth0, mac: "02:00:00:00:00:01"}, y: {name: eth1, ip: none}}
    dns: {web: 192.0.2.1}
"""


class TestSettled:
    """What hosts have beyond what engines give."""

    plan = plan_of(SETTLED)

    @pytest.fixture
    def there(self) -> dict[str, Snapshot]:
        engine, run = FakeEngine(), RunTag("r", "s", Owner.me())
        prepared = engine.prepare(self.plan, run, print)
        return dict(engine.realise(self.plan, run, prepared, print, 1))

    def test_what_is_as_planned_is_silent(self, there: dict[str, Snapshot]) -> None:
        compare(self.plan, there)

    def test_before_it_is_settled_a_host_has_what_its_engine_gave(
        self, there: dict[str, Snapshot]
    ) -> None:
        one, two = self.plan.host("a").attachments
        other = "02:00:00:00:00:09"
        change(there, "a", "eth0", mac=other, addresses=(one.address,))
        change(there, "a", "eth1", addresses=(two.address,))
        compare(self.plan, there, settled=False)
        where = "host a: interface"
        assert lines(self.plan, there) == [
            f"{where} eth0 (network x) should have {one.address6}, it has {one.address}",
            f"{where} eth0 (network x) should have the MAC address {one.mac}, it has {other}",
            f"{where} eth1 (network y) should have no IPv4 address, it has {two.address}",
        ]

    def test_another_server_of_names_is_told(self, there: dict[str, Snapshot]) -> None:
        there["a"] = replace(there["a"], resolv_conf="nameserver 127.0.0.11\n")
        assert lines(self.plan, there) == ["host a: /etc/resolv.conf is not what it should be"]
