"""Ranks as processes: what the tests of the torch side do with them."""

import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

Start = Callable[[Sequence[str]], subprocess.Popen[str]]

DEADLINE = 120.0  # seconds any process here may live: never what a test waits for


def finish(
    processes: Sequence[subprocess.Popen[str]], deadline: float = DEADLINE
) -> list[tuple[int, str, str]]:
    """The exit status, standard output and standard error of each, in order."""
    ended = []
    for process in processes:
        out, err = process.communicate(timeout=deadline)
        ended.append((process.returncode, out, err))
    return ended


def copy(source: Path, target: Path) -> None:
    """Copy the four files of an MNIST directory."""
    shutil.copytree(source / "MNIST" / "raw", target / "MNIST" / "raw", dirs_exist_ok=True)
