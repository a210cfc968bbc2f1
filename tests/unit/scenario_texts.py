"""Scenarios as text, and how a test says where in them something is wrong.

A `§` in a text is the place at which a problem is expected; it is taken out
before the text is loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fedtest.errors import ScenarioError
from fedtest.scenario.load import loads

if TYPE_CHECKING:
    from fedtest.scenario.problems import Problem

BASE = """\
fedtest: 1
name: base
networks:
  mgmt: {}
  data: {subnet: 192.168.0.0/24, gateway: 192.168.0.254}
  spare: {}
hosts:
  a: {nics: {mgmt: mgmt0, data: {name: eth0, ip: 192.168.0.1}}}
  b: {nics: {mgmt: mgmt0, data: ib0}}
  c: {nics: {spare: eth0}}
data: {mnist: /data}
groups:
  ring: {members: [a, b], network: data, port: 23456}
processes:
  trainer: {hosts: ring, run: "true"}
  other: {hosts: [a, c], run: ["true"]}
checks:
  - exit: {process: trainer, code: 0}
  - bytes: {group: ring, network: data, direction: tx, min: 5MB}
"""


NETS = """\
fedtest: 1
name: nets
networks:
  mgmt: {ipv6: true}
  left: {subnet: 10.1.0.0/24, subnet6: "fd00:1::/64"}
  right: {subnet: 10.2.0.0/24}
  six: {ipv4: false, subnet6: "fd00:6::/120"}
dns: {web.example: a}
hosts:
  a:
    nics:
      mgmt: mgmt0
      left: {name: eth0, ip: 10.1.0.10, ip6: "fd00:1::10", mac: "02:00:00:00:00:01"}
      six: ib0
    aliases: [head, head.example]
    names: {b: missing, c: 127.0.1.1, d: a}
    gateway: r
    routes: [{to: right, via: r}, {to: 10.9.0.0/16, via: 10.1.0.99}]
  r: {nics: {mgmt: mgmt0, left: eth0, right: eth1}, forward: {nat: right}}
  b: {nics: {mgmt: {name: mgmt0, ip: none, ip6: none}, right: eth0}, dns: {x: silent}}
groups: {pair: {members: [a, r], network: left}}
processes: {p: {hosts: pair, run: "${{ nics.left.ip6 }}"}}
checks:
  - reach: {from: a, to: r, network: left, port: 1}
"""

GIVEN = """\
fedtest: 1
name: given
networks:
  net: {pairs: [{from: w, to: lead, link: {loss: 1%}}]}
env: {WHO: "${{ host.name }}"}
files: {/etc/who: "${{ host.index }}", /etc/two: {from: here/file, mode: "0755", owner: "5:6"}}
mounts: {/mnt/x: here}
sysctls: {net.ipv4.tcp_keepalive_time: 5}
secrets: {TOKEN: {env: T}, key: {file: here/key}}
hosts:
  lead:
    nics: {net: eth0}
    cpus: 0.5
    memory: 64MB
    pids: 100
    tmpfs: {/scratch: 10MiB}
    mounts: {/mnt/y: {from: /tmp, write: true}}
  w: {nics: {net: eth0}, count: 3, env: {A: "${{ secrets.TOKEN }}"}, sysctls: {kernel.sem: "1 2"}}
groups:
  all: {members: [lead, w], network: net}
processes:
  p: {hosts: [w], run: "echo ${{ all.rank }} ${{ secrets.key }}"}
"""


def changed(old: str, new: str) -> str:
    """BASE with its only `old` replaced."""
    assert BASE.count(old) == 1, f"{old!r} is not once in BASE"
    return BASE.replace(old, new)


def problems_of(text: str) -> list[Problem]:
    """Every problem of a text, which must have some."""
    with pytest.raises(ScenarioError) as caught:
        loads(text, file="s.yaml")
    return list(caught.value.problems)


def place_of(text: str) -> tuple[str, int, int]:
    """The text without its `§`, and the line and column where it was."""
    assert text.count("§") == 1
    before = text.partition("§")[0]
    line = before.count("\n") + 1
    return text.replace("§", ""), line, len(before) - (before.rfind("\n") + 1) + 1


def assert_refused(text: str, path: str, *fragments: str) -> None:
    """The text has just one problem: at `§`, of `path`, its message containing the fragments."""
    text, line, column = place_of(text)
    problems = problems_of(text)
    shown = "\n".join(map(str, problems))
    assert len(problems) == 1, shown
    assert (problems[0].line, problems[0].column, problems[0].path) == (line, column, path), shown
    assert str(problems[0]).startswith(f"s.yaml:{line}:{column}: ")
    for fragment in fragments:
        assert fragment in shown
