"""A full disk is one without space: what else keeps from writing is told, and is no full disk."""

from __future__ import annotations

import shlex
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from fedtest.errors import NotAsPlanned
from fedtest.plan_faults import FaultPlan, Turn
from fedtest.run.faults import disk
from fedtest.run.faults.actions import Actions
from fedtest.run.faults.step import Step
from fedtest.scenario.faults import FillFault

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


class Shell:
    """A world of one host, whose scripts run here; `before`: what is done in its shell first."""

    def __init__(self, before: str = "") -> None:
        self.engine = self
        self.run = None
        self.off: frozenset[str] = frozenset()
        self.base = None
        self._before = before

    def be_on(self, hosts: Iterable[str]) -> None:
        """It is."""

    def stand_still(self, hosts: Iterable[str]) -> None:
        """It does not."""

    def condition(self, _: Any, scripts: Mapping[str, str], *__: Any, **___: Any) -> dict[str, str]:
        (script,) = scripts.values()
        done = subprocess.run(
            ["/bin/sh"], input=self._before + script, text=True, capture_output=True, check=True
        )
        return {"a": done.stdout}


def tools(path: Path, name: str, error: str) -> str:
    """Shell that has a tool that fails with an error, whatever it is to write."""
    path.mkdir()
    (path / name).write_text(
        f"#!/bin/sh\necho {shlex.quote(error)} >&2\nexit 1\n", encoding="ascii"
    )
    (path / name).chmod(0o755)
    return f"PATH={path}:$PATH\n"


NO_SPACE = "cat: write error: No space left on device"
READ_ONLY = "cat: write error: Read-only file system"


@pytest.mark.parametrize(("error", "full"), [(NO_SPACE, True), (READ_ONLY, False)])
def test_full_is_what_has_no_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str, full: bool
) -> None:
    monkeypatch.setattr(disk, "_MOST", 1000)
    spec = FillFault(host="a", path=str(tmp_path))
    world: Any = Shell(tools(tmp_path / "tools", "cat", error))
    if full:
        assert disk.fill(world, spec) == f"host a: no byte more can be written to {tmp_path}"
    else:
        with pytest.raises(NotAsPlanned, match=r"cannot be filled: .*Read-only file system"):
            disk.fill(world, spec)
    with pytest.raises(NotAsPlanned, match=r"nothing can be written to .* yet: cat: write error"):
        disk.empty(world, spec)
    assert not list(tmp_path.glob(".fedtest*"))


def test_what_cannot_be_written_in_the_first_place_is_told(tmp_path: Path) -> None:
    spec = FillFault(host="a", path=str(tmp_path))
    world: Any = Shell(tools(tmp_path / "tools", "head", "head: File too large"))
    with pytest.raises(NotAsPlanned, match="cannot be filled: head: File too large"):
        disk.fill(world, spec)
    nowhere: Any = Shell()
    with pytest.raises(NotAsPlanned, match=r"cannot be filled: .*fedtest-full"):
        disk.fill(nowhere, FillFault(host="a", path="/proc"))


def test_room_is_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "_MOST", 1000)
    world: Any = Shell()
    spec = FillFault(host="a", path=str(tmp_path))
    with pytest.raises(NotAsPlanned, match="has room for more than 1000 bytes"):
        disk.fill(world, spec)
    assert disk.empty(world, spec) == f"host a: {tmp_path} can be written to"
    assert not list(tmp_path.iterdir())


def test_what_two_faults_fill_is_full_until_both_are_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "_MOST", 1000)
    turn = Turn(0.0, None, ())
    specs = [FillFault(host="a", path=str(tmp_path)) for _ in range(2)]
    first, last = (
        FaultPlan(f"f{at}", "fill", it, None, None, (turn,)) for at, it in enumerate(specs)
    )
    world: Any = Shell(tools(tmp_path / "tools", "cat", NO_SPACE))
    actions = Actions(world, lambda: 0.0)
    for fault in (first, last):
        actions.apply(Step(fault, turn, "apply"))
    found = actions.heal(Step(first, turn, "heal")).found
    assert found == f"host a: another fault still fills {tmp_path}"
    assert (tmp_path / ".fedtest-full").exists()
    with pytest.raises(NotAsPlanned, match="nothing can be written"):
        actions.heal(Step(last, turn, "heal"))
    assert not (tmp_path / ".fedtest-full").exists()
