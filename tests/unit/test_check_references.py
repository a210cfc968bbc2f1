"""Checks that cannot be right are refused with the scenario: what they name, what they say."""

from __future__ import annotations

import pytest
from scenario_texts import assert_refused, changed

from fedtest.scenario.load import dump, loads

EXIT = "  - exit: {process: trainer, code: 0}\n"

WRONG = [
    # exit
    ("exit: {process: trainer, code: §256}", "exit.code", []),
    ("exit: {process: trainer, signal: §SIGKIL}", "exit.signal", ["SIGKILL"]),
    ("exit: §{process: trainer, code: 0, signal: 9}", "exit", ["both code and signal"]),
    # log
    ("log: {process: §trainr, match: x}", "log.process", ["trainer"]),
    ("log: {process: trainer, host: §c, match: x}", "log.host", ["does not run"]),
    ("log: {process: trainer, match: §'('}", "log.match", ["not a regular expression", "RE2"]),
    ("log: {process: trainer, match: §'(?=a)'}", "log.match", ["no look-around"]),
    ("log: {process: trainer, match: §''}", "log.match", ["empty"]),
    ("log: §{process: trainer, match: x, absent: y}", "log", ["both match and absent"]),
    ("log: §{process: trainer, absent: y, count: 3}", "log", ["without match"]),
    ("log: §{process: trainer, match: '(?P<a>x)', where: {b: '> 1'}}", "log", ["no group b", "a"]),
    ("log: {process: trainer, match: x, count: §many}", "log.count", ["whole number"]),
    ("log: {process: trainer, match: x, count: §'>= 1.5'}", "log.count", ["whole number"]),
    ("log: {process: trainer, order: §[x]}", "log.order", ["at least 2"]),
    ("log: {process: trainer, match: x, since: {host: §d, log: x}}", "log.since.host", []),
    # value
    ("value: {process: trainer, name: x, across: §same}", "value.across", ["equal"]),
    ("value: {process: trainer, name: x, across: §{}}", "value.across", ["none of equal"]),
    ("value: {process: trainer, name: x, across: {within: §-1}}", "value.across.within", []),
    ("value: {process: trainer, name: x, monotonic: §up}", "value.monotonic", ["increasing"]),
    # packets
    ("packets: {host: §c, network: data, direction: tx, min: 1}", "packets.host", ["not on"]),
    ("packets: {group: §rig, network: data, direction: tx, min: 1}", "packets.group", ["ring"]),
    ("packets: §{host: a, network: data, direction: tx, min: 2, max: 1}", "packets", ["min is 2"]),
    ("packets: {host: a, network: data, direction: tx, min: §5MB}", "packets.min", ["number"]),
    # sockets
    ("sockets: §{process: trainer}", "sockets", ["at least one of local, remote, listen"]),
    ("sockets: {process: trainer, remote: §dta}", "sockets.remote", ["data"]),
    ("sockets: {process: trainer, listen: {port: 1, local: §data}}", "sockets.listen.local", []),
    ("sockets: §{process: trainer, listen: {port: 5}, ignore_port: 5}", "sockets", ["to ignore"]),
    # files
    ("files: {host: §d, path: /x}", "files.host", ["no host"]),
    ("files: {group: §rig, path: /x}", "files.group", ["ring"]),
    ("files: {host: a, path: §x}", "files.path", ["absolute"]),
    ("files: {host: a, path: §/a/../b}", "files.path", ["absolute"]),
    ("files: §{path: /x}", "files", ["none of group, host"]),
    ("files: §{host: a, path: /x, exists: false, min: 1B}", "files", ["exists is false"]),
    ("files: §{host: a, path: /x, min: 2B, max: 1B}", "files", ["min is 2B"]),
    ("files: {host: a, path: /x, sha256: §abc}", "files.sha256", ["64 hex"]),
    # reach
    ("reach: {from: §d, to: b, port: 80}", "reach.from", ["no host"]),
    ("reach: {from: a, to: §d, port: 80}", "reach.to", ["no host"]),
    ("reach: {from: a, to: §c, port: 80}", "reach.to", ["no network together", "spare"]),
    ("reach: {from: a, to: b, network: §dta, port: 80}", "reach.network", ["data"]),
    ("reach: {from: a, to: §b, network: spare, port: 80}", "reach.to", ["not on network spare"]),
    ("reach: {from: a, to: b, port: §0}", "reach.port", ["at least 1"]),
    ("reach: {from: a, to: b, port: 80, protocol: §udp}", "reach.protocol", ["tcp"]),
    # time
    ("time: §{to: {host: a, log: x}, within: 1s}", "time.from", ["missing"]),
    ("time: {from: {host: §d, log: x}, to: {host: a, log: x}, within: 1s}", "time.from.host", []),
    ("time: {from: {host: a, log: x}, to: {host: §d, log: x}, within: 1s}", "time.to.host", []),
    ("time: {from: §{log: x}, to: {host: a, log: x}, within: 1s}", "time.from", ["process, host"]),
    ("time: {from: §{host: a}, to: {host: a, log: x}, within: 1s}", "time.from", ["none of log"]),
    ("time: {from: §cut, to: {host: a, log: x}, within: 1s}", "time.from", ["FAULT.healed"]),
    ("time: {from: §.healed, to: {host: a, log: x}, within: 1s}", "time.from", ["FAULT.healed"]),
    ("time: {from: §5, to: {host: a, log: x}, within: 1s}", "time.from", ["not a mapping"]),
    (
        "time: {from: {§hst: a, log: x}, to: {host: a, log: x}, within: 1s}",
        "time.from.hst",
        ['did you mean "host"'],
    ),
    (
        "time: {from: §cut.healed, to: {host: a, log: x}, within: 1s}",
        "time.from",
        ["no fault is called that", 'found "cut"'],
    ),
    ("log: {process: trainer, match: x, since: §cut.applied}", "log.since", ["no fault"]),
    ("done: {within: §1}", "done.within", ["unit"]),
]


@pytest.mark.parametrize(("check", "path", "fragments"), WRONG)
def test_each_mistake_is_one_problem_at_its_place(
    check: str, path: str, fragments: list[str]
) -> None:
    assert_refused(changed(EXIT, f"  - {check}\n"), f"checks[0].{path}", *fragments)


def test_a_host_without_a_process_has_no_moments() -> None:
    text = changed("other: {hosts: [a, c]", "other: {hosts: [a]")
    check = "  - time: {from: {host: a, log: x}, to: {host: §c, log: x}, within: 1s}\n"
    assert_refused(text.replace(EXIT, check), "checks[0].time.to.host", "no process runs")


RIGHT = [
    'exit: {process: trainer, code: "!= 0"}',
    "exit: {process: trainer, signal: 9}",
    "log: {process: trainer, match: 'a(?P<b>.)', where: {b: '>= 1'}, count: 3, within: 5s}",
    "log: {process: trainer, order: [a, b], stream: stderr, since: {host: c, state: exited}}",
    "value: {process: trainer, name: x, across: equal}",
    "value: {process: trainer, name: x, across: {within: 1e-6}}",
    "value: {process: trainer, name: x, across: {sum: '>= 60000'}}",
    "packets: {group: ring, network: data, direction: rx, max: 100}",
    "sockets: {process: trainer, remote: data, listen: {port: 80, local: '${{ nics.data.ip }}'}}",
    "files: {host: a, path: /x, min: 1kB, match: '^a', sha256: '" + "0" * 64 + "'}",
    "files: {group: ring, path: /x, exists: false}",
    "reach: {from: a, to: b, port: 80, network: data, reachable: false, timeout: 500ms}",
    "reach: {from: a, to: c, port: 80, network: spare}",
    "time: {from: {host: a, value: x}, to: {process: other, log: y}, within: 20s}",
    "done: {within: 60s}",
    "{value: {process: trainer, name: x, each: '> 1'}, always: true}",
    "{reach: {from: a, to: b, port: 80}, eventually: 10s}",
]  # fmt: skip


@pytest.mark.parametrize(
    ("check", "words"),
    [
        ("exit: {process: trainer}, eventually: 5s", "of kind exit is not of a moment"),
        ("log: {process: trainer, match: x}, always: true", "of kind log is not of a moment"),
        (
            "value: {process: trainer, name: x, monotonic: increasing}, always: true",
            "of values over time is not of a moment",
        ),
        (
            "value: {process: trainer, name: x, across: equal}, always: true, eventually: 5s",
            "both eventually and always",
        ),
    ],
)
def test_what_cannot_be_repeated_is_refused(check: str, words: str) -> None:
    assert_refused(changed(EXIT, f"  - §{{{check}}}\n"), "checks[0]", words)


@pytest.mark.parametrize("check", RIGHT)
def test_what_is_right_survives_being_written(check: str) -> None:
    scenario = loads(changed(EXIT, f"  - {check}\n")).scenario
    assert loads(dump(scenario)).scenario == scenario
