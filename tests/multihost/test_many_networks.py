"""More networks than an engine's own address pools have room for."""

from __future__ import annotations

from conftest import CommandLine, left_behind

COUNT = 40


def scenario() -> str:
    """A hub on all networks, two hosts on a half each; the hub speaks over every one of them."""
    networks = [f"n{number}" for number in range(COUNT)]
    halves = {"left": networks[: COUNT // 2], "right": networks[COUNT // 2 :]}
    hub = ", ".join(f"{name}: hub{at}" for at, name in enumerate(networks))
    leaves = {
        host: ", ".join(f"{name}: {host}{at}" for at, name in enumerate(half))
        for host, half in halves.items()
    }
    echo = "python -m fedtest.probe.echo -W 10"
    echoes = [
        f"{echo} -I hub{networks.index(name)} ${{{{ hosts.{host}.nics.{name}.ip }}}}"
        for host, half in halves.items()
        for name in half
    ]
    run = " &&\n      ".join(echoes)
    return f"""
fedtest: 1
name: many-networks
networks: {{{", ".join(f"{name}: {{}}" for name in networks)}}}
hosts:
  hub: {{nics: {{{hub}}}}}
  left: {{nics: {{{leaves["left"]}}}}}
  right: {{nics: {{{leaves["right"]}}}}}
processes:
  p:
    hosts: [hub]
    run: >-
      {run}
    deadline: 120s
checks:
  - exit: {{process: p, code: 0}}
  - log: {{process: p, match: "seq=1 time=", count: {COUNT}}}
  - packets: {{host: hub, network: n{COUNT - 1}, direction: tx, min: 1}}
"""


def test_forty_networks_in_one_scenario(fedtest: CommandLine) -> None:
    done = fedtest("run", fedtest.scenario("many-networks", scenario()))
    assert done.code == 0, done.out + done.err
    assert left_behind(done.result["id"]) == []
