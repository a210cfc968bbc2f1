"""Runs side by side do not disturb each other."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from conftest import CommandLine, left_behind

if TYPE_CHECKING:
    from pathlib import Path


SCENARIO = """
fedtest: 1
name: neighbour
networks:
  data: {SUBNET}
hosts:
  a: {nics: {data: eth0}}
  b: {nics: {data: enps1}}
processes:
  p: {hosts: [a, b], run: python -m fedtest.probe.echo -c 2 -W 5 b, deadline: 60s}
checks:
  - exit: {process: p, code: 0}
"""


@pytest.mark.parametrize("subnet", ["", "subnet: 192.168.211.0/24"], ids=["own", "same fixed one"])
def test_runs_side_by_side_all_pass(fedtest: CommandLine, subnet: str) -> None:
    file = fedtest.scenario("neighbour", SCENARIO.replace("SUBNET", subnet))
    processes = [fedtest.start("run", file) for _ in range(4)]
    outcomes = [fedtest.end(process) for process in processes]
    assert [done.code for done in outcomes] == [0] * 4, [done.out for done in outcomes]


LIKE_NO_OTHER = {
    # There is no such host, whoever else has one.
    "must-fail": SCENARIO.replace("-W 5 b", "-W 5 c"),
    # Nothing can be made of an image that nobody has.
    "invalid": SCENARIO + "image: registry.invalid/nobody/has:this\n",
    "neighbour": SCENARIO,
    "overdue": SCENARIO.replace("echo -c 2", "echo -c 999").replace("60s", "4s"),
}


def verdict(runs: Path, name: str) -> tuple[str, list[bool], list[int | None]]:
    """What the only run of a scenario came to."""
    (path,) = runs.glob(f"*-{name}-*/result.json")
    result = json.loads(path.read_text(encoding="utf-8"))
    checks = [check["passed"] for check in result["checks"]]
    return result["verdict"], checks, [item["status"] for item in result["processes"]]


def test_eight_runs_at_once_give_the_verdicts_they_give_alone(
    tmp_path: Path, engine_name: str
) -> None:
    alone = {}
    for kind, scenario in LIKE_NO_OTHER.items():
        directory = tmp_path / kind
        directory.mkdir()
        command = CommandLine(directory, engine_name)
        text = scenario.replace("{SUBNET}", "{}").replace("name: neighbour", f"name: {kind}")
        code = command("run", command.scenario(kind, text), "--runs", "alone").code
        alone[kind] = (code, verdict(directory / "alone", kind))
    assert [code for code, _ in alone.values()] == [1, 3, 0, 1]

    started = []
    for number in range(2):
        for kind in LIKE_NO_OTHER:
            command = CommandLine(tmp_path / kind, engine_name)
            runs = f"at-once-{number}"
            process = command.start("run", f"{kind}.yaml", "--runs", runs)
            started.append((kind, command, runs, process))
    for kind, command, runs, process in started:
        done = command.end(process)
        found = (done.code, verdict(command.directory / runs, kind))
        assert found == alone[kind], done.out + done.err
    for path in tmp_path.glob("*/*/2*"):
        assert left_behind(path.name.rpartition("-")[2]) == []
