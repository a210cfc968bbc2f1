"""Where what travels with fedtest lies: the Dockerfile, `images/` and `scenarios/`.

In a wheel under `fedtest/_bundle/` (pyproject.toml puts it there), in a clone
or an editable installation at the repository's root.
"""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path

from fedtest.errors import FedtestError, UsageError
from fedtest.local_files import is_directory, is_file

PACKAGE = Path(__file__).resolve().parent


def bundle() -> Path:
    """The directory that holds `Dockerfile`, `images` and `scenarios`."""
    for root in (PACKAGE / "_bundle", PACKAGE.parent):
        if (root / "Dockerfile").is_file() and (root / "images").is_dir():
            return root
    raise FedtestError(
        f"this installation of fedtest is not whole: no Dockerfile under {PACKAGE / '_bundle'} "
        f"nor in {PACKAGE.parent}",
        remedy="Install it again: pip install --force-reinstall fedtest",
    )


def scenario_file(argument: str) -> Path:
    """The scenario that a user means: a path, or else one that ships.

    `scenarios/ring.yaml`, `ring.yaml` and `ring` find the shipped one from any
    directory; a file that is there always comes first. UsageError if neither.
    """
    path = Path(argument)
    if is_file(path):
        return path
    shipped = shipped_scenarios()
    if path.parent in {Path(), Path("scenarios")} and path.suffix in {"", ".yaml"}:
        found = shipped.get(path.stem if path.suffix else path.name)
        if found:
            return found
    if is_directory(path):
        what = "is a directory"
    elif os.path.exists(path):  # noqa: PTH110 - Path's raises where a name is too long to be one
        what = "is a pipe or a device, and only a file can be read again"
    else:
        what = "no such file"
    near = get_close_matches(path.stem, shipped, n=1)
    raise UsageError(
        f"{argument}: {what}",
        remedy=f"Did you mean {near[0]}?"
        if near
        else f"A file, or one that ships: {', '.join(shipped) or 'none does'}.",
    )


def shipped_scenarios() -> dict[str, Path]:
    """The scenarios that ship, by name, sorted."""
    return {path.stem: path for path in sorted((bundle() / "scenarios").glob("*.yaml"))}
