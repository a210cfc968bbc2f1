"""The node environment: Python with CPU torch and torchvision, made once in the user's cache.

It is for hosts without Docker what the node image is for those with it. A
virtual environment cannot be moved, so each attempt has a directory of its own,
and what marks it as whole is written last: a directory without it is nobody's,
and the next one who makes an environment removes it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import secrets
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fedtest import cache, locks
from fedtest.engine.netns.node import index, install
from fedtest.engine.netns.node.python import from_text, of, with_place
from fedtest.errors import PythonError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fedtest.engine.netns.node.python import NodePython

PYPI = "PyPI"
_MARK = "fedtest-node.json"
_LOCK = "node-environment"
_PATIENCE = 3900.0
_SIZE = "5.5 GB on x86_64"
# What is fetched, 3 GB, lies beside what is unpacked from it until all is there.
_ROOM = 9_500_000_000 if platform.machine() == "x86_64" else 2_000_000_000
_REMEDY = (
    "Mend that, or name an environment that has torch and torchvision: --python PATH; or use "
    "Docker: --engine docker."
)


@dataclass(frozen=True, slots=True)
class Made:
    """An environment that is whole. `source`: where torch was had from; `size` in bytes."""

    place: Path
    key: str
    source: str
    size: int
    python: NodePython


def root() -> Path:
    """Where they are, there or not."""
    return cache.directory() / "node"


def made() -> list[Made]:
    """All that are whole, in no order."""
    return [found for path in _places() if (found := _read(path)) is not None]


def present(further: str = "") -> NodePython | None:
    """The one with these further requirements, if it is there."""
    return next(iter(_present(further)), None)


def at(executable: str) -> NodePython | None:
    """The one whose interpreter this is, if it is one of these."""
    place = Path(executable).parent.parent
    found = _read(place) if place.parent == root() else None
    return with_place(found.python) if found and found.python.executable == executable else None


def provide(progress: Callable[[str], None], further: str = "") -> NodePython:
    """The environment with torch, torchvision and `further` (a file of requirements). PythonError.

    Made if it is not there, by one of several who want it.
    """
    for python in _present(further):
        return python
    try:
        root().mkdir(parents=True, exist_ok=True)
        with locks.lock(_LOCK, "making the node environment", _PATIENCE, progress):
            for python in _present(further):
                return python
            for path in _places():
                if _read(path) is None:
                    shutil.rmtree(path, ignore_errors=True)
            return _make(further, progress)
    except OSError as error:
        raise PythonError(
            f"no place for the node environment in {root()}: {error}",
            remedy=f"Set XDG_CACHE_HOME to a directory that can be written, with "
            f"{_ROOM / 1e9:.1f} GB free.",
        ) from error


def remove(progress: Callable[[str], None]) -> list[Made]:
    """Remove all that no run uses, and what is left of attempts; those that were whole."""
    removed: list[Made] = []
    if not root().is_dir():
        return removed
    with locks.lock(_LOCK, "removing node environments", _PATIENCE, progress):
        for path in _places():
            found = _read(path)
            try:
                if not _unmarked(path):
                    progress(f"left alone, a run uses it: {path}")
                    continue
                shutil.rmtree(path)
            except OSError as error:
                raise PythonError(
                    f"{path} cannot be removed: {error.strerror}",
                    remedy="Something in it belongs to another user, who can remove it; so can "
                    "root, with this same XDG_CACHE_HOME.",
                ) from error
            if found is not None:
                removed.append(found)
    return removed


def hold(python: NodePython) -> int:
    """A descriptor that keeps it from being removed until it is closed; -1 if it is not ours."""
    place = Path(python.executable).parent.parent
    if place.parent != root():
        return -1
    gone = PythonError(f"{place} was removed just now", remedy="Run it again.")
    try:
        descriptor = os.open(place / _MARK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise gone from error
    locks.share(descriptor)
    if not os.path.exists(place / _MARK):
        os.close(descriptor)
        raise gone
    return descriptor


def _places() -> list[Path]:
    """A directory for each, whole or not; what is beside them is of links."""
    return sorted(path for path in root().glob("env-*") if path.is_dir())


def _present(further: str) -> Iterator[NodePython]:
    every = made()
    for source in (index.cpu_index(), PYPI):
        key = _key(further, source)
        yield from (with_place(item.python) for item in every if item.key == key)


def _key(further: str, source: str) -> str:
    what = [
        *install.REQUIREMENTS, further.strip(), source, platform.machine(),
        sys.implementation.cache_tag, sys.version.split()[0], sys.base_prefix,
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:12]


def _read(place: Path) -> Made | None:
    try:
        told = json.loads((place / _MARK).read_text(encoding="utf-8"))
        python = from_text(told["python"])
        found = Made(place, told["key"], told["source"], told["size"], python)
    except (OSError, ValueError, TypeError, LookupError):
        return None
    # The interpreter that it was made with may have been removed.
    return found if os.access(python.executable, os.X_OK) else None


def _make(further: str, progress: Callable[[str], None]) -> NodePython:
    said: list[str] = []
    wheels = index.cpu_index()
    progress("making the node environment, of torch and torchvision for hosts without Docker")
    why = index.why_not(wheels)
    if why:
        progress(f"the index of CPU wheels, {index.shown(wheels)}, cannot be used: {why}")
    for source in ([] if why else [wheels]) + [PYPI]:
        if source == PYPI:
            progress(
                f"torch and torchvision come from PyPI: about {_SIZE}, for they bring CUDA there"
            )
            if (free := shutil.disk_usage(root()).free) < _ROOM:
                said.append(
                    f"{root()} has {free / 1e9:.1f} GB free, and {_ROOM / 1e9:.1f} GB are needed "
                    "while it is made"
                )
                break
        else:
            progress(
                f"torch and torchvision come from {index.shown(wheels)}, for CPUs alone: about 1 GB"
            )
        for tool in install.tools():
            try:
                return _attempt(tool, source, further, progress)
            except install.Failed as error:
                said.append(f"{tool}, from {index.shown(source)}: {error}")
                progress(said[-1])
    raise PythonError(
        "the node environment, with torch for hosts without Docker, could not be made.\n"
        + "\n".join(said),
        remedy=_REMEDY,
    )


def _attempt(tool: str, source: str, further: str, progress: Callable[[str], None]) -> NodePython:
    key = _key(further, source)
    place = root() / f"env-{key}-{secrets.token_hex(4)}"
    try:
        place.mkdir(mode=0o755)
        place.chmod(0o755)
        executable = install.install(
            place, tool, None if source == PYPI else source, further, progress
        )
        python = of(executable)
        # Its own side is another directory for each fedtest.
        plain = replace(python, path=())
        size = install.size(place)
        told = {"key": key, "source": index.shown(source), "size": size, "python": plain.text()}
        new = place / f"{_MARK}.new"
        new.write_text(json.dumps(told, indent=1), encoding="utf-8")
        new.replace(place / _MARK)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    progress(f"made {place}, {size / 1e9:.1f} GB")
    return python


def _unmarked(place: Path) -> bool:
    """Take its mark away, without which it is nothing any more; False if somebody holds it."""
    try:
        descriptor = os.open(place / _MARK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        locks.take(descriptor)
        (place / _MARK).unlink()
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
