"""Each kind of check on evidence: when it holds, when not, and what it says then."""

from __future__ import annotations

import math
from dataclasses import replace
from ipaddress import ip_address
from typing import TYPE_CHECKING

import pytest

from checking import SCENARIO, Case
from fedtest.engine.snapshot import TcpSocket
from fedtest.links.counting import Counted
from fedtest.run.checks import evaluate
from fedtest.run.checks.needs import Looks, looks
from fedtest.run.checks.repeated import Repeated
from fedtest.run.checks.traffic import size
from fedtest.scenario.load import loads

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


class TestExit:
    CHECK = "exit: {process: trainer, code: 0}"

    def test_holds_when_every_instance_ended_with_the_code(self, case: Case) -> None:
        result = case.check(self.CHECK)
        assert result.passed
        assert (result.expected, result.found) == ("trainer exits with 0", "0 on all 2 hosts")

    def test_fails_when_one_ended_otherwise_and_shows_its_log(self, case: Case) -> None:
        case.state("b").status = 3
        result = case.check(self.CHECK)
        assert not result.passed
        assert result.found == "a: 0, b: 3"
        assert result.details == ("the end of trainer's log on b:", "  its last words")

    def test_fails_when_one_did_not_end(self, case: Case) -> None:
        case.state("a").status = None
        result = case.check(self.CHECK)
        assert not result.passed
        assert result.found == "a: did not end, b: 0"

    def test_names_the_signal(self, case: Case) -> None:
        case.state("a").status = 143
        case.state("b").status = 255
        assert case.check(self.CHECK).found == "a: 143 (SIGTERM), b: 255"

    def test_another_code_can_be_what_is_expected(self, case: Case) -> None:
        case.state("a").status = case.state("b").status = 3
        assert case.check("exit: {process: trainer, code: 3}").passed

    def test_may_be_of_one_host(self, case: Case) -> None:
        case.state("b").status = 1
        assert case.check("exit: {process: trainer, host: a, code: 0}").passed

    def test_a_failure_can_be_what_is_expected(self, case: Case) -> None:
        case.state("a").status, case.state("b").status = 1, 7
        result = case.check('exit: {process: trainer, code: "!= 0"}')
        assert result.passed
        assert result.expected == "trainer exits with != 0"
        case.state("b").status = 0
        assert not case.check('exit: {process: trainer, code: "!= 0"}').passed

    def test_one_that_did_not_end_is_no_expected_failure(self, case: Case) -> None:
        case.state("a").status, case.state("b").status = 1, None
        assert not case.check('exit: {process: trainer, code: "!= 0"}').passed

    @pytest.mark.parametrize("written", ["SIGKILL", "KILL", "9"])
    def test_a_signal_can_be_what_is_expected(self, case: Case, written: str) -> None:
        check = f"exit: {{process: trainer, signal: {written}}}"
        case.state("a").status = case.state("b").status = 137
        result = case.check(check)
        assert result.passed
        assert result.expected == "trainer is ended by SIGKILL"
        case.state("b").status = 0
        assert not case.check(check).passed

    def test_does_not_look_at_other_processes(self, case: Case) -> None:
        case.state("a", "other").status = 1
        assert case.check(self.CHECK).passed


class TestValue:
    EACH = 'value: {process: trainer, name: accuracy, each: ">= 0.97"}'
    ACROSS = "value: {process: trainer, name: hash, across: equal}"

    def test_each_holds_when_it_does_on_every_host(self, case: Case) -> None:
        case.report("accuracy", 0.97, 1)
        result = case.check(self.EACH)
        assert result.passed
        assert result.found == "a: 0.97, b: 1"

    def test_each_fails_when_it_does_not_on_one(self, case: Case) -> None:
        case.report("accuracy", 0.98, 0.5)
        assert not case.check(self.EACH).passed

    @pytest.mark.parametrize("value", [math.nan, "0.99", True, None])
    def test_each_fails_on_what_is_no_number_of_that_size(self, case: Case, value: object) -> None:
        case.report("accuracy", 0.98, value)
        assert not case.check(self.EACH).passed

    def test_a_host_that_reported_nothing_fails_and_is_named(self, case: Case) -> None:
        case.state("a").values.update(accuracy=0.99, loss=0.1)
        result = case.check(self.EACH)
        assert not result.passed
        assert result.details == ("b reported no accuracy", "reported were: accuracy, loss")

    def test_nobody_reporting_anything_fails(self, case: Case) -> None:
        result = case.check(self.EACH)
        assert not result.passed
        assert result.found == "nothing"
        assert result.details[-1] == "reported were: no values at all"

    def test_across_holds_when_all_are_equal(self, case: Case) -> None:
        case.report("hash", "f" * 64, "f" * 64)
        result = case.check(self.ACROSS)
        assert result.passed
        assert result.found == f"{'f' * 16}... on all 2 hosts"

    @pytest.mark.parametrize(("a", "b"), [("x", "y"), (1, True), (None, 0), (math.nan, math.nan)])
    def test_across_fails_when_they_are_not(self, case: Case, a: object, b: object) -> None:
        case.report("hash", a, b)
        assert not case.check(self.ACROSS).passed

    def test_across_within_a_tolerance(self, case: Case) -> None:
        check = "value: {process: trainer, name: loss, across: {within: 1e-3}}"
        case.report("loss", 0.5, 0.5005)
        assert case.check(check).passed
        case.report("loss", 0.5, 0.502)
        result = case.check(check)
        assert not result.passed
        assert result.details == ("0.002 apart",)

    def test_across_in_sum(self, case: Case) -> None:
        check = 'value: {process: trainer, name: samples, across: {sum: "== 60000"}}'
        case.report("samples", 30000, 30000)
        assert case.check(check).passed
        case.report("samples", 30000, 29999)
        result = case.check(check)
        assert not result.passed
        assert result.found == "a: 30000, b: 29999 (sum 59999)"

    @pytest.mark.parametrize("odd", [math.nan, "1", True, None])
    @pytest.mark.parametrize("across", ["{within: 5.0}", '{sum: ">= 0"}'])
    def test_what_is_no_number_is_neither_near_nor_in_a_sum(
        self, case: Case, across: str, odd: object
    ) -> None:
        case.report("x", 1, odd)
        result = case.check(f"value: {{process: trainer, name: x, across: {across}}}")
        assert not result.passed
        assert "is not a number" in result.details[0]

    def test_over_time_it_may_stand_still_but_not_turn(self, case: Case) -> None:
        check = "value: {process: trainer, name: loss, monotonic: decreasing}"
        case.reports("a", "loss", 3, 2.5, 2.5, 1)
        case.reports("b", "loss", 3, 2)
        result = case.check(check)
        assert result.passed
        assert result.found == "a: 4 reports, b: 2 reports"

    def test_over_time_it_says_where_it_turned(self, case: Case) -> None:
        case.reports("a", "loss", 3, 2, 2.5, 1, 4)
        case.reports("b", "loss", 3, 2)
        result = case.check("value: {process: trainer, name: loss, monotonic: decreasing}")
        assert not result.passed
        assert result.details == ("a: report 3 is 2.5, after 2",)

    @pytest.mark.parametrize("values", [[1], [math.nan, 1], [1, math.nan, 2], [1, "2"]])
    def test_over_time_nothing_can_be_said_of_one_value_or_of_no_numbers(
        self, case: Case, values: list[object]
    ) -> None:
        check = "value: {process: trainer, host: a, name: n, monotonic: increasing}"
        case.reports("a", "n", *values)
        assert not case.check(check).passed

    def test_over_time_without_reports_fails(self, case: Case) -> None:
        result = case.check("value: {process: trainer, name: n, monotonic: increasing}")
        assert not result.passed
        assert result.details[0] == "a reported no n"


class TestBytes:
    MIN = "bytes: {group: ring, network: data, direction: tx, min: 5MB}"
    MAX = "bytes: {group: ring, network: mgmt, direction: rx, max: 1MB}"

    def test_min_holds_when_every_host_has_as_much(self, case: Case) -> None:
        case.traffic({("a", "eth0"): 5_000_000, ("b", "ib0"): 6_000_000})
        result = case.check(self.MIN)
        assert result.passed
        assert result.expected == "each host sent at least 5 MB on data"
        assert result.found == "a: 5 MB, b: 6 MB"

    def test_min_fails_when_one_has_less(self, case: Case) -> None:
        case.traffic({("a", "eth0"): 5_000_000, ("b", "ib0"): 4_999_999})
        assert not case.check(self.MIN).passed

    def test_max_holds_up_to_it_and_fails_above(self, case: Case) -> None:
        case.traffic({("a", "mgmt0"): 1_000_000})
        assert case.check(self.MAX).passed
        case.traffic({("a", "mgmt0"): 1_000_001})
        assert not case.check(self.MAX).passed

    def test_only_what_came_after_the_beginning_counts(self, case: Case) -> None:
        case.traffic({("a", "mgmt0"): 5_000_000, ("b", "mgmt0"): 5_000_000})
        case.evidence.before = dict(case.evidence.after)
        assert case.check(self.MAX).found == "0 B on all 2 hosts"

    def test_between_two_hosts_it_is_what_rules_have_counted(self, case: Case) -> None:
        text = "bytes: {group: ring, network: data, direction: tx, peer: b, min: 5MB}"
        unknown = case.check(text)
        assert not unknown.passed
        assert unknown.details == (
            "a: what goes between it and b is not known: it could not be read",
        )
        case.evidence.pairs["a", "data", "tx", "b"] = Counted(5_000_000, 100)
        result = case.check(text)
        assert result.passed
        assert result.expected == "each host sent at least 5 MB to b on data"
        assert result.found == "a: 5 MB"
        assert not case.check(text.replace("5MB", "6MB")).passed

    def test_an_interface_that_is_gone_fails_and_is_named(self, case: Case) -> None:
        case.traffic({("a", "eth0"): 9_000_000})
        case.evidence.after["b"].interfaces.pop("ib0")
        result = case.check(self.MIN)
        assert not result.passed
        assert result.details == ("b: interface ib0 is gone, and its counters with it",)

    @pytest.mark.parametrize("check", [MIN, MAX])
    def test_counters_that_began_anew_prove_nothing(self, case: Case, check: str) -> None:
        names = [("a", "eth0"), ("b", "ib0"), ("a", "mgmt0"), ("b", "mgmt0")]
        case.traffic(dict.fromkeys(names, 9_000_000))
        case.evidence.before = dict(case.evidence.after)
        case.traffic({})
        result = case.check(check)
        assert not result.passed
        assert "began anew" in result.details[0]

    def test_may_be_of_one_host(self, case: Case) -> None:
        case.traffic({("b", "ib0"): 9_000_000})
        assert case.check("bytes: {host: b, network: data, direction: rx, min: 5MB}").passed

    def test_packets_are_counted_as_bytes_are(self, case: Case) -> None:
        case.traffic({("a", "eth0"): 5_000_000, ("b", "ib0"): 6_000_000})
        check = "packets: {{group: ring, network: data, direction: rx, min: {}}}"
        result = case.check(check.format(5000))
        assert result.passed
        assert result.expected == "each host received at least 5000 packets on data"
        assert result.found == "a: 5000 packets, b: 6000 packets"
        assert not case.check(check.format(5001)).passed

    def test_sizes_are_written_as_people_do(self) -> None:
        counts = (0, 999, 1000, 1_234_567, 5_000_000_000, 12_345_678_901_234)
        assert [size(count) for count in counts] == [
            "0 B", "999 B", "1 kB", "1.235 MB", "5 GB", "1.235e+04 GB",
        ]  # fmt: skip


class TestSockets:
    CHECK = 'sockets: {process: trainer, ignore_port: 23456, local: "${{ nics.data.ip }}"}'

    def test_holds_when_every_instance_was_seen_with_its_own_address_only(self, case: Case) -> None:
        case.sockets("a", ("192.168.0.10", 1), ("192.168.0.10", 2))
        case.sockets("b", ("192.168.0.11", 1))
        result = case.check(self.CHECK)
        assert result.passed
        assert result.found == "a: 192.168.0.10, b: 192.168.0.11"

    def test_fails_when_an_instance_was_seen_with_none(self, case: Case) -> None:
        case.sockets("a", ("192.168.0.10", 1))
        result = case.check(self.CHECK)
        assert not result.passed
        assert result.found == "a: 192.168.0.10, b: no socket seen"

    def test_fails_on_another_address_and_shows_the_socket(self, case: Case) -> None:
        case.sockets("a", ("192.168.0.10", 1))
        case.sockets("b", ("192.168.0.11", 1), ("10.1.0.3", 99))
        result = case.check(self.CHECK)
        assert not result.passed
        assert result.details == (
            "b: 10.1.0.3:40000 - 192.168.0.1:99 established, expected 192.168.0.11",
        )

    def test_the_ignored_port_does_not_count_at_either_end(self, case: Case) -> None:
        case.sockets("a", ("192.168.0.10", 1), ("10.1.0.2", 23456))
        case.sockets("b", ("192.168.0.11", 1))
        listening = TcpSocket(ip_address("::"), 23456, ip_address("::"), 0, "listen", 7)
        case.state("b").sockets.add(listening)
        assert case.check(self.CHECK).passed

    def test_only_ignored_sockets_are_as_good_as_none(self, case: Case) -> None:
        case.sockets("a", ("192.168.0.10", 23456))
        case.sockets("b", ("192.168.0.11", 1))
        assert not case.check(self.CHECK).passed

    def test_loopback_does_not_count(self, case: Case) -> None:
        case.sockets("a", ("192.168.0.10", 1), ("127.0.0.1", 2), ("::1", 2))
        case.sockets("b", ("127.0.0.1", 1))
        result = case.check(self.CHECK)
        assert result.found == "a: 192.168.0.10, b: no socket seen"
        assert not result.passed

    def test_an_ipv6_address_may_be_spelt_in_any_way(self, case: Case) -> None:
        case.sockets("a", ("fd00::1", 1))
        check = 'sockets: {{process: trainer, host: a, local: "{}"}}'
        assert case.check(check.format("FD00:0:0::1")).passed
        result = case.check(check.format("fd00::2"))
        assert result.details == (
            "a: [fd00::1]:40000 - 192.168.0.1:1 established, expected fd00::2",
        )

    def test_connections_may_have_to_lead_to_a_network(self, case: Case) -> None:
        check = "sockets: {process: trainer, host: a, remote: data}"
        case.sockets("a", ("192.168.0.10", 1))
        case.listens("a", "10.1.0.2", 99)
        result = case.check(check)
        assert result.passed
        assert result.found == "a: to 192.168.0.1"
        wrong = case.check("sockets: {process: trainer, host: a, remote: mgmt}")
        assert not wrong.passed
        assert "expected one on mgmt (10.1.0.0/24)" in wrong.details[0]

    def test_connections_may_have_to_lead_to_an_address(self, case: Case) -> None:
        case.sockets("a", ("192.168.0.10", 1))
        check = "sockets: {{process: trainer, host: a, remote: '{}'}}"
        assert case.check(check.format("192.168.0.1")).passed
        assert not case.check(check.format("${{ ring.master }}")).passed

    def test_no_connection_leads_nowhere(self, case: Case) -> None:
        case.listens("a", "192.168.0.10", 99)
        assert not case.check("sockets: {process: trainer, host: a, remote: data}").passed

    def test_who_listens_where(self, case: Case) -> None:
        check = "sockets: {{process: trainer, host: a, listen: {{port: {}}}}}"
        case.listens("a", "192.168.0.10", 99)
        result = case.check(check.format(99))
        assert result.passed
        assert result.found == "a: listens at 192.168.0.10:99"
        assert not case.check(check.format(98)).passed

    @pytest.mark.parametrize(
        ("wanted", "passed"),
        [("${{ nics.data.ip }}", True), ("${{ nics.mgmt.ip }}", False), ("0.0.0.0", False)],
    )
    def test_at_which_address_it_listens(self, case: Case, wanted: str, *, passed: bool) -> None:
        case.listens("a", "192.168.0.10", 99)
        check = f"sockets: {{process: trainer, host: a, listen: {{port: 99, local: '{wanted}'}}}}"
        assert case.check(check).passed is passed

    def test_every_address_may_be_that_of_both_families(self, case: Case) -> None:
        case.listens("a", "::", 99)
        check = "sockets: {process: trainer, host: a, listen: {port: 99, local: 0.0.0.0}}"
        assert case.check(check).passed

    def test_who_was_not_seen_to_listen_did_not(self, case: Case) -> None:
        result = case.check("sockets: {process: trainer, host: a, listen: {port: 99}}")
        assert not result.passed
        assert result.found == "a: was not seen to listen"

    def test_only_hosts_whose_sockets_matter_are_looked_at(self, case: Case) -> None:
        scenario = loads(f"{SCENARIO}checks: [{{{self.CHECK}}}]\n").scenario
        assert looks(scenario, case.evidence).hosts == ("a", "b")
        none = loads(SCENARIO).scenario
        assert looks(none, case.evidence) == Looks()


def test_a_check_without_a_name_is_called_by_its_kind_and_place(case: Case) -> None:
    text = "checks: [exit: {process: other, code: 0}, exit: {process: trainer, code: 0}]"
    scenario = loads(SCENARIO + text).scenario
    repeated = Repeated(scenario, case.evidence, lambda: 0.0)
    found = evaluate(scenario, case.evidence, repeated)
    assert [check.id for check in found] == ["exit-1", "exit-2"]


def test_a_process_that_ran_nowhere_proves_nothing(case: Case) -> None:
    case.evidence = replace(case.evidence, processes={})
    assert not case.check(TestExit.CHECK).passed
    assert not case.check(TestValue.ACROSS).passed
    assert not case.check(TestSockets.CHECK).passed
