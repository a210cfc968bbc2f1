"""A run with conditions: applied before any process, read back, measured, or invalid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fedtest.errors import EngineError, ExitCode
from fedtest.run.result import Verdict
from pretend_links import Pretender
from runs import Lab, Run

if TYPE_CHECKING:
    from pathlib import Path

    from fedtest.links.measure import Measurement

SCENARIO = """
fedtest: 1
name: small
deadline: 200s
networks: {{mgmt: {{}}, data: {{link: {link}}}}}
hosts:
  a: {{nics: {{mgmt: mgmt0, data: eth0}}{more}}}
  b: {{nics: {{mgmt: mgmt0, data: ib0}}}}
processes: {{work: {{hosts: [a], run: "echo ran"}}}}
checks: [exit: {{process: work}}]
"""
FIREWALL = ", firewall: {accept: [23456], networks: [data]}, ports_in_use: [29500]"


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def run(lab: Lab, pretender: Pretender, link: str = "{rate: 100mbit}", more: str = "") -> Run:
    return lab.run(SCENARIO.format(link=link, more=more), pretender.engine)


def assert_invalid(done: Run, *fragments: str) -> None:
    """Invalid before any process ran, for the reason that is told."""
    assert done.result.verdict is Verdict.INVALID
    assert done.result.exit_code == ExitCode.INVALID
    assert not done.events("started")
    for fragment in fragments:
        assert fragment in "\n".join(done.messages)


def test_links_that_are_as_asked_for_let_the_run_go_on(lab: Lab) -> None:
    done = run(lab, Pretender(), "{rate: 100mbit, delay: 5ms, loss: 1%}", FIREWALL)
    assert done.result.verdict is Verdict.PASSED, done.messages
    kinds = [event["kind"] for event in done.events()]
    assert kinds.count("links applied") == 2
    assert kinds.index("link measured") < kinds.index("started")
    assert kinds.index("connection tried") < kinds.index("started")
    assert done.json("versions.json")["links"] == "htb, iptables and NFQUEUE"


def test_links_json_has_what_was_done_read_and_measured(lab: Lab) -> None:
    record = run(lab, Pretender(), more=FIREWALL).json("links.json")
    assert record["mechanism"] == "htb, iptables and NFQUEUE"
    assert any("htb rate 100000000bit" in line for line in record["applied"]["a"]["commands"])
    assert "class htb 1:2" in record["applied"]["a"]["read_back"]
    assert {(item["from"], item["to"]) for item in record["measured"]} == {("a", "b"), ("b", "a")}
    (figure,) = record["measured"][0]["figures"]
    assert (figure["low"], figure["found"], figure["high"]) == (95, 100, 105)
    assert {item["port"]: item["found"] for item in record["attempts"]} == {
        29500: "answered",
        23456: "silent",
        47114: "refused",
    }


def test_a_scenario_without_conditions_has_no_stage_for_them(lab: Lab) -> None:
    pretender = Pretender()
    done = run(lab, pretender, "{}")
    assert done.result.verdict is Verdict.PASSED
    assert "links.json" not in done.names
    assert pretender.engine.conditioned == []


def test_scripts_that_do_nothing_make_the_run_invalid(lab: Lab) -> None:
    done = run(lab, Pretender(bend_reading=lambda _host, _text: ""))
    assert_invalid(done, "the links are not as the scenario asks", "host a: eth0: class 1:2")
    assert "links.json" in done.names


def test_a_link_that_measures_otherwise_makes_the_run_invalid(lab: Lab) -> None:
    def unlimited(_: Measurement, answer: dict[str, Any]) -> dict[str, Any]:
        return {**answer, "rate": {"rate": 2e10}}

    done = run(lab, Pretender(bend_probe=unlimited))
    assert_invalid(done, "a to b on data: the rate should be 95 to 105 Mbit/s, it is 2e+04")
    assert len(done.json("links.json")["measured"]) == 12  # six tries each


def test_a_machine_that_is_busy_for_a_moment_does_not(lab: Lab) -> None:
    tries: list[str] = []

    def busy_once(item: Measurement, answer: dict[str, Any]) -> dict[str, Any]:
        tries.append(str(item))
        return {"rate": {"rate": 5e7}} if len(tries) == 1 else answer

    done = run(lab, Pretender(bend_probe=busy_once))
    assert done.result.verdict is Verdict.PASSED, done.messages
    assert tries == ["a to b on data", "b to a on data", "a to b on data"]


def test_what_is_not_to_be_probed_is_applied_and_read_back_all_the_same(lab: Lab) -> None:
    link = "{rate: 100mbit, probe: false}"
    done = run(lab, Pretender(), link)
    assert done.result.verdict is Verdict.PASSED, done.messages
    assert done.json("links.json")["measured"] == []
    done = run(lab, Pretender(bend_reading=lambda _host, _text: ""), link)
    assert_invalid(done)


def test_a_firewall_that_is_not_there_makes_the_run_invalid(lab: Lab) -> None:
    def nothing(_: str, text: str) -> str:
        return text.replace("REJECT", "ACCEPT")

    done = run(lab, Pretender(bend_reading=nothing), "{}", FIREWALL)
    assert_invalid(done, "the rules of fedtest-firewall are not those asked for")


def test_a_port_that_lets_in_what_it_should_not_makes_the_run_invalid(lab: Lab) -> None:
    done = run(lab, Pretender(bend_attempts=lambda found: ["silent"] * len(found)), "{}", FIREWALL)
    assert_invalid(
        done,
        "a connection from b to port 47114 of a should be refused, it is silent",
        "a connection from a to port 29500 of a should be answered, it is silent",
    )


def test_a_script_that_fails_makes_the_run_invalid_in_its_words(lab: Lab) -> None:
    pretender = Pretender()

    def failing(host: str, _script: str) -> str:
        raise EngineError(f"changing the network of host {host}: RTNETLINK says no")

    pretender.engine.defects.answer = failing
    assert_invalid(run(lab, pretender), "RTNETLINK says no")


def test_netem_is_used_where_a_host_tells_that_it_is_there(lab: Lab) -> None:
    """The fake engine does not know of its kernel: the first host is asked."""
    done = run(lab, Pretender(netem=True), "{rate: 100mbit, duplicate: 1%, corrupt: 1%}")
    assert done.result.verdict is Verdict.PASSED, done.messages
    assert done.json("links.json")["mechanism"] == "netem"


def test_what_only_netem_can_do_is_invalid_without_it(lab: Lab) -> None:
    done = run(lab, Pretender(), "{duplicate: 1%}")
    assert_invalid(done, "this kernel has no netem", "duplicate of what a sends on data")
    assert "sch_netem" in done.result.problems[0].remedy


def test_where_the_engine_knows_that_there_is_no_netem_nothing_is_even_prepared(lab: Lab) -> None:
    pretender = Pretender()
    pretender.engine.defects.netem = False
    done = run(lab, pretender, "{duplicate: 1%}")
    assert_invalid(done, "this kernel has no netem")
    assert "nothing to prepare" not in done.recorder.told
    assert pretender.engine.realised == {}


@pytest.mark.parametrize("netem", [None, False])
@pytest.mark.parametrize("key", ["duplicate", "reorder", "corrupt"])
def test_a_fault_that_only_netem_could_make_is_refused_before_processes(
    lab: Lab, key: str, *, netem: bool | None
) -> None:
    """Where the engine does not know, a host is asked; where it does, not even one is made."""
    pretender = Pretender()
    pretender.engine.defects.netem = netem
    change = f"{{delay: 5ms, {key}: 1%}}"
    fault = f"faults: [{{link: {{network: data, from: a, to: b, change: {change}}}, at: 10s}}]\n"
    done = lab.run(SCENARIO.format(link="{}", more="") + fault, pretender.engine)
    assert_invalid(done, "this kernel has no netem", f"{key} from a to b on data")
    assert "sch_netem" in done.result.problems[0].remedy
    assert netem is None or pretender.engine.realised == {}


def test_bytes_are_counted_from_after_the_measuring(lab: Lab) -> None:
    pretender = Pretender()
    # Whatever `observe` tells is what it tells after the measuring, too.
    pretender.engine.defects.traffic = {("a", "eth0"): 5_000_000}
    text = SCENARIO.format(link="{rate: 100mbit}", more="").replace(
        "exit: {process: work}", "bytes: {host: a, network: data, direction: tx, max: 0B}"
    )
    done = lab.run(text, pretender.engine)
    assert done.result.verdict is Verdict.PASSED, done.result.checks
