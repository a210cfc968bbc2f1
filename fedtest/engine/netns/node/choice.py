"""Which Python the hosts of a scenario run."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

from fedtest.engine.netns.needs import Lack
from fedtest.engine.netns.node import environment
from fedtest.engine.netns.node.need import calls_python, needed
from fedtest.engine.netns.node.python import VARIABLE, of, own, unreachable
from fedtest.errors import PythonError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fedtest.engine.netns.node.python import NodePython
    from fedtest.plan import Plan


def asked_for(python: str | None) -> str | None:
    """What was given, or what the environment says."""
    return python or os.environ.get(VARIABLE) or None


@cache
def given(asked: str) -> NodePython:
    """The one at this path or of this name; of one that fedtest made it is known what it has."""
    return environment.at(asked) or of(asked)


def lacking(plan: Plan, asked: str | None) -> Iterator[Lack]:
    """What a plan needs and the Python that was asked for has not. PythonError if it is none."""
    if asked is None:
        return  # What our own has not, the node environment has.
    python = given(asked)
    if lacks := sorted(needed(plan) - python.modules):
        yield Lack(
            f"{' and '.join(lacks)} in {python.executable}",
            remedy=f"{python.executable} -m pip install {' '.join(lacks)}; or leave out "
            f"--python and {VARIABLE}: then fedtest provides what is needed.",
        )


def choose(
    plan: Plan, asked: str | None, progress: Callable[[str], None], *, plain_users: bool
) -> NodePython:
    """The Python for a plan's hosts: the one asked for, our own, or the node environment.

    `plain_users`: hosts' processes have other rights than we. PythonError.
    """
    if asked is not None:
        python = given(asked)
    else:
        python = own() if needed(plan) <= own().modules else environment.provide(progress)
        if not python.own:
            progress(f"hosts run {python.executable}")
    if plain_users and calls_python(plan) and (closed := unreachable(python)) is not None:
        raise PythonError(
            f"a host's plain user cannot read {closed}, and so not run {python.executable}",
            remedy=f"chmod -R go+rX {os.path.dirname(closed) if os.path.isfile(closed) else closed}"
            "; or name another Python by --python PATH; or let processes be root's (`user: root`).",
        )
    return python


def told() -> str:
    """What hosts run here, in words."""
    if asked := asked_for(None):
        return f"{asked} ({VARIABLE})"
    python = own()
    if {"torch", "torchvision"} <= python.modules:
        return f"{python.executable}, with torch {python.versions.get('torch', '')}"
    every = environment.made()
    if every:
        return "; ".join(
            f"{item.python.executable}, with torch {item.python.versions.get('torch', '')} from "
            f"{item.source}, {item.size / 1e9:.1f} GB"
            for item in every
        )
    return f"{python.executable}, without torch; a scenario that needs it has an environment made"
