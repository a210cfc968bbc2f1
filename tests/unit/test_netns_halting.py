"""A host that does not stand still although the kernel was told so: it is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fedtest.engine.netns import limits

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("on", [True, False])
@pytest.mark.parametrize(("version", "state"), [(1, "freezer.state"), (2, "cgroup.events")])
def test_a_group_that_does_not_do_it_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, state: str, *, on: bool
) -> None:
    monkeypatch.setattr(limits, "_PATIENCE", 0.05)
    (tmp_path / "cgroup.freeze").touch()
    # It takes what is written, and tells nothing.
    (tmp_path / state).symlink_to("/dev/null")
    group = limits.Group(version, {"freezer": str(tmp_path)})
    with pytest.raises(limits.Refused, match="its processes are not "):
        group.halt(on=on)


def test_a_group_that_does_it_is_halted_and_goes_on(tmp_path: Path) -> None:
    group = limits.Group(1, {"freezer": str(tmp_path)})
    for on, state in ((True, "FROZEN"), (False, "THAWED")):
        (tmp_path / "freezer.state").touch()
        group.halt(on=on)
        assert (tmp_path / "freezer.state").read_text(encoding="ascii") == state
