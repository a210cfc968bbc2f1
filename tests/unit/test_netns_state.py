"""Where runs without Docker are known: only a run's name leads to a directory that is removed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from fedtest.engine.netns import state
from fedtest.errors import EngineError, InvalidError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", ["", ".", "..", "/", "a/b", "../other", "a1b2.going", "a\n"])
def test_what_is_no_name_is_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(state, "base", lambda: tmp_path)
    with pytest.raises(InvalidError, match="no run is called"):
        state.RunPlace(name)


def test_a_directory_of_somebody_else_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "base").mkdir()
    mine = tmp_path / "mine"
    mine.mkdir()
    monkeypatch.setattr(state, "base", lambda: tmp_path / "base")
    with pytest.raises(InvalidError):
        state.RunPlace(str(mine)).remove(0.0)
    assert mine.is_dir()


def test_a_dead_run_that_cannot_be_removed_is_in_no_others_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "base", lambda: tmp_path)
    monkeypatch.setattr(state, "dead_runs", lambda: iter(["a", "b"]))
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(json.dumps({}), encoding="utf-8")
    # Made in a pid namespace that is not ours.
    (tmp_path / "a" / "keeper").write_text("1 1 1\n", encoding="ascii")
    with pytest.raises(EngineError, match="another pid namespace"):
        state.sweep(1.0)
    assert not (tmp_path / "b").exists()
