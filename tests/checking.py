"""Evidence for tests of checks: what a run measured, written by hand."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from fedtest.engine.base import ProcessKey, RunTag
from fedtest.engine.fake import Defects, FakeEngine
from fedtest.engine.owner import Owner
from fedtest.engine.snapshot import TcpSocket
from fedtest.plan import make_plan
from fedtest.run.checks import evaluate
from fedtest.run.checks.needs import declare, examinations
from fedtest.run.checks.repeated import Repeated
from fedtest.run.evidence import Evidence, ProcessState
from fedtest.run.logs import ProcessLog
from fedtest.scenario.load import loads
from fedtest.subnets import choose

if TYPE_CHECKING:
    from pathlib import Path

    from fedtest.run.result import CheckResult

SCENARIO = """
fedtest: 1
name: checked
networks:
  mgmt: {subnet: 10.1.0.0/24}
  data: {subnet: 192.168.0.0/24}
hosts:
  a: {nics: {mgmt: mgmt0, data: {name: eth0, ip: 192.168.0.10}}}
  b: {nics: {mgmt: mgmt0, data: {name: ib0, ip: 192.168.0.11}}}
groups:
  ring: {members: [a, b], network: data, port: 23456}
processes:
  trainer: {hosts: ring, run: "true"}
  other: {hosts: [a], run: "true"}
"""


class Case:
    """Evidence of the scenario above, to be changed and then checked."""

    def __init__(self, path: Path) -> None:
        scenario = loads(SCENARIO).scenario
        self.plan = make_plan(scenario, choose(scenario, "", ()))
        self.engine = FakeEngine()
        self.run = RunTag("r", "s", Owner.me())
        self.hosts = ["a", "b"]
        self._said: list[tuple[str, str, str, str, Any, float]] = []
        before = self.engine.realise(
            self.plan, self.run, self.engine.prepare(self.plan, self.run, print), print, 1
        )
        self.evidence = Evidence(self.plan, before=dict(before))
        for process in self.plan.processes:
            key = ProcessKey(process.host, process.name)
            log = ProcessLog(path / str(key))
            log.feed("stdout", b"its last words\n")
            log.close()
            self.evidence.processes[key] = ProcessState(
                process, log, pid=7, started=0.0, ended=1.0, status=0
            )

    def state(self, host: str, process: str = "trainer") -> ProcessState:
        return self.evidence.processes[ProcessKey(host, process)]

    def report(self, name: str, a: Any, b: Any) -> None:
        self.state("a").values[name] = a
        self.state("b").values[name] = b

    def sockets(self, host: str, *pairs: tuple[str, int]) -> None:
        self.state(host).sockets |= {
            TcpSocket(ip_address(local), 40000, ip_address("192.168.0.1"), port, "established", 7)
            for local, port in pairs
        }

    def traffic(self, traffic: dict[tuple[str, str], int]) -> None:
        self.engine.defects = Defects(traffic=traffic)
        self.evidence.after = dict(self.engine.observe(self.run, self.hosts, 1))

    def listens(self, host: str, local: str, port: int) -> None:
        any_address = ip_address("::")
        self.state(host).sockets.add(
            TcpSocket(ip_address(local), port, any_address, 0, "listen", 7)
        )

    def prints(
        self, host: str, *lines: str, at: float = 0.0, stream: str = "stdout", by: str = "trainer"
    ) -> None:
        """Lines that come at a time; `check` has them looked at as a run would."""
        self._said += [("line", host, by, stream, line, at) for line in lines]

    def reports(
        self, host: str, name: str, *values: Any, at: float = 0.0, by: str = "trainer"
    ) -> None:
        self._said += [("report", host, by, name, value, at) for value in values]

    def check(self, text: str) -> CheckResult:
        scenario = loads(f"{SCENARIO}checks: [{{{text}}}]\n").scenario
        declare(scenario, self.evidence)
        for what, host, process, name, content, at in self._said:
            getattr(self.state(host, process), what)(name, content, at)
        wanted = examinations(scenario.checks, self.evidence)
        self.evidence.examined = dict(self.engine.examine(self.run, wanted, 30))
        repeated = Repeated(scenario, self.evidence, lambda: 0.0)
        result, *_ = evaluate(scenario, self.evidence, repeated)
        return result
