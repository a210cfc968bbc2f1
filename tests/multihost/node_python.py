"""What hosts without Docker run in these tests, and what it has."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fedtest.engine.netns.node.choice import asked_for, given
from fedtest.engine.netns.node.environment import present
from fedtest.engine.netns.node.python import MODULES, VARIABLE, own

if TYPE_CHECKING:
    from fedtest.engine.netns.node.python import NodePython

REQUIREMENTS = Path(__file__).parents[2] / "scenarios" / "fedlab" / "requirements.txt"


@cache
def node() -> NodePython:
    """The one that FEDTEST_PYTHON names, or ours, or the one with FedLab that tox has made."""
    if (asked := asked_for(None)) is not None:
        return given(asked)
    if set(MODULES) <= own().modules:
        return own()
    return present(REQUIREMENTS.read_text(encoding="utf-8")) or own()


def have_hosts_run_it() -> None:
    """All runs that are started from here on."""
    if not node().own:
        os.environ[VARIABLE] = node().executable


def missing(*names: str) -> str:
    """Why what needs these packages cannot be tested without Docker; empty if it can."""
    found = {name.lower() for name in node().versions} | node().modules
    lacking = [name for name in names if name not in found]
    return (
        f"{node().executable} has no {' and no '.join(lacking)}: fedtest image --engine netns "
        f"--requirements {REQUIREMENTS.relative_to(Path(__file__).parents[2])} makes one that has"
        if lacking
        else ""
    )


def need(engine: str, *names: str) -> None:
    """Skip the test if it is about hosts that have not these packages; an image has them."""
    if engine == "netns" and (why := missing(*names)):
        pytest.skip(why)
