"""Hosts that an engine makes otherwise than they are planned: each difference is noticed."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Interface
from typing import TYPE_CHECKING, Any

import pytest
from conftest import run_with

from fedtest.engine.choose import open_engine
from fedtest.plan_provisions import LimitsPlan
from fedtest.run.result import Verdict
from network_scenarios import process, two

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from fedtest.engine.base import Engine
    from fedtest.engine.snapshot import Snapshot
    from fedtest.plan import AttachmentPlan, Plan

LIMITED = pytest.mark.needs("cgroups")
# What the scenario gives host a, what is made of it, and what is said.
MADE_OTHERWISE = [
    (", names: {b: missing, a: 127.0.1.1}", "names", (), "/etc/hosts is not what it should be"),
    pytest.param(
        (", memory: 64MB", "limits", LimitsPlan(), "memory should be 64000000 bytes"), marks=LIMITED
    ),
    pytest.param((", cpus: 0.5", "limits", LimitsPlan(), "cpus should be 0.5"), marks=LIMITED),
    pytest.param((", pids: 100", "limits", LimitsPlan(), "pids should be 100"), marks=LIMITED),
    (", sysctls: {net.ipv4.tcp_keepalive_time: 7}", "sysctls", (), "tcp_keepalive_time"),
    (", files: {/srv/x: content}", "files", (), "/srv/x"),
    (", tmpfs: {/scratch: 2MB}", "tmpfs", (), "/scratch"),
    (", mounts: {/mnt/x: HERE}", "mounts", (), "/mnt/x"),
]


def tampered(engine: Engine, **fields: Any) -> Engine:
    """What it is asked for is another host a."""
    original = engine.realise

    def realise(plan: Plan, *rest: Any) -> Mapping[str, Snapshot]:
        first, *others = plan.hosts
        return original(replace(plan, hosts=(replace(first, **fields), *others)), *rest)

    engine.realise = realise  # type: ignore[method-assign, assignment]
    return engine


def reason(runs: Path, text: str, engine: Engine) -> str:
    result = run_with(engine, text, runs)
    assert result.verdict is Verdict.INVALID
    assert result.processes == ()
    return result.problems[0].message


@pytest.mark.netns  # What looks and judges is the same on every engine.
@pytest.mark.parametrize("case", MADE_OTHERWISE, ids=lambda case: case[0])
def test_what_a_host_does_not_have_is_noticed(
    tmp_path: Path, engine_name: str, case: tuple[str, str, Any, str]
) -> None:
    more, field, value, said = case
    text = two(more=more.replace("HERE", str(tmp_path)), rest=process("true"))
    found = reason(tmp_path, text, tampered(open_engine(engine_name), **{field: value}))
    assert "host a: " in found
    assert said in found


@pytest.mark.netns  # What looks and judges is the same on every engine.
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"interface": "eth9"}, "eth0"),
        ({"address": IPv4Interface("10.78.20.99/24")}, "10.78.20.10/24"),
    ],
)
def test_an_interface_that_is_another_is_noticed(
    tmp_path: Path, engine_name: str, change: dict[str, Any], said: str
) -> None:
    text = two("{subnet: 10.78.20.0/24}", a="{name: eth0, ip: 10.78.20.10}", rest=process("true"))
    attachments: list[AttachmentPlan] = []
    engine = open_engine(engine_name)
    original = engine.prepare

    def prepare(plan: Plan, *rest: Any) -> Any:
        first, second = plan.hosts[0].attachments
        attachments[:] = [first, replace(second, **change)]
        tampered(engine, attachments=tuple(attachments))
        return original(plan, *rest)

    engine.prepare = prepare  # type: ignore[method-assign, assignment]
    found = reason(tmp_path, text, engine)
    assert "host a: " in found
    assert said in found
