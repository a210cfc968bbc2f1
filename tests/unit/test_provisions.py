"""What hosts are given is read back; each difference makes the run invalid, by name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from fedtest.engine import settings
from fedtest.engine.docker.provisions import limits, refuse_warnings, told_apart
from fedtest.engine.examine import PathFacts
from fedtest.engine.fake import Defects, FakeEngine
from fedtest.engine.parcel import owner_ids
from fedtest.engine.snapshot import Snapshot
from fedtest.errors import EngineError, ExitCode, NotAsPlanned
from fedtest.plan import HostPlan, ImagePlan
from fedtest.plan_provisions import LimitsPlan, MountPlan
from fedtest.run.provisions import held
from fedtest.run.result import Verdict
from runs import Lab, Run

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SCENARIO = """
fedtest: 1
name: small
networks: {net: {}}
hosts: {a: {nics: {net: eth0}%s}}
processes: {work: {hosts: [a], run: "echo ran"}}
"""
ALL = """,
  cpus: 0.5, memory: 64MB, pids: 100, tmpfs: {/s: 1MB}, mounts: {/m: %s},
  sysctls: {kernel.sem: "1 2 3 4"}, files: {/f: "text"}
"""
FACTS = PathFacts("file", None, 0o644, 1000, 1000, 1, 1, "boot", False, 0, "")


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def run(lab: Lab, **defects: Any) -> Run:
    return lab.run(SCENARIO % ALL % lab.runs, FakeEngine(Defects(**defects)))


def test_what_is_as_planned_is_silent(lab: Lab) -> None:
    assert run(lab).result.verdict is Verdict.PASSED


@pytest.mark.parametrize(
    ("path", "shown", "said"),
    [
        (settings.CPU[0], "max 100000", "cpus should be 0.5, and the kernel shows no limit"),
        (settings.CPU[0], None, "cpus should be 0.5, and the kernel shows no limit"),
        (settings.CPU[0], "60000 100000", "cpus should be 0.5, it is 0.6"),
        (settings.MEMORY[0], "max", "memory should be 64000000 bytes, and the kernel shows no"),
        (settings.MEMORY[0], "128000000", "memory should be 64000000 bytes, it is 1.28e+08"),
        (settings.PIDS[0], None, "pids should be 100, and the kernel shows no limit"),
        (settings.PIDS[0], "99", "pids should be 100, it is 99"),
        ("/proc/sys/kernel/sem", None, "sysctl kernel.sem: the kernel does not have it"),
        (
            "/proc/sys/kernel/sem",
            "1\t2\t3\t5",
            "sysctl kernel.sem should be 1 2 3 4, it is 1 2 3 5",
        ),
    ],
)
def test_what_the_kernel_does_not_hold_makes_the_run_invalid(
    lab: Lab, path: str, shown: str | None, said: str
) -> None:
    done = run(lab, settings={("a", path): shown})
    assert (done.result.verdict, done.result.exit_code) == (Verdict.INVALID, ExitCode.INVALID)
    assert "host a: " in done.messages[0]
    assert said in done.messages[0]
    assert not done.events("started")


@pytest.mark.parametrize(
    ("path", "facts", "said"),
    [
        ("/f", replace(FACTS, kind=None), "files: /f: should be a file, there is nothing"),
        ("/f", replace(FACTS, kind="directory"), "files: /f: should be a file, there is directory"),
        ("/f", FACTS, "files: /f: what is in it is not what was put there"),
        ("/f", replace(FACTS, error="Permission denied"), "files: /f: Permission denied"),
        ("/m", replace(FACTS, kind="directory"), "mounts: /m: what the host sees there is not"),
        ("/s", replace(FACTS, kind="directory"), "tmpfs: /s: its size should be 1000000 bytes"),
        ("/s", replace(FACTS, kind="directory", capacity=1_000_000), "tmpfs: /s: not everybody"),
    ],
)
def test_what_is_not_there_makes_the_run_invalid(
    lab: Lab, path: str, facts: PathFacts, said: str
) -> None:
    done = run(lab, facts={("a", path): facts})
    assert done.result.verdict is Verdict.INVALID
    assert f"host a: {said}" in done.messages[0]
    assert "`files` copies" in done.result.problems[0].remedy


def test_a_file_that_goes_away_before_it_is_put_is_told(lab: Lab, tmp_path: Path) -> None:
    text = SCENARIO % f", files: {{/f: {{from: {tmp_path / 'nosuch'}}}}}"
    done = lab.run(text, FakeEngine())
    assert done.result.verdict is Verdict.INVALID
    assert "files: /f: " in done.messages[0]
    assert "No such file" in done.messages[0]


def host(**fields: Any) -> HostPlan:
    return HostPlan("a", ImagePlan(), (), (), (), **fields)


def shows(content: Mapping[str, str]) -> Snapshot:
    return Snapshot(0, 0, "", {}, (), "", "", "", settings=dict(content))


LIMITS = LimitsPlan(0.5, 64_000_000, 100)
SWAPS = "Filename Type Size Used Priority"
V1 = dict(
    zip(
        (*settings.CPU_1, *settings.MEMORY_1, *settings.PIDS_1, settings.SWAPS),
        ("50000\n", "100000\n", "64000000\n", "64000000\n", "100\n", SWAPS),
        strict=True,
    )
)
V2 = dict(
    zip(
        (*settings.CPU, *settings.MEMORY, *settings.PIDS, settings.SWAPS),
        ("50000 100000", "63999", "0", "100", SWAPS),
        strict=True,
    )
) | {settings.MEMORY[0]: "63963136"}


@pytest.mark.parametrize("shown", [V1, V2])
def test_both_versions_of_control_groups_are_read(shown: dict[str, str]) -> None:
    assert held(host(limits=LIMITS), shows(shown)) == []
    for path in (settings.CPU[0], settings.CPU_1[0], settings.MEMORY[0], settings.MEMORY_1[0],
                 settings.PIDS[0], settings.PIDS_1[0]):  # fmt: skip
        if path in shown:
            without = {key: value for key, value in shown.items() if key != path}
            assert len(held(host(limits=LIMITS), shows(without))) == 1


def test_no_quota_is_no_limit() -> None:
    assert len(held(host(limits=LIMITS), shows(V1 | {settings.CPU_1[0]: "-1"}))) == 1


def test_swap_counts_only_where_something_is_swapped() -> None:
    swapping = SWAPS + "\n/swapfile file 1000 0 -2"
    for shown, path, bad in ((V1, settings.MEMORY_1[1], "9223372036854771712"),
                             (V2, settings.MEMORY[1], "max")):  # fmt: skip
        assert held(host(limits=LIMITS), shows(shown | {path: bad})) == []
        swaps = {settings.SWAPS: swapping}
        assert held(host(limits=LIMITS), shows(shown | swaps)) == []
        (said,) = held(host(limits=LIMITS), shows(shown | swaps | {path: bad}))
        assert "swap is not" in said


def test_what_an_engine_leaves_out_with_a_warning_is_not_as_planned() -> None:
    said = "Your kernel does not support CPU CFS scheduler. CPU period/quota discarded."
    swap = "Your kernel does not support swap limit capabilities. Memory limited without swap."
    refuse_warnings(host(limits=LIMITS), {"Warnings": None})
    refuse_warnings(host(limits=LIMITS), {"Warnings": [swap]})
    refuse_warnings(host(), {"Warnings": [said]})
    with pytest.raises(NotAsPlanned, match=r"host a: its limits cannot be kept here: .*discarded"):
        refuse_warnings(host(limits=LIMITS), {"Warnings": [swap, said]})


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("open /proc/sys/net/ipv4/x: no such file or directory: unknown", "does not have it"),
        ("open /proc/sys/net/ipv4/x: permission denied: unknown", "for the whole machine only"),
        ("write /proc/sys/net/ipv4/x: invalid argument: unknown", "does not take '7' for it"),
        ("bind source path does not exist: /here", "the engine does not see the directory /here"),
        ("x: the engine says: Range of CPUs is from 0.01", "host a: cpus: Range of CPUs"),
    ],
)
def test_what_an_engine_refuses_is_told_by_what_of_the_host_it_is(said: str, found: str) -> None:
    whole = host(
        limits=LIMITS,
        mounts=(MountPlan("/m", "/here", write=False),),
        sysctls=(("net.ipv4.x", "7"),),
    )
    with pytest.raises(NotAsPlanned, match=found), told_apart(whole):
        raise EngineError(said)
    with pytest.raises(EngineError, match="other") as caught, told_apart(whole):
        raise EngineError("something other")
    assert caught.value.__cause__ is None
    with pytest.raises(EngineError, match="proc") as caught, told_apart(host()):
        raise EngineError(said + " proc")
    assert not isinstance(caught.value, NotAsPlanned)


@pytest.mark.parametrize(
    ("owner", "ids"),
    [
        ("5:6", (5, 6)),
        ("5", (5, 5)),
        ("1000", (1000, 100)),
        ("app", (1000, 100)),
        ("app:7", (1000, 7)),
        ("app:users", (1000, 100)),
        ("root:users", (0, 100)),
    ],
)
def test_owners_by_a_hosts_own_lists(owner: str, ids: tuple[int, int]) -> None:
    passwd = "root:x:0:0::/:/bin/sh\napp:x:1000:100::/:/bin/sh\nbroken\n"
    assert owner_ids(owner, passwd, "users:x:100:app\n") == ids
    with pytest.raises(LookupError, match="no group is called staff"):
        owner_ids("app:staff", passwd, "")


def test_the_result_says_that_memory_was_the_reason(lab: Lab) -> None:
    text = (SCENARIO % ", memory: 64MB").replace("echo ran", "kill -9 $$")
    done = lab.run(text, FakeEngine(Defects(oom_kills={"a": 2})))
    (check,) = done.result.checks
    assert check.found.startswith("a: 137 (SIGKILL) (the kernel killed 2 processes there for its")
    done = lab.run(text, FakeEngine())
    assert done.result.checks[0].found == "a: 137 (SIGKILL)"


@pytest.mark.parametrize(
    "own", [("net.ipv4.conf.all.forwarding", "1"), ("net.ipv4.ip_forward", "1")]
)
def test_a_host_that_says_itself_whether_it_forwards_is_told_once(own: tuple[str, str]) -> None:
    """The engine writes settings in any order, and the last one of a switch wins."""
    assert limits(host(sysctls=(own,)))["sysctls"] == dict([own])
    assert limits(host())["sysctls"] == {"net.ipv4.ip_forward": "0"}
