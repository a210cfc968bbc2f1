"""What hosts are given: what the file may say of it, and what the plan makes of that."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from scenario_texts import BASE, assert_refused, changed

from fedtest import local_files
from fedtest.errors import ScenarioError
from fedtest.local_files import CannotCopy, content_of, files_at
from fedtest.plan import make_plan
from fedtest.plan_provisions import FilePlan, LimitsPlan, MountPlan, TmpfsPlan
from fedtest.plan_text import plan_to_dict
from fedtest.scenario.load import dump, load, loads
from fedtest.subnets import choose

if TYPE_CHECKING:
    from pathlib import Path

GIVEN = (
    BASE
    + """\
env: {A: scenario, B: scenario, C: "${{ host.name }}"}
files: {/etc/one: "${{ nics.data.ip }}", /etc/two: {from: here/file, mode: "0755"}}
mounts: {/mnt/x: here}
sysctls: {net.ipv4.tcp_keepalive_time: 5, kernel.sem: "32000 1024000000 500 32000"}
secrets: {TOKEN: {env: T}, key: {file: here/key}}
"""
)
A = "  a: {nics: {mgmt: mgmt0, data: {name: eth0, ip: 192.168.0.1}}"
OWN = f"""{A},
    cpus: 0.5, memory: 64MB, pids: 100, tmpfs: {{/scratch: 10MiB}}, env: {{B: host}},
    files: {{/etc/one: {{content: "${{{{ secrets.TOKEN }}}}", owner: "5:6", mode: "0600"}}}},
    mounts: {{/mnt/x: {{from: /tmp, write: true}}}},
    sysctls: {{net.ipv4.tcp_keepalive_time: "7"}}"""


def text() -> str:
    # c is not on the network whose address is asked for.
    return (
        GIVEN.replace(A, OWN)
        .replace('run: "true"', 'run: "true", env: {A: own, D: "${{ secrets.key }}"}')
        .replace("c: {nics: {spare: eth0}}", "c: {nics: {spare: eth0}, files: {/etc/one: c}}")
    )


def test_what_is_closer_wins() -> None:
    scenario = loads(text(), base="/base").scenario
    plan = make_plan(scenario, choose(scenario, "run", ()))
    a, b = plan.host("a"), plan.host("b")
    assert a.limits == LimitsPlan(0.5, 64_000_000, 100)
    assert b.limits.empty
    assert a.tmpfs == (TmpfsPlan("/scratch", 10 * 1024**2),)
    assert a.mounts == (MountPlan("/mnt/x", "/tmp", write=True),)
    assert b.mounts == (MountPlan("/mnt/x", "/base/here", write=False),)
    assert a.files == (
        FilePlan("/etc/one", "${{ secrets.TOKEN }}", None, "0600", "5:6"),
        FilePlan("/etc/two", None, "/base/here/file", "0755", "1000:1000"),
    )
    assert b.files[0] == FilePlan("/etc/one", "192.168.0.2", None, "0644", "1000:1000")
    assert dict(a.sysctls)["net.ipv4.tcp_keepalive_time"] == "7"
    assert dict(b.sysctls)["net.ipv4.tcp_keepalive_time"] == "5"
    env = {item.host: dict(item.env) for item in plan.processes if item.name == "trainer"}
    own = {"A": "own", "D": "${{ secrets.key }}"}
    assert env["a"] == {"A": "own", "B": "host", "C": "a", "D": own["D"]}
    assert env["b"] == {"A": "own", "B": "scenario", "C": "b", "D": own["D"]}
    assert plan.secrets == ("TOKEN", "key")


def test_it_survives_being_written() -> None:
    scenario = loads(text(), base="/base").scenario
    assert loads(dump(scenario), base="/elsewhere").scenario == scenario


def test_a_plan_tells_of_it_only_where_something_is_given() -> None:
    scenario = loads(BASE).scenario
    plain = plan_to_dict(make_plan(scenario, choose(scenario, "run", ())))
    given = {"limits", "files", "mounts", "tmpfs", "sysctls"}
    assert not given & set(plain["hosts"][0])
    scenario = loads(text()).scenario
    plain = plan_to_dict(make_plan(scenario, choose(scenario, "run", ())))
    assert given <= set(plain["hosts"][0])
    assert plain["hosts"][0]["limits"] == {"cpus": 0.5, "memory": 64_000_000, "pids": 100}


@pytest.mark.parametrize(
    ("given", "path", "fragments"),
    [
        ("cpus: §0", "cpus", ["too small", "0.01"]),
        ("cpus: §.nan", "cpus", ["not finite; found nan", "at least 0.01 and at most 1024"]),
        ("cpus: §.inf", "cpus", ["not finite; found inf", "at least 0.01 and at most 1024"]),
        ('cpus: §"1"', "cpus", ["not a number"]),
        ("memory: §512", "memory", ["needs a unit"]),
        ("memory: §1MB", "memory", ["too little", "at least 16MB"]),
        ("pids: §3", "pids", ["too small", "16"]),
        ("env: {§1A: x}", "env.1A", ["environment variable"]),
        ("env: {A: §5}", "env.A", ["not a string", '"5"']),
        ('env: {A: "§${{ nosuch.x }}"}', "env.A", ["nosuch"]),
        ('env: {A: "§${{ secrets.NONE }}"}', "env.A", ["NONE"]),
        ('files: {/x: "a §${{ nics.spare.ip }}"}', "files./x.content", ["spare"]),
        ('files: {/x: {content: "a §${{ nics.spare.ip }}"}}', "files./x.content", ["spare"]),
        ("files: {§x: y}", "files.x", ["absolute path"]),
        ("files: {§/a/../x: y}", "files./a/../x", ["absolute path"]),
        ("files: {§/a//x: y}", "files./a//x", ['did you mean "/a/x"']),
        ("files: {§//a/x: y}", "files.//a/x", ['did you mean "/a/x"']),
        ("files: {§/proc/x: y}", "files./proc/x", ["the kernel's"]),
        ("files: {§/etc/hosts: y}", "files./etc/hosts", ["the testbed writes itself"]),
        ("files: {/x: §{}}", "files./x", ["neither content nor from", "exactly one"]),
        ("files: {/x: §{content: x, from: y}}", "files./x", ["both content and from"]),
        ("files: {/x: {content: x, mode: §644}}", "files./x.mode", ['"0644"']),
        ('files: {/x: {content: x, mode: §"4755"}}', "files./x.mode", ["four octal digits"]),
        ("files: {/x: {content: x, owner: §A B}}", "files./x.owner", ["not a user"]),
        ("files: {/x: y, §/x/z: y}", "files./x/z", ["lies in a file, /x"]),
        ("files: {§/s/x: y}, tmpfs: {/s: 1MB}", "files./s/x", ["lies in a tmpfs, /s"]),
        ("files: {§/data/x: y}", "files./data/x", ["lies in a data set, /data"]),
        ("mounts: {§/m: /tmp}, tmpfs: {/m2: 1MB}, files: {}", None, []),
        ("mounts: {/m: /tmp}, tmpfs: {§/m/x: 1MB}", "tmpfs./m/x", ["lies in a mount, /m"]),
        ("mounts: {/m: /tmp, §/m/x: /tmp}", "mounts./m/x", ["lies in a mount, /m"]),
        ("mounts: {§/etc: /tmp}", "mounts./etc", ["the host needs itself"]),
        ("mounts: {/m: §{}}", "mounts./m.from", ["a required key is missing"]),
        ("tmpfs: {/s: §10}", "tmpfs./s", ["needs a unit"]),
        ("tmpfs: {/s: §1B}", "tmpfs./s", ["too small", "at least 64KiB"]),
        ("sysctls: {§vm.swappiness: 1}", "sysctls.vm.swappiness", ["net.*", "fs.mqueue.*"]),
        ("sysctls: {§net.ipv4./x: 1}", "sysctls.net.ipv4./x", ["namespaces"]),
        ("sysctls: {net.core.somaxconn: §true}", "sysctls.net.core.somaxconn", ["a number or"]),
        ("sysctls: {net.core.somaxconn: §1.5}", "sysctls.net.core.somaxconn", ["a number or"]),
    ],
)
def test_what_a_host_cannot_be_given(given: str, path: str | None, fragments: list[str]) -> None:
    whole = changed(A, f"{A}, {given}")
    if path is None:
        loads(whole.replace("§", ""))
        return
    assert_refused(whole, f"hosts.a.{path}", *fragments)


@pytest.mark.parametrize(
    ("given", "path", "fragments"),
    [
        ('env: {X: "§${{ nics.data.ip }}"}', "env.X", ["(on c)"]),
        ('files: {/x: "§${{ ring.rank }}"}', "files./x.content", ["not a member of group ring"]),
        ("mounts: {§/data/x: /tmp}", "mounts./data/x", ["lies in a data set"]),
        ("secrets: {§1a: {env: X}}", "secrets.1a", ["a secret's name"]),
        ("secrets: {X: §{}}", "secrets.X", ["neither env nor file"]),
        ("secrets: {X: §{env: A, file: b}}", "secrets.X", ["both env and file"]),
        ("secrets: {X: §value}", "secrets.X", ["not a mapping"]),
    ],
)
def test_what_a_scenario_cannot_give(given: str, path: str, fragments: list[str]) -> None:
    assert_refused(f"{BASE}{given}\n", path, *fragments)


def test_where_a_secret_cannot_be_it_is_no_address() -> None:
    check = "  - sockets: {process: trainer, ignore_port: 1, local: §'${{ secrets.X }}'}\n"
    assert_refused(f"{BASE}{check}secrets: {{X: {{env: X}}}}\n", "checks[2].sockets.local",
                   "not an address")  # fmt: skip


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "tree" / "below").mkdir(parents=True)
    (tmp_path / "tree" / "b").write_bytes(b"b")
    (tmp_path / "tree" / "below" / "a").write_bytes(b"aa")
    return tmp_path


def refused(here: Path, given: str) -> str:
    file = here / "s.yaml"
    file.write_text(changed(A, f"{A}, {given}"), encoding="utf-8")
    with pytest.raises(ScenarioError) as caught:
        load(file)
    return str(caught.value)


def test_paths_are_relative_to_the_file_and_looked_at(here: Path) -> None:
    file = here / "s.yaml"
    given = "files: {/t: {from: tree}}, mounts: {/m: tree}"
    file.write_text(changed(A, f"{A}, {given}"), encoding="utf-8")
    host = load(file).scenario.hosts["a"]
    assert host.files["/t"].source == host.mounts["/m"].source == str(here / "tree")
    assert "No such file" in refused(here, "files: {/t: {from: nosuch}}")
    assert "no such directory" in refused(here, "mounts: {/m: nosuch}")
    assert "no such directory" in refused(here, "mounts: {/m: tree/b}")
    long = "x" * 500  # more than a name may have
    assert "no such directory" in refused(here, f"mounts: {{/m: {long}}}")
    assert "File name too long" in refused(here, f"files: {{/t: {{from: {long}}}}}")
    (here / "tree" / "link").symlink_to("b")
    assert "link is a symbolic link" in refused(here, "files: {/t: {from: tree}}")
    assert "is a symbolic link" in refused(here, "files: {/t: {from: tree/link}}")


def test_special_files_are_refused_and_not_opened(here: Path) -> None:
    os.mkfifo(here / "tree" / "pipe")
    assert "pipe is a special file" in refused(here, "files: {/t: {from: tree}}")


def test_a_directory_is_its_files_by_name(here: Path) -> None:
    found = files_at(str(here / "tree"))
    assert [item.name for item in found] == ["", "b", "below", "below/a"]
    assert [item.directory for item in found] == [True, False, True, False]
    assert content_of(found[3]) == b"aa"
    (here / "tree" / "below" / "a").write_bytes(b"aaa")
    with pytest.raises(CannotCopy, match="changed while it was read"):
        content_of(found[3])
    (here / "tree" / "below" / "a").unlink()
    (here / "tree" / "below" / "a").symlink_to("/etc/hostname")
    with pytest.raises(CannotCopy, match="symbolic links"):
        content_of(found[3])


def test_more_than_is_sensible_is_refused(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_files, "MOST_FILES", 3)
    with pytest.raises(CannotCopy, match="3 files"):
        files_at(str(here / "tree"))
    monkeypatch.undo()
    with (here / "tree" / "large").open("wb") as large:
        large.truncate(local_files.MOST_BYTES)
    with pytest.raises(CannotCopy, match="100 MB"):
        files_at(str(here / "tree"))
