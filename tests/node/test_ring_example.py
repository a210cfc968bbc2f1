"""examples/ring as it is copied to servers."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest
import torch
from ranks import DEADLINE, Start, finish

import fedtest
from fedtest.ring import checkpoint

EXAMPLE = Path(__file__).parents[2] / "examples" / "ring"


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A directory as its README has it made."""
    made = tmp_path / "ring"
    shutil.copytree(EXAMPLE, made)
    without = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(fedtest.__file__).parent, made / "fedtest", ignore=without)
    return made


def test_it_outlives_its_terminal(copied: Path, small_mnist: Path, port: int) -> None:
    """Started by nohup, as the session's leader of a terminal that goes away."""
    terminal, end = pty.openpty()
    command = ["nohup", sys.executable, "-u", "train.py", "--rank", "0"]
    command += ["--init-method", f"tcp://127.0.0.1:{port}", "--world-size", "1"]
    command += ["--data", str(small_mnist), "--epoch", "10", "--log-file", "log"]
    process = subprocess.Popen(
        ["setsid", "--ctty", "--wait", *command],
        stdin=end,
        stdout=end,
        stderr=end,
        cwd=copied,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    )
    os.close(end)
    # nohup says what it does before it does it, so it is the trainer that is waited for.
    log, until = copied / "log", time.monotonic() + DEADLINE
    while not log.exists():
        assert time.monotonic() < until
        process.poll()
        assert process.returncode is None, "it ended before the terminal was closed"
        time.sleep(0.05)
    os.close(terminal)
    try:
        process.wait(DEADLINE)
    finally:
        process.kill()
    assert "epoch=10 test_accuracy=" in log.read_text(encoding="utf-8")
    assert (copied / "checkpoints" / checkpoint.MODEL).exists()


LOOK = """
import runpy, sys
runpy.run_path(sys.argv[1])
import fedtest
print(fedtest.__file__)
"""


def test_a_copy_takes_the_package_beside_it(copied: Path, start: Start) -> None:
    [(status, out, err)] = finish([start(["-c", LOOK, str(copied / "train.py")])])
    assert status == 0, err
    assert Path(out.strip()) == copied / "fedtest" / "__init__.py"


def test_a_copy_without_the_package_says_what_to_copy(copied: Path, start: Start) -> None:
    shutil.rmtree(copied / "fedtest")
    # Without what is installed here, and without the clone.
    [(status, _, err)] = finish([start(["-I", "-S", str(copied / "train.py")])])
    assert status == 1
    assert err.startswith("No module named 'fedtest'")
    assert ": copy the directory fedtest of the clone beside train.py, or install it" in err


@pytest.mark.skipif(torch.__version__ < "2", reason="Debian 12's torch, which pip does not install")
def test_what_it_asks_for_is_no_newer_than_what_is_tested() -> None:
    text = (EXAMPLE / "requirements.txt").read_text(encoding="utf-8")
    asked = dict(re.findall(r"^(\w+)>=([0-9.]+)$", text, re.MULTILINE))
    assert {"torch", "torchvision"} <= asked.keys()
    for name, least in asked.items():
        assert numbers(least) <= numbers(import_module(name).__version__), name


def numbers(text: str) -> list[int]:
    return [int(each) for each in re.match(r"[0-9.]*[0-9]", text)[0].split(".")]  # type: ignore[index]
