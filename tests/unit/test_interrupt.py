"""Real signals to real processes: the first cleans up, the second leaves."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import fedtest
from fedtest.errors import Interrupted
from fedtest.run.interrupt import Interruption

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(fedtest.__file__).parents[1]
PRELUDE = """
import os, signal, sys
from fedtest.errors import Interrupted
from fedtest.run.interrupt import Interruption
interruption = Interruption()
def wait(word):
    print(word, flush=True)
    return sys.stdin.readline()
"""
CLEANS_UP = """
with interruption.watch():
    try:
        with interruption.allowed():
            wait("working")
    except Interrupted as error:
        print(error, flush=True)
    wait("cleaning")
print("pending" if interruption.pending else "clean", flush=True)
"""


@pytest.fixture
def start() -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Starts Python with the prelude and a script, and leaves none of it running."""
    processes: list[subprocess.Popen[str]] = []

    def run(script: str, **options: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(  # type: ignore[call-overload]
            [sys.executable, "-c", PRELUDE + script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            **options,
        )
        processes.append(process)
        return process  # type: ignore[no-any-return]

    yield run
    for process in processes:
        with process:
            process.kill()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_ends_the_work_and_lets_it_be_cleaned_up(
    start: Callable[[str], subprocess.Popen[str]], number: signal.Signals
) -> None:
    process = start(CLEANS_UP)
    assert said(process) == "working"
    process.send_signal(number)
    assert said(process) == f"interrupted by {number.name}"
    assert said(process) == "cleaning"
    out, err = process.communicate("\n", timeout=30)
    assert (out, err, process.returncode) == ("clean\n", "", 0)


def test_a_signal_while_cleaning_up_is_put_off(
    start: Callable[[str], subprocess.Popen[str]],
) -> None:
    process = start(CLEANS_UP.replace('wait("working")', "pass"))
    assert said(process) == "cleaning"
    process.send_signal(signal.SIGTERM)
    assert process.stderr
    assert process.stderr.readline() == "\n"
    assert "once more to leave at once" in process.stderr.readline()
    out, _ = process.communicate("\n", timeout=30)
    assert (out, process.returncode) == ("pending\n", 0)


def test_the_second_signal_leaves_at_once_with_130(
    start: Callable[[str], subprocess.Popen[str]],
) -> None:
    process = start(CLEANS_UP)
    assert said(process) == "working"
    process.send_signal(signal.SIGINT)
    assert said(process) == "interrupted by SIGINT"
    assert said(process) == "cleaning"
    insist(process, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (out, process.returncode) == ("", 130)
    assert "fedtest clean" in err


def test_a_signal_that_comes_twice_at_once_is_one(
    start: Callable[[str], subprocess.Popen[str]],
) -> None:
    process = start(CLEANS_UP)
    assert said(process) == "working"
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    assert said(process).startswith("interrupted by")
    assert said(process) == "cleaning"
    process.send_signal(signal.SIGINT)  # Still soon after the first.
    out, _ = process.communicate("\n\n", timeout=30)
    assert out == "clean\n"


def test_two_signals_while_cleaning_up_leave_at_once_too(
    start: Callable[[str], subprocess.Popen[str]],
) -> None:
    process = start(CLEANS_UP.replace('wait("working")', "pass"))
    assert said(process) == "cleaning"
    process.send_signal(signal.SIGTERM)
    assert process.stderr
    process.stderr.readline()
    process.stderr.readline()
    insist(process, signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 130


def insist(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Signal it until it is gone: what comes soon after the first one does not count."""
    while process.poll() is None:
        process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.1)


def test_hang_ups_stay_ignored_under_nohup(
    start: Callable[..., subprocess.Popen[str]],
) -> None:
    process = start(CLEANS_UP, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    assert said(process) == "working"
    process.send_signal(signal.SIGHUP)
    out, err = process.communicate("\n\n", timeout=30)
    assert (out, err) == ("cleaning\nclean\n", "")


def test_the_handlers_of_before_are_put_back() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    with suppress(ZeroDivisionError), Interruption().watch():
        assert [signal.getsignal(number) for number in numbers] != before
        raise ZeroDivisionError
    assert [signal.getsignal(number) for number in numbers] == before


def test_a_signal_that_was_put_off_comes_before_more_work_is_begun() -> None:
    interruption = Interruption()
    begun = False
    with interruption.watch():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(Interrupted), interruption.allowed():
            begun = True
    assert not begun
    assert interruption.pending is None


def test_there_is_no_moment_at_which_clean_up_is_kept_from_being_done() -> None:
    """The signal comes at each line that Python runs, one after the other."""
    line = 0
    while interrupted_at(line):
        line += 1
    assert line > 10


def interrupted_at(line: int) -> bool:
    """Works with a signal at one line; whether there are as many. Fails if clean-up is left out."""
    interruption = Interruption()
    passed = cleaned = 0

    def trace(*_: object) -> object:
        nonlocal passed
        if passed == line:
            signal.raise_signal(signal.SIGINT)
        passed += 1
        return trace

    def work() -> None:
        nonlocal cleaned
        with suppress(Interrupted), interruption.allowed():
            str(line)
        cleaned += 1

    previous = sys.gettrace()
    with interruption.watch():
        sys.settrace(trace)
        try:
            work()
        finally:
            sys.settrace(previous)
    assert cleaned == 1
    return passed > line


def test_in_another_thread_signals_are_left_to_the_main_one() -> None:
    seen = []

    def work() -> None:
        before = signal.getsignal(signal.SIGINT)
        with Interruption().watch():
            seen.append(signal.getsignal(signal.SIGINT) is before)

    thread = threading.Thread(daemon=True, target=work)
    thread.start()
    thread.join()
    assert seen == [True]
