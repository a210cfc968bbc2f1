"""Which Python hosts without Docker run, and what is said of one that will not do."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fedtest.bundle import bundle, shipped_scenarios
from fedtest.engine.netns import environment
from fedtest.engine.netns.node import choice, need, python
from fedtest.errors import PythonError
from fedtest.plan import make_plan
from fedtest.scenario.load import load, loads
from fedtest.subnets import choose

if TYPE_CHECKING:
    from fedtest.plan import Plan

WITHOUT = {"slow-link"}

ONE = """
fedtest: 1
name: one
networks: {{lan: {{}}}}
hosts:
  a: {{nics: {{lan: eth0}}{host}}}
processes:
  p: {{hosts: [a], run: {run}, deadline: 60s}}
checks:
  - exit: {{process: p, code: 0}}
{rest}
"""


def plan(run: str, host: str = "", rest: str = "") -> Plan:
    scenario = loads(ONE.format(run=run, host=host, rest=rest)).scenario
    return make_plan(scenario, choose(scenario, "", ()))


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(python.VARIABLE, raising=False)


@pytest.mark.parametrize("name", shipped_scenarios())
def test_shipped_scenarios_need_torch_and_trainers_torchvision_too(name: str) -> None:
    scenario = load(str(bundle() / "scenarios" / f"{name}.yaml")).scenario
    wanted = need.needed(make_plan(scenario, choose(scenario, "", ())))
    ring = any("fedtest.ring" in str(item.run) for item in scenario.processes.values())
    usual = {"torch", "torchvision"} if ring else {"torch"}
    assert wanted == (set() if name in WITHOUT else usual)


@pytest.mark.parametrize(
    ("run", "wanted"),
    [
        ("python -c 'import torch'", {"torch"}),
        ('[python, -c, "import os, torch"]', {"torch"}),
        ('[python, -c, "from torch import nn"]', {"torch"}),
        ("python -c 'import torchvision'", {"torch", "torchvision"}),
        ("torchrun --nnodes 2 train.py", {"torch"}),
        ("exec /usr/bin/torchrun train.py", {"torch"}),
        ("[python, -m, torch.distributed.run, train.py]", {"torch"}),
        ("python -m fedtest.ring", {"torch", "torchvision"}),
        ("python -c 'from fedtest import comm'", {"torch"}),
        ("python -m fedtest.probe", set()),
        ("sleep 1", set()),
        ("cat /tmp/torch.log torchrun.yaml", set()),
        ("echo important torch", set()),
    ],
)
def test_a_command_says_what_it_needs(run: str, wanted: set[str]) -> None:
    assert need.needed(plan(run)) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("import sys\n\ndef f():\n    from torch import nn\n", {"torch"}),
        ("from fedtest.comm import DistNetwork\n", {"torch"}),
        ("print('torch')\n", set()),
    ],
)
@pytest.mark.parametrize("how", ["content", "file", "directory", "mount"])
def test_so_does_a_script_that_a_host_is_given(
    tmp_path: Path, how: str, text: str, wanted: set[str]
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(text, encoding="utf-8")
    (tmp_path / "code" / "notes.txt").write_text("import torch\n", encoding="utf-8")
    given = {
        "content": f"files: {{/opt/code/train.py: {{content: {json.dumps(text)}}}}}",
        "file": f"files: {{/opt/code/train.py: {{from: {tmp_path}/code/train.py}}}}",
        "directory": f"files: {{/opt/code: {{from: {tmp_path}/code}}}}",
        "mount": f"mounts: {{/opt/code: {{from: {tmp_path}/code}}}}",
    }[how]
    assert need.needed(plan("python /opt/code/train.py", host=f", {given}")) == wanted


def test_so_does_what_is_to_be_preloaded() -> None:
    assert need.needed(plan("python x.py", rest="preload: [torch, numpy]")) == {"torch"}
    assert need.needed(plan("python x.py", rest="preload: [torchvision.datasets]")) == {
        "torch",
        "torchvision",
    }
    # What is preloaded without being asked for needs not be there.
    assert need.needed(plan("python -m fedtest.comm.trial join")) == {"torch"}


def test_a_scenario_without_torch_never_has_an_environment_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(choice.environment, "provide", None)
    found = choice.choose(plan("sleep 1"), None, lambda _: None, plain_users=False)
    assert found is python.own()


def test_where_our_own_has_what_is_needed_that_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice.environment, "provide", None)
    ours = replace(python.own(), modules=frozenset({"torch"}))
    monkeypatch.setattr(choice, "own", lambda: ours)
    wanted = plan("python -c 'import torch'")
    assert choice.choose(wanted, None, lambda _: None, plain_users=False) is ours


def test_where_it_has_not_the_node_environment_is_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = replace(python.own(), executable="/made/bin/python")
    monkeypatch.setattr(choice, "own", lambda: replace(made, modules=frozenset({"torch"})))
    monkeypatch.setattr(choice.environment, "provide", lambda _: made)
    said: list[str] = []
    wanted = plan("python -m fedtest.ring")
    assert choice.choose(wanted, None, said.append, plain_users=False) is made
    assert said == ["hosts run /made/bin/python"]


def test_one_that_is_asked_for_is_taken_and_must_have_what_is_needed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.symlink_to(sys.executable)
    found = choice.choose(plan("python x.py"), str(other), lambda _: None, plain_users=False)
    assert found.executable == str(other)
    assert found.versions["python"] == sys.version.split()[0]
    if "torch" in found.modules:
        pytest.skip("this interpreter has torch")
    wanted = plan("python -m fedtest.ring")
    (lack,) = choice.lacking(wanted, str(other))
    assert lack.what == f"torch and torchvision in {other}"
    assert f"{other} -m pip install torch torchvision" in lack.remedy
    assert list(choice.lacking(wanted, None)) == []


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (None, r"is not there$"),
        ("echo '{\"version\": [3, 9, 2]}'", r"is Python 3\.9\.2; hosts need 3\.11 or later$"),
        ("echo hello >&2; exit 3", r"is no Python interpreter: .* says: hello$"),
        ("exit 3", r"is no Python interpreter: .* says: nothing \(status 3\)$"),
        ("echo 7", r"is no Python interpreter: .* says: 7$"),
    ],
)
def test_what_is_no_python_for_hosts_is_said_so(
    tmp_path: Path, script: str | None, said: str
) -> None:
    program = tmp_path / "python"
    if script is not None:
        program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        program.chmod(0o755)
    with pytest.raises(PythonError, match=said):
        python.of(str(program))


def test_what_cannot_be_run_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(PythonError, match=r"is no program$"):
        python.of(str(tmp_path))
    text = tmp_path / "text"
    text.write_text("no program", encoding="utf-8")
    text.chmod(0o755)
    with pytest.raises(PythonError, match="cannot be run: Exec format error"):
        python.of(str(text))


def test_hosts_find_it_first_and_of_us_only_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    other = tmp_path / "python3.99"
    other.symlink_to(sys.executable)
    found = python.of(str(other))
    env = environment.variables(1000, found)
    first, *others = env["PATH"].split(os.pathsep)
    assert Path(first, "python").resolve() == Path(sys.executable).resolve()
    assert str(Path(sys.executable).parent) not in others
    (side,) = env["PYTHONPATH"].split(os.pathsep)
    assert [item.name for item in Path(side).iterdir()] == ["fedtest"]
    assert {first, side} <= set(found.shown)
    assert python.from_text(found.text()) == found


def test_what_a_plain_user_cannot_read_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for name in ("open", "top", "top/within", "open/within"):
        (tmp_path / name).mkdir()
    files = {}
    for name in ("open/a", "top/a", "top/within/a", "open/within/a"):
        files[name] = str(tmp_path / name)
        Path(files[name]).touch(0o755)
    ours = python.own()

    def closed(file: str) -> str | None:
        shown = (str(tmp_path / "open"), str(tmp_path / "top"))
        return python.unreachable(replace(ours, files=(file,), shown=shown))

    (tmp_path / "top").chmod(0o700)
    (tmp_path / "top/within").chmod(0o700)
    # From the outermost on all can be opened.
    assert [closed(files[name]) for name in ("open/a", "top/a", "top/within/a")] == [None] * 3
    (tmp_path / "open/within").chmod(0o700)
    assert closed(files["open/within/a"]) == str(tmp_path / "open/within")
    Path(files["open/a"]).chmod(0o700)
    assert closed(files["open/a"]) == files["open/a"]
    (tmp_path / "open/a").unlink()
    assert closed(files["open/a"]) == files["open/a"]


def test_who_cannot_read_it_is_told_before_anything_starts(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.touch(0o600)
    ours = replace(python.own(), files=(str(closed),))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choice, "own", lambda: ours)
        with pytest.raises(PythonError, match=f"plain user cannot read {closed}") as caught:
            choice.choose(plan("python x.py"), None, lambda _: None, plain_users=True)
        assert f"chmod -R go+rX {tmp_path}" in caught.value.remedy
        # Who calls no Python, is root, or is the one who may read it, has nothing to fear.
        for text, users in (("sleep 1", True), ("python x.py, user: root", True),
                            ("python x.py", False)):  # fmt: skip
            choice.choose(plan(text), None, lambda _: None, plain_users=users)
