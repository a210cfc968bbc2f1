"""Faults that are not there although they were asked for, on real hosts: the run is invalid."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from fault_hosts import hosts

from fedtest.engine.choose import open_engine
from fedtest.engine.docker import engine as docker_engine
from fedtest.engine.docker.engine import DockerEngine
from fedtest.run.faults import machines
from fedtest.run.observer import Observer
from fedtest.run.result import Result, Verdict
from fedtest.run.runner import Runner
from fedtest.scenario.load import loads

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from fedtest.engine.base import Engine, ProcessKey, RunTag

docker = pytest.mark.docker  # What it does itself is tampered with.
# The same code looks and judges on every engine; without Docker it takes less time.
without_docker = pytest.mark.netns

PROCESSES = """processes:
  short: {hosts: [b], run: "true"}
  work: {hosts: [a, b], run: sleep 300}
checks: [exit: {process: short}]
faults:
"""


def scenario(fault: str, link: str = "{}") -> str:
    # No subnet is asked for but where one is needed: tests of other files need not wait.
    network = "10.66.7.0/24"
    return hosts(network, link) + PROCESSES + f"  - {{{fault}, id: x}}\n"


@dataclass
class Tampered:
    """An engine with which some scripts for hosts are not those that were asked for.

    `spared`: of the scripts with `old`, the first so many are left as they are.
    """

    engine: Engine
    old: str
    new: str
    spared: int = 0
    count: int = 0

    def __post_init__(self) -> None:
        self._condition = self.engine.condition
        self.engine.condition = self.condition  # type: ignore[method-assign]

    def condition(
        self, run: RunTag, scripts: Mapping[str, str], deadline: float, *, inside: bool = False
    ) -> Mapping[str, str]:
        changed = {name: self._changed(script) for name, script in scripts.items()}
        return self._condition(run, changed, deadline, inside=inside)

    def _changed(self, script: str) -> str:
        self.count += self.old in script
        return script if self.count <= self.spared else script.replace(self.old, self.new)


ACCEPT_ALL = "iptables -w -I INPUT 1 -j ACCEPT\niptables -w -S 2>/dev/null"
PREROUTING = "iptables -w -t mangle -A PREROUTING"
ACCEPT_TCP = ACCEPT_ALL.replace("-j", "-p tcp -j")
FORGET_TCP = "iptables -w -S 2>/dev/null; iptables -w -D fedtest-faults 1 2>/dev/null"
TAMPERED = [
    # The rules read back as they should, and only the measuring tells.
    ("cut: {network: data, from: a, to: b}", "iptables -w -S 2>/dev/null", ACCEPT_ALL,
     "what is sent from a to b"),
    ("partition: {network: data, sides: [[a], [b, c]]}", "iptables -w -S 2>/dev/null", ACCEPT_ALL,
     "arrives"),
    ("block: {host: b, ports: [7000]}", "iptables -w -S 2>/dev/null", ACCEPT_ALL, "UDP port 7000"),
    ("block: {host: b, ports: [7000], answer: reject}", "iptables -w -S 2>/dev/null", ACCEPT_TCP,
     "TCP port 7000) does not come by what should keep it out"),
    ("block: {host: b, ports: [7000]}", "iptables -w -S 2>/dev/null", FORGET_TCP,
     "TCP port 7000) arrives"),
    ("cut: {network: data}", "-j DROP", "-j ACCEPT", "the rules of fedtest-faults should be"),
    ("interface: {host: b, network: data, down: true}", "link set dev ib0 down",
     "link set dev ib0 up", "interface ib0 (network data) is up"),
    ("interface: {host: b, network: data, name: eth9}", "set -eu",
     "set -eu; ip link add eth9 type veth peer name eth8", "changing the network of host b"),
    ("interface: {host: b, network: data, ip: 10.66.7.99}", "ip address add 10.66.7.99/24",
     "ip address add 10.66.7.98/24", "should have 10.66.7.99/24, it has 10.66.7.98/24"),
    ("resolve: {host: b, names: {a: missing}}", "cat > /etc/hosts", "cat > /dev/null",
     "host b: /etc/hosts is not what it should be"),
    ("link: {network: data, change: {delay: 50ms}}", ":50000:0", ":10000:0",
     "the delays should be 1:50000:0, they are 1:10000:0"),
    ("link: {network: data, change: {rate: 5mbit}}", "5000000bit", "50000000bit",
     "class 1:2 should have 5000000 bit/s, it has 5e+07"),
    # These three read back as they should as well.
    ("link: {network: data, change: {delay: 55ms}}", "= came + self.delay", "= came + 0.01",
     "a round trip"),
    ("link: {network: data, change: {rate: 6mbit}}", "htb default 2", "htb default 0", "the rate"),
    ("link: {network: data, change: {loss: 20%}}", f"{PREROUTING} -j fedtest-links",
     f"{PREROUTING} -j ACCEPT\n{PREROUTING} -j fedtest-links", "packets lost"),
]  # fmt: skip


def run(
    runs: Path, fault: str, engine: Callable[[], Engine], link: str = "{}", more: str = ""
) -> Result:
    text = scenario(fault, link) + more
    return Runner(loads(text).scenario, engine, Observer(), runs).run()


def reason(result: Result) -> str:
    assert result.verdict is Verdict.INVALID
    return result.problems[0].message


@without_docker
@pytest.mark.parametrize("tampered", TAMPERED, ids=[" ".join(item[::3]) for item in TAMPERED])
def test_what_is_not_as_asked_for_is_noticed(
    tmp_path: Path, engine_name: str, tampered: tuple[str, str, str, str]
) -> None:
    fault, old, new, said = tampered
    bent = Tampered(open_engine(engine_name), old, new)
    found = reason(run(tmp_path, f"{fault}, at: 0s", lambda: bent.engine))
    assert bent.count
    assert found.startswith("fault x: was not applied: ")
    assert said in found


# What is done when the fault comes, too, is left alone there.
LOOKS = 'echo "==> 0 <=="'
NOT_HEALED = [
    ("cut: {network: data, from: a, to: b}", "iptables -w -D INPUT -j fedtest-faults", 0, "true",
     "host b: the rules of fedtest-faults should be none, they are"),
    ("interface: {host: b, network: data, down: true}", LOOKS, 1,
     f"ip link set dev ib0 down; {LOOKS}",
     "host b: interface ib0 (network data) is down"),
    ("resolve: {host: b, names: {a: missing}}", "cat > /etc/hosts", 1, "cat > /dev/null",
     "host b: /etc/hosts is not what it should be"),
    ("fill: {host: b, path: /dev/shm}", "rm -f .fedtest-full\n", 0, "",
     "host b: nothing can be written to /dev/shm yet: "),
]  # fmt: skip


@pytest.mark.parametrize("tampered", NOT_HEALED, ids=[item[0] for item in NOT_HEALED])
def test_a_fault_that_is_not_healed_is_noticed(
    tmp_path: Path, engine_name: str, tampered: tuple[str, str, int, str, str]
) -> None:
    fault, old, spared, new, said = tampered
    bent = Tampered(open_engine(engine_name), old, new, spared)
    found = reason(run(tmp_path, f"{fault}, at: 0s, for: 100ms", lambda: bent.engine))
    assert bent.count > spared
    assert found.startswith("fault x: was not healed: ")
    assert said in found


def test_processes_that_do_not_go_on_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine_name: str
) -> None:
    monkeypatch.setattr(machines, "_WAIT", 1.0)
    engine = open_engine(engine_name)
    send = engine.signal

    def but_for_one(
        run: RunTag, pids: Mapping[ProcessKey, int], number: int
    ) -> Collection[ProcessKey]:
        return () if number == signal.SIGCONT else send(run, pids, number)

    monkeypatch.setattr(engine, "signal", but_for_one)
    found = reason(run(tmp_path, "pause: {process: work}, at: 0s, for: 100ms", lambda: engine))
    assert found.startswith("fault x: was not healed: ")
    assert "it is not so that each goes on: work on a, work on b" in found


# What undoes it is not done.
UNDONE = [
    ("delay: 50ms", [('if [ -f "/tmp/fedtest-delay-', 'if [ -f "/nowhere-')],
     "a helper for queue 1 is there, and nothing asks for it"),
    ("rate: 5mbit", [("tc qdisc del", "tc qdisc show")],
     "class 1:2 with 5e+06 bit/s is there, and nothing asks for it"),
    ("loss: 20%", [("mangle -D PREROUTING", "mangle -S PREROUTING"), ("mangle -F", "mangle -S")],
     "fedtest-links should have the rules none, it has -A fedtest-links -i"),
]  # fmt: skip


@without_docker
@pytest.mark.parametrize("undone", UNDONE, ids=[item[0] for item in UNDONE])
def test_a_link_that_is_not_healed_is_noticed(
    tmp_path: Path, engine_name: str, undone: tuple[str, list[tuple[str, str]], str]
) -> None:
    """On hosts without conditions of their own, as most are."""
    change, lines, said = undone
    engine = open_engine(engine_name)
    bent = [Tampered(engine, old, new) for old, new in lines]
    fault = f"link: {{network: data, change: {{{change}}}}}, at: 0s, for: 100ms"
    # Who does not notice should not wait for the processes.
    otherwise = "  - {kill: {process: work}, when: x.healed}\n"
    found = reason(run(tmp_path, fault, lambda: engine, more=otherwise))
    assert all(item.count for item in bent)
    assert found.startswith("fault x: was not healed: ")
    assert said in found


WITHOUT_IPV6 = """processes: {work: {hosts: [a, b], run: sleep 300}}
checks: [exit: {process: work, signal: KILL}]
faults:
  - {cut: {network: data}, at: 0s, for: 100ms, id: cut}
  - {block: {host: b, ports: [7000]}, when: cut.healed, for: 100ms, id: block}
  - {kill: {process: work}, when: block.healed}
"""


@without_docker
@pytest.mark.parametrize("measured", [True, False])
def test_where_ip6tables_does_not_work_what_there_is_is_measured(
    tmp_path: Path, engine_name: str, *, measured: bool
) -> None:
    bent = Tampered(open_engine(engine_name), "ip6tables", "no6tables")
    if not measured:
        bent = Tampered(bent.engine, "iptables -w -S 2>/dev/null", ACCEPT_ALL)
    text = hosts("10.66.7.0/24") + WITHOUT_IPV6
    found = Runner(loads(text).scenario, lambda: bent.engine, Observer(), tmp_path).run()
    assert bent.count
    if measured:
        assert found.verdict is Verdict.PASSED, found.problems
    else:
        assert "fault cut: was not applied: what is sent" in reason(found)


@docker
def test_processes_that_get_no_signal_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machines, "_WAIT", 1.0)
    monkeypatch.setattr(docker_engine, "signal_processes", lambda *_, **__: ())
    found = reason(run(tmp_path, "pause: {process: work}, at: 0s", DockerEngine))
    assert "it is not so that each stands still: work on a, work on b" in found


@without_docker
@pytest.mark.parametrize(
    ("kind", "said"),
    [("pause", "stands still"), ("kill", "is gone"), ("restart", "is gone")],
)
def test_signals_that_do_not_arrive_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine_name: str, kind: str, said: str
) -> None:
    monkeypatch.setattr(machines, "_WAIT", 1.0)
    engine = open_engine(engine_name)
    monkeypatch.setattr(engine, "signal", lambda *_: ())
    found = reason(run(tmp_path, f"{kind}: {{process: work}}, at: 0s", lambda: engine))
    assert f"it is not so that each {said}: work on a, work on b" in found


def test_a_signal_that_finds_nobody_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine_name: str
) -> None:
    engine = open_engine(engine_name)
    send = engine.signal

    def to_others(run: RunTag, pids: Mapping[ProcessKey, int], number: int) -> Any:
        # On b to a process that nobody has: ids end before.
        others = {key: 1 << 23 if key.host == "b" else pid for key, pid in pids.items()}
        return send(run, pids if number == signal.SIGKILL else others, number)

    monkeypatch.setattr(engine, "signal", to_others)
    found = reason(run(tmp_path, "kill: {process: work, signal: TERM}, at: 0s", lambda: engine))
    assert found == "fault x: was not applied: the signal found nobody: work on b"


@docker
@pytest.mark.parametrize(
    ("fault", "call", "said"),
    [
        ("pause: {host: b}, at: 0s", "pause", "host b should be paused, it is on"),
        ("pause: {host: b}, at: 0s, for: 100ms", "unpause", "host b should be on, it is paused"),
        ("stop: {host: b}, at: 0s", "kill", "host b should be off, it is on"),
        ("restart: {host: b}, at: 0s", "kill", "host b should be off, it is on"),
    ],
)
def test_a_host_that_the_engine_does_not_switch_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, call: str, said: str
) -> None:
    opened: list[DockerEngine] = []

    def nothing(*_: Any, **__: Any) -> None:
        """The engine's answer to what it does not do."""

    def engine() -> DockerEngine:
        opened.append(DockerEngine())
        monkeypatch.setattr(type(opened[0]._client.api), call, nothing)
        if call == "kill":
            # It would wait for the end of what goes on.
            monkeypatch.setattr(type(opened[0]._client.api), "wait", nothing)
        return opened[0]

    found = reason(run(tmp_path, fault, engine))
    assert said in found
    assert f"was not {'healed' if call == 'unpause' else 'applied'}: " in found


@pytest.mark.parametrize(
    ("fault", "when"),
    [
        ("stop: {host: b}, at: 0s, for: 100ms", "healed"),
        ("restart: {host: b}, at: 0s", "applied"),
    ],
)
def test_a_host_that_was_on_all_the_time_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine_name: str, fault: str, when: str
) -> None:
    """Whatever the engine says of it: its first process is the one from before."""
    engine = open_engine(engine_name)
    monkeypatch.setattr(engine, "power", lambda *_: None)
    found = reason(run(tmp_path, fault, lambda: engine))
    assert found == f"fault x: was not {when}: on all the time, never off: b"


@pytest.mark.parametrize("kind", ["stop", "restart"])
def test_a_host_that_does_not_come_back_as_planned_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine_name: str, kind: str
) -> None:
    """Its links are to be there again; these scripts make others."""
    lasts = ", for: 100ms" if kind == "stop" else ""
    fault = f"{kind}: {{host: b}}, when: {{process: work, state: started}}, at: 500ms{lasts}"
    bent = Tampered(open_engine(engine_name), "\0", "")
    power = bent.engine.power

    def switch(*given: Any) -> None:
        bent.old, bent.new = "0.05", "0.01"
        power(*given)

    monkeypatch.setattr(bent.engine, "power", switch)
    found = reason(run(tmp_path, fault, lambda: bent.engine, "{loss: 5%, probe: false}"))
    assert "should have the rules" in found
