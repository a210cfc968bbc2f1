"""What processes may wait for, and what of it is refused because it can never be."""

from __future__ import annotations

import pytest
from scenario_texts import BASE, assert_refused, changed

from fedtest.plan import make_plan
from fedtest.plan_text import plan_to_dict
from fedtest.scenario.load import dump, loads
from fedtest.subnets import choose

OTHER = '  other: {hosts: [a, c], run: ["true"]}\n'
"""BASE has it after `trainer`, which runs on a and b."""


def after(condition: str, more: str = "") -> str:
    """BASE with `other` waiting for something."""
    return changed(OTHER, f"  other: {{hosts: [a, c], run: x, after: {condition}}}\n{more}")


@pytest.mark.parametrize(
    ("condition", "path", "fragments"),
    [
        ("§5", "", ["neither a mapping nor a list", "found 5"]),
        ("[§5]", "[0]", ["not a mapping"]),
        ("{§proces: trainer, log: x}", ".proces", ['did you mean "process"']),
        ("[{§proces: trainer, log: x}]", "[0].proces", ['did you mean "process"']),
        ("§{process: trainer}", "", ["none of log, value, state, port"]),
        ("§{process: trainer, log: x, port: 5}", "", ["both log and port"]),
        ("§{process: trainer, port: 5}", "", ["both process and port"]),
        ("§{log: x}", "", ["none of process, host"]),
        ("{host: b, port: §0}", ".port", ["at least 1"]),
        ("{process: trainer, state: §done}", ".state", ["started, exited or succeeded"]),
        ("{process: §trainr, log: x}", ".process", ['did you mean "trainer"']),
        ("[{process: §trainr, log: x}]", "[0].process", ['did you mean "trainer"']),
        ("{process: trainer, host: §c, log: x}", ".host", ["does not run on this host"]),
        ("{host: §d, port: 80}", ".host", ["no host is called that"]),
        ("§{process: other, state: started}", "", ["other waits for itself"]),
        ("§{host: c, log: x}", "", ["other starts only after other"]),
        ("§{host: c, port: 80}", "", ["other starts only after other"]),
        ("§{host: a, state: exited}", "", ["other starts only after other"]),
    ],
)
def test_what_is_wrong_with_a_condition_is_told_at_its_place(
    condition: str, path: str, fragments: list[str]
) -> None:
    assert_refused(after(condition), f"processes.other.after{path}", *fragments)


def test_a_host_on_which_nothing_runs_opens_no_port() -> None:
    text = changed(OTHER, "  other: {hosts: [a], run: x, after: {host: §c, port: 80}}\n")
    assert_refused(text, "processes.other.after.host", "no process runs on this host")


def test_one_that_has_a_port_in_use_needs_no_process() -> None:
    text = changed(OTHER, "  other: {hosts: [a], run: x, after: {host: c, port: 80}}\n")
    loads(text.replace("c: {nics: {spare: eth0}}", "c: {nics: {spare: eth0}, ports_in_use: [80]}"))


def test_a_circle_is_told_once_with_all_its_steps() -> None:
    more = "  third: {hosts: [b], run: x, after: [{process: other, value: v}]}\n"
    text = after("§{process: last, log: x}", more + "  last: {hosts: [c], run: x, after: "
                 "[{host: a, log: x}, {process: third, state: started}]}\n")  # fmt: skip
    words = "other starts only after last, last starts only after third, third starts only after"
    assert_refused(text, "processes.other.after", words)


def test_who_waits_for_a_circle_is_not_told_beside_it() -> None:
    more = "  third: {hosts: [b], run: x, after: {process: other, value: v}}\n"
    assert_refused(after("§{process: other, log: x}", more), "processes.other.after", "for itself")


def test_some_process_of_a_host_is_enough_for_a_line() -> None:
    loads(after("{host: a, log: x}"))


@pytest.mark.parametrize("state", ["exited", "succeeded"])
@pytest.mark.parametrize("whose", ["process: server", "host: b"])
def test_the_end_of_a_service_is_nothing_to_wait_for(state: str, whose: str) -> None:
    more = "  server: {hosts: [b], run: x, service: true}\n"
    text = after(f"{{{whose}, state: §{state}}}", more)
    assert_refused(text, "processes.other.after.state", "server is a service")


def test_its_start_and_its_words_are() -> None:
    more = "  server: {hosts: [b], run: x, service: true}\n"
    loads(after("[{process: server, state: started}, {process: server, log: x}]", more))


def test_services_alone_would_never_end() -> None:
    processes = BASE[BASE.index("  trainer:") : BASE.index("checks:")]
    text = BASE.replace(processes, "  server: {hosts: [a], run: x, service: §true}\n")
    text = text[: text.index("checks:")]
    assert_refused(text, "processes.server.service", "every process is a service")


def test_what_is_waited_for_survives_being_written_and_is_in_the_plan() -> None:
    text = after("{process: trainer, log: ready}").replace(
        '  trainer: {hosts: ring, run: "true"}',
        '  trainer: {hosts: ring, run: "true", service: true, after: [{host: c, port: 80}]}',
    )
    text = text.replace("c: {nics: {spare: eth0}}", "c: {nics: {spare: eth0}, ports_in_use: [80]}")
    scenario = loads(text).scenario
    assert loads(dump(scenario)).scenario == scenario
    plain = plan_to_dict(make_plan(scenario, choose(scenario, "r", ())))["processes"]
    assert plain[0]["after"] == [{"host": "c", "port": 80}]
    assert plain[0]["service"] is True
    assert plain[2]["after"] == [{"process": "trainer", "log": "ready"}]
    assert "service" not in plain[2]


def test_who_waits_for_nobody_is_told_so_and_not_in_circles() -> None:
    more = "  waits: {hosts: [c], run: x, after: {process: other, state: exited}}\n"
    text = BASE.replace("{hosts: [a, c]", "{hosts: [a]").replace("checks:", f"{more}checks:")
    text = text.replace('run: ["true"]}', 'run: ["true"], after: {host: §b, log: x}}')
    text = text.replace("members: [a, b]", "members: [a]").replace("hosts: ring", "hosts: [a]")
    assert_refused(text, "processes.other.after.host", "no process runs on this host")
