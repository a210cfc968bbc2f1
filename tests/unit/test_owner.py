"""An owner is dead only where that is certain: what is left behind belongs to somebody."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedtest.engine import owner
from fedtest.engine.owner import Owner

HOLD = "import sys; print('up', flush=True); sys.stdin.read()"


def of(pid: int) -> Owner:
    """The owner that process `pid` would tell of itself."""
    stat = owner._stat(pid)
    assert stat is not None
    return replace(Owner.me(), pid=pid, started=stat.started)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with an id of its own, which not every container has."""
    monkeypatch.setattr(owner, "_machine", lambda: "c0ffee")


def test_this_process_is_alive() -> None:
    assert not Owner.me().is_dead()


def test_what_is_written_on_a_label_is_read_from_it() -> None:
    assert Owner.parse(str(Owner.me())) == Owner.me()


@pytest.mark.parametrize(
    "label", ["", "a/b/c/1", "a/b/c/x/1", "a/b/c/1/-1", "a/b/c/1/2/3", "a/b/c/²/1"]
)
def test_a_label_of_somebody_elses_making_is_no_owner(label: str) -> None:
    assert Owner.parse(label) is None


@given(st.lists(st.text("a1\u00b2\u0663-"), min_size=4, max_size=6))
def test_no_label_makes_reading_it_fail(parts: list[str]) -> None:
    assert Owner.parse("/".join(parts)) is None or len(parts) == 5


def test_a_process_that_ended_is_dead_from_when_it_ended() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        process.stdout.readline()
        other = of(process.pid)
        assert not other.is_dead()
        process.communicate()
    assert other.is_dead()


def test_a_zombie_is_dead_although_it_has_not_been_waited_for() -> None:
    with subprocess.Popen(["sleep", "0"]) as process:
        other = of(process.pid)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert other.is_dead()


def test_a_process_id_that_was_given_to_another_process_does_not_live_on_in_it() -> None:
    me = Owner.me()
    assert replace(me, started=me.started - 1).is_dead()


@pytest.mark.usefixtures("machine")
def test_another_machines_owner_is_never_dead() -> None:
    assert not replace(Owner.me(), machine="another", boot="another", pid=2**22 + 1).is_dead()


@pytest.mark.usefixtures("machine")
def test_another_pid_namespaces_owner_is_never_dead() -> None:
    assert not replace(Owner.me(), pid_namespace="1", pid=2**22 + 1).is_dead()


@pytest.mark.usefixtures("machine")
def test_what_was_started_before_this_machine_was_is_dead() -> None:
    assert replace(Owner.me(), boot="an earlier one").is_dead()


def test_without_a_machine_id_another_boot_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, "_machine", lambda: "")
    assert not replace(Owner.me(), boot="another").is_dead()


def test_a_process_whose_proc_is_hidden_from_us_is_not_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = replace(Owner.me(), pid=1, started=1)
    monkeypatch.setattr(owner, "_stat", lambda _: None)  # as with hidepid=2
    assert not other.is_dead()


def test_a_number_that_can_be_no_process_id_is_dead() -> None:
    assert replace(Owner.me(), pid=10**30).is_dead()
