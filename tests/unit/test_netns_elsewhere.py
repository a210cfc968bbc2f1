"""Nothing ever changes the machine's own namespaces: each change is refused there."""

from __future__ import annotations

import ast
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import fedtest
from fedtest.engine.netns import elsewhere
from fedtest.engine.netns.elsewhere import KINDS, Elsewhere, MachinesOwnError, namespaces
from fedtest.engine.netns.tree import Contents, Tree, make_keepers_tree

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE = Path(fedtest.__file__).parent
CHANGES: dict[str, Callable[[Elsewhere, str], None]] = {
    "mount": lambda to, at: to.mount("tmpfs", at),
    "bind": lambda to, at: to.bind("/etc", at),
    "read_only": lambda to, at: to.read_only(at),
    "no_devices": lambda to, at: to.no_devices(at),
    "follow_only": lambda to, _: to.follow_only(),
    "pivot": lambda to, at: to.pivot(at),
    "hostname": lambda to, _: to.hostname(socket.gethostname()),
    "setting": lambda to, at: to.setting(f"{at}/setting", "1"),
    "ip": lambda to, _: to.ip("/bin/false", ["link show"]),
    "neighbours": lambda to, _: to.neighbours("lo", [("127.0.0.2", "02:42:7f:00:00:02")]),
    "interface": lambda to, _: to.interface("lo"),
    "the keeper's tree": lambda to, at: make_keepers_tree(to, at, root=True),
    "a host's tree": lambda to, at: Tree(to, at, Contents()).enter(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_refused_in_the_machines_own_namespace(change: str, tmp_path: Path) -> None:
    before = mounts(), Path.cwd(), namespaces()
    with pytest.raises(MachinesOwnError, match="refused"):
        CHANGES[change](Elsewhere(namespaces()), str(tmp_path))
    assert (mounts(), Path.cwd(), namespaces()) == before
    assert list(tmp_path.iterdir()) == []


def test_no_method_that_changes_something_is_missing_above() -> None:
    methods = {name for name in vars(Elsewhere) if not name.startswith("_")}
    assert methods - {"check"} <= set(CHANGES)


@pytest.mark.parametrize("kind", KINDS)
def test_one_namespace_that_was_not_left_is_enough_to_refuse(kind: str) -> None:
    others = dict.fromkeys(KINDS, 1) | {kind: namespaces()[kind]}
    with pytest.raises(MachinesOwnError, match=kind):
        Elsewhere(others).check(kind, "trying")


def test_nothing_else_calls_the_kernel_or_programs_that_mount_or_configure() -> None:
    """So what is refused there cannot happen elsewhere."""
    own = Path(elsewhere.__file__)
    for path in (PACKAGE / "engine" / "netns").rglob("*.py"):
        if path == own or "warm" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                assert not {item.name for item in node.names} & {"ctypes", "fcntl"}, path
            if isinstance(node, ast.Attribute):
                assert node.attr not in {"chroot", "sethostname", "unshare", "setns"}, path


def mounts() -> str:
    return Path("/proc/self/mountinfo").read_text(encoding="utf-8")
