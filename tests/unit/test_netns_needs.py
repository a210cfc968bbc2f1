"""What a plan misses of the machine is told at once, with the command that installs it."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from fedtest.cli import main
from fedtest.engine.base import RunTag
from fedtest.engine.machine import Machine
from fedtest.engine.netns import engine as netns_engine
from fedtest.engine.netns import limits, needs, usable
from fedtest.engine.netns.engine import NetnsEngine
from fedtest.engine.netns.node import choice
from fedtest.engine.owner import Owner
from fedtest.errors import DataError, EngineUnavailable, ExitCode
from fedtest.plan import make_plan
from fedtest.plan_tools import tools
from fedtest.scenario.load import loads
from fedtest.subnets import choose

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fedtest.plan import Plan

ENSURE = shlex.join([sys.executable, "-m", "fedtest", "engine", "ensure", "--engine", "netns"])
TWO = """
fedtest: 1
name: two
networks: {{lan: {network}}}
hosts:
  a: {{nics: {{lan: eth0}}{a}}}
  b: {{nics: {{lan: eth0}}}}
processes: {{p: {{hosts: [a], run: sleep 9}}}}
"""


def plan(network: str = "{}", a: str = "", more: str = "") -> Plan:
    scenario = loads(TWO.format(network=network, a=a) + more).scenario
    return make_plan(scenario, choose(scenario, "x", ()))


class Fake(Machine):
    """A machine with some programs."""

    def __init__(
        self, *there: str, debian: bool = True, root: bool = True, status: int = 0, brings: str = ""
    ) -> None:
        super().__init__({})
        self.there, self.debian, self.root = set(there), debian, root
        self.status, self.brings, self.ran = status, brings.split(), list[str]()

    def which(self, program: str) -> str | None:
        return f"/usr/bin/{program}" if program in self.there else None

    def is_root(self) -> bool:
        return self.root

    def is_debian(self) -> bool:
        return self.debian

    def run(self, command: list[str], timeout: float) -> tuple[int, str]:
        self.ran.append(" ".join(command))
        if "install" in command and not self.status:
            self.there.update(self.brings)
        return self.status, "  it says no"


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No program of those is there."""
    monkeypatch.setattr(needs, "program", lambda _: None)


FAULTS = """
faults:
  - {{{kind}: {spec}, at: 1s{lasts}}}
checks: [{{exit: {{process: p}}}}]
"""


def fault(kind: str, spec: str, lasts: str = ", for: 1s") -> str:
    return FAULTS.format(kind=kind, spec=spec, lasts=lasts)


@pytest.mark.parametrize(
    ("made", "programs"),
    [
        (plan(), []),
        (plan("{link: {delay: 5ms}}"), ["iptables", "ss", "tc"]),
        (plan("{link: {mtu: 1400}}"), ["iptables", "ss", "tc"]),
        (plan(a=", firewall: {accept: [1]}"), ["iptables", "ss"]),
        (plan(a=", ports_in_use: [1]"), ["iptables", "ss"]),
        (plan("{ipv6: true}"), []),
        (plan(a=", dns: {x.example: nxdomain}"), ["ss"]),
        (plan(more=fault("kill", "{process: p}", "")), []),
        (plan(more=fault("pause", "{host: a}")), []),
        (plan(more=fault("cut", "{network: lan}")), ["iptables"]),
        (plan(more=fault("partition", "{network: lan, sides: [[a], [b]]}")), ["iptables"]),
        (plan(more=fault("block", "{host: a, ports: [1]}")), ["iptables"]),
        (plan("{ipv6: true}", more=fault("cut", "{network: lan}")), ["ip6tables", "iptables"]),
        (
            plan(more=fault("link", "{network: lan, change: {delay: 5ms}}")),
            ["iptables", "ss", "tc"],
        ),
        (plan(more=fault("interface", "{host: a, network: lan, name: eth9}")), []),
    ],
)
def test_a_plan_needs_the_programs_of_what_it_asks_for(made: Plan, programs: list[str]) -> None:
    assert list(tools(made)) == programs


ROUTED = """
fedtest: 1
name: routed
networks: {left: {}, right: {NETWORK}}
resolve: left
hosts:
  a: {nics: {left: eth0}}
  r: {nics: {left: eth0, right: eth1}, forward: {nat: right}}
processes: {p: {hosts: [a], run: sleep 9}}
"""


@pytest.mark.parametrize(
    ("network", "program"), [("", "iptables"), ("ipv4: false, ipv6: true", "ip6tables")]
)
def test_masquerading_needs_the_program_of_its_family(network: str, program: str) -> None:
    scenario = loads(ROUTED.replace("NETWORK", network)).scenario
    assert list(tools(make_plan(scenario, choose(scenario, "x", ())))) == [program]


@pytest.mark.usefixtures("bare")
def test_all_that_is_missing_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "cannot", lambda _: "the kernel has none")
    wanted = plan("{link: {delay: 5ms}}", ", memory: 64MB, firewall: {accept: [1]}")
    further = [needs.Lack("torch", remedy="Do something for it.")]
    with pytest.raises(EngineUnavailable) as caught:
        needs.refuse_what_is_missing(wanted, further, Fake())
    (line,) = caught.value.message.splitlines()
    assert line.endswith(
        "ip, iptables (links, firewall), ss (links, firewall), tc (links), "
        "control groups (the kernel has none), torch"
    )
    assert caught.value.remedy.splitlines() == [
        f"{ENSURE} --install",
        f"Limits of hosts are kept {needs._KEPT}.",
        "Do something for it.",
    ]
    assert caught.value.exit_code is ExitCode.INVALID


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize(
    ("machine", "remedy"),
    [
        (Fake(), f"{ENSURE} --install"),
        (Fake("sudo", root=False), f"sudo {ENSURE} --install"),
        (Fake(root=False), f"{ENSURE} --install  # as root"),
        (Fake("dnf", debian=False), "dnf install iproute iproute-tc iptables-nft"),
        (Fake("pacman", "sudo", debian=False, root=False), "sudo pacman -S iproute2 iptables"),
        (Fake("apk", debian=False), "apk add iproute2 iptables"),
        (Fake("zypper", debian=False), "zypper install iproute2 iptables"),
        (Fake(debian=False), "install iproute2 and iptables as this system does"),
    ],
)
def test_the_command_is_this_machines_and_this_users(machine: Machine, remedy: str) -> None:
    with pytest.raises(EngineUnavailable) as caught:
        needs.refuse_what_is_missing(plan(a=", ports_in_use: [1]"), machine=machine)
    assert caught.value.remedy == remedy


@pytest.mark.usefixtures("bare")
def test_a_run_is_invalid_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(usable, "by_user_namespace", lambda: False)
    monkeypatch.setattr(NetnsEngine, "realise", None)
    file = tmp_path / "two.yaml"
    file.write_text(TWO.format(network="{link: {delay: 5ms}}", a=""), encoding="utf-8")
    order = ["run", str(file), "--engine", "netns", "--json", "--runs", str(tmp_path)]
    assert main(order) == ExitCode.INVALID
    told = json.loads(capsys.readouterr().out)
    (problem,) = told["problems"]
    assert told["verdict"] == problem["verdict"] == "invalid"
    assert problem["message"].endswith("need here: ip, iptables (links), ss (links), tc (links)")
    assert len((problem["message"] + problem["remedy"]).splitlines()) == 1


@pytest.mark.usefixtures("bare")
def test_torch_that_the_python_asked_for_has_not_is_told_with_the_tools(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(usable, "by_user_namespace", lambda: False)
    modules = replace(choice.own(), modules=frozenset())
    monkeypatch.setattr(choice, "of", lambda _: modules)
    wanted = plan(a=", ports_in_use: [1]", more="preload: [torch]\n")
    engine = NetnsEngine(python="/x/python")
    try:
        with pytest.raises(EngineUnavailable) as caught:
            engine.prepare(wanted, RunTag("x", "two", Owner.me()), told)
    finally:
        engine.close()
    assert "ip, iptables (ports_in_use), ss (ports_in_use), torch in " in caught.value.message
    assert "--install" in caught.value.remedy.splitlines()[0]
    assert "-m pip install torch" in caught.value.remedy.splitlines()[1]


def test_data_that_cannot_be_had_is_told_before_an_environment_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unavailable(name: str, _: object) -> str:
        raise DataError(f"{name} is not there")

    def made(*_: object, **__: object) -> None:
        raise AssertionError("an environment was made")

    monkeypatch.setattr(needs, "refuse_what_is_missing", lambda *_: None)
    monkeypatch.setattr(netns_engine, "data_directory", unavailable)
    monkeypatch.setattr(netns_engine, "choose", made)
    wanted = plan(more="data: {mnist: /data}\n")
    engine = NetnsEngine()
    try:
        with pytest.raises(DataError, match="mnist is not there"):
            engine.prepare(wanted, RunTag("x", "two", Owner.me()), told)
    finally:
        engine.close()


def test_what_a_plan_does_not_need_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "program", lambda name: "/bin/ip" if name == "ip" else None)
    monkeypatch.setattr(limits, "cannot", lambda _: "the kernel has none")
    needs.refuse_what_is_missing(plan())


@pytest.mark.usefixtures("bare")
def test_who_may_make_no_hosts_is_told_of_a_missing_ip_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden() -> None:
        raise EngineUnavailable("a setting forbids it", remedy="Change it.")

    monkeypatch.setattr(usable, "by_user_namespace", forbidden)
    with pytest.raises(
        EngineUnavailable, match="a setting forbids it; and there is no ip"
    ) as caught:
        NetnsEngine()
    assert caught.value.remedy.startswith("Change it.\nFor ip: ")


def groups(root: Path, version: int, *, controllers: str) -> None:
    if version == 2:
        (root / "cgroup.controllers").write_text(controllers, encoding="ascii")
    for name in controllers.split() if version == 1 else ():
        (root / name).mkdir()


@pytest.mark.parametrize("version", [1, 2])
def test_control_groups_that_keep_what_is_asked_for_are_told_from_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    monkeypatch.setattr(limits, "ROOT", str(tmp_path))
    assert limits.cannot(["memory"]).startswith("the kernel has none, or they are not mounted")
    groups(tmp_path, version, controllers="memory cpu")
    assert limits.cannot(["memory", "cpu"]) == ""
    assert limits.cannot(["memory", "pids"]) == "the kernel has none for pids"
    monkeypatch.setattr(limits.os, "access", lambda *_: False)
    assert limits.cannot(["memory"]).endswith(" cannot be written")


@pytest.fixture
def _private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


ALL = [tool.name for tool in needs.TOOLS]


def told(_: str) -> None:
    """Progress that nobody reads."""


@pytest.mark.usefixtures("_private")
def test_tools_that_are_there_are_left_alone() -> None:
    machine = Fake(*ALL)
    assert "there already" in needs.ensure_tools(told, allowed=True, machine=machine)
    assert machine.ran == []


@pytest.mark.usefixtures("_private")
def test_packages_of_missing_tools_are_installed() -> None:
    machine = Fake("iptables", "ip6tables", brings="ip tc ss")
    said = needs.ensure_tools(told, allowed=True, machine=machine)
    assert said == "hosts without Docker: installed iproute2"
    assert machine.ran == [
        "apt-get update -q",
        "apt-get install -q -y --no-install-recommends iproute2",
    ]


class Meanwhile(Fake):
    """A machine on which another process installs all after the first look."""

    def which(self, program: str) -> str | None:
        found = super().which(program)
        if program == ALL[-1]:
            self.there.update(ALL)
        return found


@pytest.mark.usefixtures("_private")
@pytest.mark.parametrize("allowed", [True, False])
def test_tools_that_came_while_it_waited_for_its_turn_are_not_installed(allowed: bool) -> None:
    machine = Meanwhile()
    assert "there already" in needs.ensure_tools(told, allowed=allowed, machine=machine)
    assert machine.ran == []


@pytest.mark.usefixtures("_private")
@pytest.mark.parametrize(
    ("machine", "allowed", "message", "remedy"),
    [
        (Fake("ip"), False, "tc, ss, iptables, ip6tables", "--install"),
        (Fake("dnf", debian=False), True, "only Debian", "again:\ndnf install iproute"),
        (Fake(root=False), True, "iproute2 and iptables takes root", "sudo"),
        (Fake(status=1), True, "it says no", "complains"),
        (Fake(brings="ip tc ss"), True, "still there is no iptables, ip6tables", "/usr/sbin"),
    ],
)
def test_tools_that_cannot_be_had_are_told(
    machine: Fake, allowed: bool, message: str, remedy: str
) -> None:
    with pytest.raises(EngineUnavailable, match=message) as caught:
        needs.ensure_tools(told, allowed=allowed, machine=machine)
    assert remedy in caught.value.remedy


def test_each_tool_is_listed_with_what_goes_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "program", lambda name: None if "tables" in name else f"/x/{name}")
    monkeypatch.setattr(limits, "cannot", lambda _: "nowhere")
    found = dict(needs.rows())
    assert [*found] == [*ALL, "control groups", "netem"]
    assert found["ip"] == "/x/ip"
    assert found["iptables"].startswith("missing (package iptables): without it no links")
    assert found["control groups"] == (
        "missing (nowhere): without them no cpus, memory, pids of hosts"
    )


def bent(monkeypatch: pytest.MonkeyPatch, tools: Callable[[], str]) -> list[str]:
    """What the command line asked for is listed; no engine is touched."""
    from fedtest.engine.docker import ensure

    asked: list[str] = []

    def engine(*_: object, install: bool) -> str:
        asked.append(f"engine {install}")
        return "an engine"

    def ensure_tools(*_: object, allowed: bool) -> str:
        asked.append(f"tools {allowed}")
        return tools()

    monkeypatch.setattr(ensure, "ensure", engine)
    monkeypatch.setattr(needs, "ensure_tools", ensure_tools)
    return asked


def lacking() -> str:
    raise EngineUnavailable("there is no tc", remedy="install it")


@pytest.mark.parametrize(
    ("words", "code", "asked"),
    [
        ("engine ensure", 0, ["tools False", "engine False"]),
        ("engine ensure --install", 3, ["tools True", "engine True"]),
        ("engine ensure --engine docker --install", 0, ["engine True"]),
        ("engine ensure --engine netns", 3, ["tools False"]),
        ("engine --engine netns ensure", 3, ["tools False"]),
        ("engine ensure --engine netns --install", 3, ["tools True"]),
    ],
)
def test_ensure_is_about_the_engine_that_is_named(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: str,
    code: int,
    asked: list[str],
) -> None:
    found = bent(monkeypatch, lacking)
    assert main(words.split()) == code
    assert found == asked
    assert ("there is no tc" in capsys.readouterr().err) is (asked[0] != "engine True")


def test_missing_tools_are_told_also_where_no_engine_can_be_had(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from fedtest.engine.docker import ensure

    def none(*_: object, **__: object) -> None:
        raise EngineUnavailable("no engine")

    bent(monkeypatch, lacking)
    monkeypatch.setattr(ensure, "ensure", none)
    assert main(["engine", "ensure"]) == ExitCode.INVALID
    said = capsys.readouterr().err
    assert "there is no tc" in said
    assert "no engine" in said


def test_tools_are_listed_where_there_is_no_engine(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from fedtest.engine import choose

    def none(*_: object, **__: object) -> None:
        raise EngineUnavailable("no engine")

    monkeypatch.setattr(choose, "open_engine", none)
    assert main(["engine"]) == ExitCode.INVALID
    said = capsys.readouterr()
    assert "iptables:" in said.out
    assert "no engine" in said.err


def test_netem_is_looked_for_with_roots_directories_whatever_path_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from fedtest.engine import netem

    looked: list[tuple[str, str]] = []

    def which(name: str, path: str) -> None:
        looked.append((name, path))

    monkeypatch.setattr(netem.shutil, "which", which)
    monkeypatch.setenv("PATH", "/nowhere")
    assert netem.has_netem(netem.platform.release()) is None
    assert looked == [
        (name, "/nowhere:/usr/local/sbin:/usr/sbin:/sbin") for name in ("unshare", "tc")
    ]
