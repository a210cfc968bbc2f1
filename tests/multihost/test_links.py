"""Conditions on real hosts: each kind works, and it is noticed when it does not."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import pytest
from conftest import CommandLine, left_behind, run_with

from fedtest.engine.choose import open_engine
from fedtest.links import admission, apply, commands
from fedtest.run.result import Result, Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from fedtest.engine.base import Engine
# The same code looks and judges on every engine; without Docker it takes less time.
without_docker = pytest.mark.netns

SCENARIO = """
fedtest: 1
name: links
networks:
  mgmt: {{}}
  data: {{{network}}}
hosts:
  a: {{nics: {{mgmt: mgmt0, data: eth0}}{more}}}
  b: {{nics: {{mgmt: mgmt0, data: ib0}}}}
processes:
  work:
    hosts: [b]
    run: {run}
    deadline: 60s
checks:
  - exit: {{process: work}}
  - bytes: {{host: a, network: data, direction: tx, max: {most}}}
"""

CONNECT = """
import socket, sys
for place in sys.argv[1:]:
    address, port = place.split(":")
    try:
        with socket.create_connection((address, int(port)), 3) as sock:
            sock.settimeout(1)
            print(port, sock.recv(12).decode())
    except OSError as error:
        print(port, type(error).__name__)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(1)
        sock.connect((address, int(port)))
        try:
            sock.send(b"x")
            sock.recv(1)
        except OSError as error:
            print(port, "by UDP", type(error).__name__)
"""


def scenario(network: str, run: str = "true", more: str = "", most: str = "100kB") -> str:
    return SCENARIO.format(network=network, run=json.dumps(run), more=more, most=most)


def passed(fedtest: CommandLine, text: str) -> dict[str, Any]:
    """links.json of a run that passed."""
    done = fedtest("run", fedtest.scenario("links", text))
    assert done.code == 0, done.out + done.err
    found: dict[str, Any] = json.loads((done.runs / "latest" / "links.json").read_text())
    assert all(figure["fits"] for item in latest(found) for figure in item["figures"])
    return found


def latest(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The last measurement of each way: earlier ones were repeated."""
    by_way = {(item["from"], item["to"]): item for item in record["measured"]}
    return list(by_way.values())


def figures(record: dict[str, Any], sender: str = "a") -> dict[str, float]:
    item = next(item for item in latest(record) if item["from"] == sender)
    return {figure["what"]: figure["found"] for figure in item["figures"]}


def log(fedtest: CommandLine) -> str:
    return (fedtest.runs / "latest" / "logs" / "b.work.log").read_text(encoding="utf-8")


@pytest.mark.parametrize("rate", [10, 100, 1000])
@pytest.mark.measures
def test_a_rate_holds(fedtest: CommandLine, rate: int) -> None:
    record = passed(fedtest, scenario(f"link: {{rate: {rate}mbit}}"))
    assert figures(record)["the rate"] == pytest.approx(rate, rel=0.05)


@pytest.mark.parametrize("delay", [1, 5, 50, 200])
@pytest.mark.measures
def test_a_delay_holds_with_a_rate_and_is_there_for_a_users_own_packets(
    fedtest: CommandLine, delay: int
) -> None:
    echo = "python -m fedtest.probe.echo -c 5 ${{ hosts.a.nics.data.ip }}"
    record = passed(fedtest, scenario(f"link: {{rate: 100mbit, delay: {delay}ms}}", echo))
    due = pytest.approx(2 * delay, abs=0.05 * 2 * delay + 1)  # within 5 % and 1 ms
    assert figures(record)["a round trip"] == due
    fastest = float(log(fedtest).rpartition("= ")[2].split("/")[0])
    assert fastest == due


@pytest.mark.measures
def test_jitter_is_there(fedtest: CommandLine) -> None:
    passed(fedtest, scenario("link: {delay: 30ms, jitter: 10ms}"))


@without_docker
@pytest.mark.parametrize("loss", [1, 5])
@pytest.mark.measures
def test_loss_is_there(fedtest: CommandLine, loss: int) -> None:
    record = passed(fedtest, scenario(f"link: {{loss: {loss}%}}"))
    assert any("packets lost" in what and found for what, found in figures(record).items())


def test_an_mtu_is_there_for_a_users_own_packets(fedtest: CommandLine) -> None:
    echo = (
        "python -m fedtest.probe.echo -s 8000 ${{ hosts.a.nics.data.ip }} &&"
        " ! python -m fedtest.probe.echo -s 9000 ${{ hosts.a.nics.data.ip }}"
    )
    passed(fedtest, scenario("link: {mtu: 9000}", echo))


@pytest.mark.measures
def test_a_pair_has_its_own_conditions_and_others_have_not(fedtest: CommandLine) -> None:
    pairs = "pairs: [{from: a, to: b, link: {rate: 10mbit, delay: 40ms}}]"
    record = passed(fedtest, scenario(f"link: {{rate: 100mbit, delay: 5ms}}, {pairs}"))
    assert figures(record)["the rate"] == pytest.approx(10, rel=0.05)
    assert figures(record, "b")["the rate"] == pytest.approx(100, rel=0.05)
    assert figures(record)["a round trip"] == pytest.approx(45, rel=0.1)


@pytest.mark.measures
def test_an_attachment_has_its_own_conditions(fedtest: CommandLine) -> None:
    text = scenario("").replace("data: ib0", "data: {name: ib0, link: {delay: 40ms}}")
    assert figures(passed(fedtest, text), "b")["a round trip"] == pytest.approx(40, rel=0.1)


BURST = """
import socket, sys, time
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
    for _ in range(100):
        end.sendto(bytes(1000), (sys.argv[1], 6000))
"""


@without_docker
@pytest.mark.parametrize(("queue", "limits"), [("20kB", "max: 60kB"), ("1MB", "min: 100kB")])
@pytest.mark.measures
def test_a_queue_holds_so_much_and_no_more(fedtest: CommandLine, queue: str, limits: str) -> None:
    """A burst at a slow link: what has no room in the queue never leaves."""
    run = shlex.join(["python3", "-c", BURST, "${{ hosts.a.nics.data.ip }}"])
    text = scenario(f"link: {{rate: 1mbit, queue: {queue}, probe: false}}", run)
    text += f"  - bytes: {{host: b, network: data, direction: tx, {limits}}}\n"
    # What waits in the queue when the sender has ended leaves later.
    text = text.replace("deadline: 60s", "deadline: 60s\n  wait: {hosts: [b], run: sleep 3}")
    passed(fedtest, text)


@pytest.mark.measures
def test_the_measuring_is_not_counted_as_the_processes_bytes(fedtest: CommandLine) -> None:
    passed(fedtest, scenario("link: {rate: 100mbit}", most="2kB"))


FIREWALL = (
    ", firewall: {accept: [23456], otherwise: OTHERWISE, networks: [data]},"
    " ports_in_use: [23456, {port: 23457, answers: nothing}]"
)


@pytest.mark.parametrize(
    ("otherwise", "seen"), [("reject", "ConnectionRefusedError"), ("drop", "TimeoutError")]
)
def test_only_the_open_port_is_open_and_something_else_listens_there(
    fedtest: CommandLine, otherwise: str, seen: str
) -> None:
    places = [
        f"${{{{ hosts.a.nics.{network}.ip }}}}:{port}"
        for network in ("data", "mgmt")
        for port in (23456, 23457)
    ]
    run = shlex.join(["python3", "-c", CONNECT, *places])
    passed(fedtest, scenario("", run, FIREWALL.replace("OTHERWISE", otherwise)))
    wrong = "23456 HTTP/1.1 400"
    said = log(fedtest).splitlines()
    assert said[::2] == [wrong, f"23457 {seen}", wrong, "23457 TimeoutError"]
    # Nobody listens there: what is let in is refused by the host itself.
    refused = "by UDP ConnectionRefusedError"
    assert said[1] == f"23456 {refused}"
    assert said[3] == f"23457 by UDP {seen}"
    assert said[5::2] == [f"23456 {refused}", f"23457 {refused}"]


def test_what_only_netem_can_do_ends_the_run_before_anything_is_made(
    fedtest: CommandLine, engine: Engine
) -> None:
    if engine.info().netem:
        pytest.skip("this kernel has netem")
    done = fedtest("run", fedtest.scenario("links", scenario("link: {duplicate: 1%}")))
    assert done.code == 3, done.out + done.err
    assert "only netem can do" in done.out
    assert "sch_netem" in done.out
    assert [stage["name"] for stage in done.result["stages"]][-2:] == [
        "images and data",
        "clean-up",
    ]
    assert left_behind(done.result["id"]) == []


PAIRS = "pairs: [{from: a, to: b, link: {rate: 10mbit}}, {from: b, to: a, link: {rate: 10mbit}}]"

# Each of these is broken on purpose: what is asked for is not what is done.
BROKEN = [
    ("link: {rate: 100mbit}", "100000000bit", "50000000bit", "class 1:2 should have"),
    ("link: {rate: 100mbit, mtu: 1400}", "mtu 1400", "mtu 1450", "mtu should be 1400"),
    ("link: {rate: 100mbit, queue: 100kB}", "limit 100000", "limit 200000", "limit"),
    (f"link: {{rate: 1gbit}}, {PAIRS}", "10000000bit", "20000000bit", "should have"),
    ("link: {loss: 5%}", "0.05", "0.01", "should have the rules"),
    ("link: {delay: 5ms}", "--queue-num 1", "--queue-num 2", "should have the rules"),
    ("link: {delay: 20ms}", "1:20000:0", "1:10000:0", "the delays should be 1:20000:0"),
]
# These read back as they should, and only the measuring tells.
MISSED = [
    ("link: {delay: 20ms}", "= came + self.delay", "= came + 0.01", "a round trip should be 38"),
    ("link: {delay: 20ms, jitter: 10ms}", "if self.jitter:", "if False:", "the jitter"),
]


def run_on(engine: str, text: str, runs: Path) -> Result:
    return run_with(open_engine(engine), text, runs)


def run_broken(
    monkeypatch: pytest.MonkeyPatch, runs: Path, text: str, engine: str, *, old: str, new: str
) -> Result:
    """A run whose scripts have been tampered with."""
    original = apply.script

    def tampered(item: commands.Commands) -> str:
        whole = original(item)
        assert old in whole
        return whole.replace(old, new)

    monkeypatch.setattr(apply, "script", tampered)
    return run_on(engine, text, runs)


@without_docker
@pytest.mark.parametrize("broken", [*BROKEN, *MISSED], ids=lambda broken: str(broken[2]))
@pytest.mark.measures
def test_a_link_that_is_not_as_asked_for_makes_the_run_invalid(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    engine_name: str,
    broken: tuple[str, str, str, str],
) -> None:
    network, old, new, said = broken
    result = run_broken(monkeypatch, tmp_path, scenario(network), engine_name, old=old, new=new)
    assert result.verdict is Verdict.INVALID
    assert said in result.problems[0].message
    assert result.processes == ()


def test_scripts_that_do_nothing_make_the_run_invalid(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, engine_name: str
) -> None:
    monkeypatch.setattr(apply, "script", lambda *_: "true\n")
    text = scenario("link: {rate: 100mbit, delay: 5ms, loss: 1%}")
    result = run_on(engine_name, text, tmp_path)
    assert result.verdict is Verdict.INVALID
    assert "nobody delays the packets of queue 1" in result.problems[0].message


@without_docker
def test_a_firewall_that_lets_everything_in_makes_the_run_invalid(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, engine_name: str
) -> None:
    original = admission.script

    def open_to_all(item: commands.Commands) -> str:
        # The rules are there, and an earlier one lets everything pass by them.
        return f"iptables -w -I INPUT -j ACCEPT\n{original(item)}"

    monkeypatch.setattr(admission, "script", open_to_all)
    text = scenario("", more=", firewall: {accept: [23456]}")
    result = run_on(engine_name, text, tmp_path)
    assert result.verdict is Verdict.INVALID
    assert "of a should be refused, it is silent" in result.problems[0].message


@without_docker
def test_a_port_that_nobody_has_taken_makes_the_run_invalid(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, engine_name: str
) -> None:
    monkeypatch.setattr(admission, "script", lambda _: "true\n")
    text = scenario("", more=", ports_in_use: [29500]")
    result = run_on(engine_name, text, tmp_path)
    assert result.verdict is Verdict.INVALID
    assert "port 29500 of a should be answered, it is refused" in result.problems[0].message
