"""Whole runs as a plain user, who has no rights at all on the machine: by a user namespace."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

import plain_user

pytestmark = [
    pytest.mark.netns,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else"),
]

EVERYTHING = """
fedtest: 1
name: plain
deadline: 120s
networks: {mgmt: {}, data: {link: {rate: 100mbit, delay: 5ms, loss: 1%, probe: false}}}
hosts:
  a: {nics: {mgmt: mgmt0, data: eth0}, tmpfs: {/scratch: 2MB}}
  b:
    nics: {mgmt: mgmt0, data: ib0}
    firewall: {accept: [23456], networks: [mgmt]}
    ports_in_use: [23456, 23457]
processes:
  work: {hosts: [b], run: sleep 120}
  echo:
    hosts: [a]
    run: python -m fedtest.probe.echo -c 3 ${{ hosts.b.nics.data.ip }}; echo hi > /tmp/file
faults:
  - {cut: {network: mgmt}, id: cut, at: 1s, for: 500ms}
  - {pause: {host: b}, id: still, when: cut.healed, for: 500ms}
  - {fill: {host: a, path: /scratch}, id: full, when: still.healed, for: 500ms}
  - {link: {network: data, change: {delay: 20ms}}, id: slow, when: full.healed, for: 500ms}
  - {interface: {host: a, network: mgmt, name: eth7}, id: name, when: slow.healed, for: 500ms}
  - {restart: {host: b}, id: again, when: name.healed}
  - {kill: {process: work}, when: again.healed, at: 500ms}
checks:
  - exit: {process: work, signal: KILL}
  - bytes: {host: a, network: data, direction: tx, peer: b, min: 200B}
  - log: {process: echo, match: "min/avg/max.* = (?P<ms>[0-9]+)", where: {ms: ">= 9"}}
  - files: {host: a, path: /tmp/file, match: hi}
  - reach: {from: a, to: b, network: mgmt, port: 23456}
  - reach: {from: a, to: b, network: mgmt, port: 23457, reachable: false}
"""
LIMITED = """
fedtest: 1
name: limited
networks: {net: {}}
hosts: {a: {nics: {net: eth0}, memory: 64MB}}
processes: {p: {hosts: [a], run: "true"}}
"""


def run(text: str) -> tuple[int, str]:
    """Exit code and output of a plain user's run."""
    # Not pytest's own directory: that is closed to others, by every session anew.
    with tempfile.TemporaryDirectory() as home:
        file = Path(home) / "s.yaml"
        file.write_text(text, encoding="utf-8")
        file.chmod(0o644)
        words = [sys.executable, "-m", "fedtest", "run", "--engine", "netns", file.name]
        done = plain_user.run(words, Path(home))
    return done.returncode, done.stdout + done.stderr


def test_links_faults_and_checks_are_the_same() -> None:
    code, said = run(EVERYTHING)
    assert code == 0, said
    assert said.count(" healed: ") == 6


def test_limits_are_refused_and_not_dropped() -> None:
    code, said = run(LIMITED)
    assert code == 3, said
    assert "control groups (/sys/fs/cgroup" in said
    assert "cannot be written" in said
