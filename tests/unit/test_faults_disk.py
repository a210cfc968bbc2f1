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


TURN = Turn(0.0, None, ())


def fill(path: Path | str, name: str = "full") -> FaultPlan:
    spec = FillFault(host="a", path=str(path))
    return FaultPlan(name, "fill", spec, None, None, (TURN,))


def applied(actions: Actions, fault: FaultPlan) -> str:
    return actions.apply(Step(fault, TURN, "apply")).found


def healed(actions: Actions, fault: FaultPlan) -> str:
    return actions.heal(Step(fault, TURN, "heal")).found


def acting(world: Any) -> Actions:
    return Actions(world, lambda: 0.0)


@pytest.mark.parametrize(("error", "full"), [(NO_SPACE, True), (READ_ONLY, False)])
def test_full_is_what_has_no_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str, full: bool
) -> None:
    monkeypatch.setattr(disk, "_MOST", 1000)
    fault = fill(tmp_path)
    actions = acting(Shell(tools(tmp_path / "tools", "cat", error)))
    if full:
        assert applied(actions, fault) == f"host a: no byte more can be written to {tmp_path}"
    else:
        with pytest.raises(NotAsPlanned, match=r"cannot be filled: .*Read-only file system"):
            applied(actions, fault)
    with pytest.raises(NotAsPlanned, match=r"nothing can be written to .* yet: cat: write error"):
        healed(actions, fault)
    assert not list(tmp_path.glob(".fedtest*"))


def test_what_cannot_be_written_in_the_first_place_is_told(tmp_path: Path) -> None:
    actions = acting(Shell(tools(tmp_path / "tools", "head", "head: File too large")))
    with pytest.raises(NotAsPlanned, match="cannot be filled: head: File too large"):
        applied(actions, fill(tmp_path))
    with pytest.raises(NotAsPlanned, match=r"cannot be filled: .*fedtest-full"):
        applied(acting(Shell()), fill("/proc"))


def test_room_is_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "_MOST", 1000)
    actions, fault = acting(Shell()), fill(tmp_path)
    with pytest.raises(NotAsPlanned, match="has room for more than 1000 bytes"):
        applied(actions, fault)
    assert healed(actions, fault) == f"host a: {tmp_path} can be written to"
    assert not list(tmp_path.iterdir())


def small(*full: str, device: str = "$(command stat -c %d .)") -> str:
    """Shell in which `cat` finds no space while there are such files; `stat` names the device."""
    there = " || ".join(f"[ -e {path} ]" for path in full)
    no_space = f'echo "{NO_SPACE}" >&2; return 1'
    return f'cat() {{ if {there}; then {no_space}; fi; }}\nstat() {{ echo "{device}"; }}\n'


@pytest.mark.parametrize("below", ["", "below it"])
@pytest.mark.parametrize("backwards", [True, False])
def test_what_faults_fill_is_full_until_all_are_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, below: str, backwards: bool
) -> None:
    monkeypatch.setattr(disk, "_MOST", 1000)
    places = [tmp_path, tmp_path / below]
    places[1].mkdir(exist_ok=True)
    full = [place / ".fedtest-full" for place in places]
    actions = acting(Shell(small(*(shlex.quote(str(path)) for path in full))))
    faults = [fill(place, f"f{at}") for at, place in enumerate(places)]
    for fault in faults:
        applied(actions, fault)
    if backwards:
        faults.reverse()
        places.reverse()
    assert healed(actions, faults[0]) == f"host a: another fault still fills {places[0]}"
    assert all(path.exists() for path in full)
    assert healed(actions, faults[1]) == f"host a: {places[1]} can be written to"
    assert not any(path.exists() for path in full)


def test_another_file_system_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "_MOST", 1000)
    places = [tmp_path / "one", tmp_path / "two"]
    for place in places:
        place.mkdir()
    actions = acting(Shell(small(".fedtest-full", device="of $PWD")))
    faults = [fill(place, place.name) for place in places]
    for fault in faults:
        applied(actions, fault)
    for fault, place in zip(faults, places, strict=True):
        assert (place / ".fedtest-full").exists()
        assert healed(actions, fault) == f"host a: {place} can be written to"
        assert not (place / ".fedtest-full").exists()
