"""How the tests themselves are run: each has a deadline, and hears signals, whoever starts them."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = """
import os, signal, subprocess, sys, threading
import pytest

@pytest.mark.timeout(0.2)
def test_reads_for_ever():
    reader, writer = os.pipe()
    os.read(reader, 1)

@pytest.mark.timeout(0.2)
def test_waits_for_a_thread_for_ever():
    thread = threading.Thread(target=threading.Event().wait, daemon=True)
    thread.start()
    thread.join()

def test_interrupts_a_child():
    script = "import os, signal; os.kill(os.getpid(), signal.SIGINT); print('deaf')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode == -signal.SIGINT
"""


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "by xdist"])
def test_a_job_in_the_background_ends_and_hears_signals(
    tmp_path: Path, workers: tuple[str, ...]
) -> None:
    (tmp_path / "conftest.py").write_text((ROOT / "tests/foreground.py").read_text())
    (tmp_path / "test_some.py").write_text(TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", ".",
         "-p", "no:cacheprovider", *workers, "test_some.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )  # fmt: skip
    assert "2 failed, 1 passed" in done.stdout, done.stdout
    assert done.stdout.count("Failed: Timeout") >= 2


def test_the_deadline_is_set_for_all(pytestconfig: pytest.Config) -> None:
    assert 0 < float(pytestconfig.getini("timeout")) <= 300
