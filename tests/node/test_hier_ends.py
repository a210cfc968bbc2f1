"""Middle servers whose parts, clients or servers end early: who is told what, and that all end."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hier_cases as cases
import hier_ends as ends
import pytest
from comm_ranks import DEADLINE, Ranks
from hier_cases import CODES, MIDDLE, TOP

from fedtest.comm.hierarchical.connector import LEAVING

Run = Callable[..., Ranks]
SOON = 30.0  # seconds within which everybody knows, on a busy machine
UPPER, LOWER = 0, 1  # in which order a scheduler starts its sides


def children(pid: int) -> list[int]:
    """The processes that `pid` has started, in order."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += map(int, (task / "children").read_text(encoding="ascii").split())
    return found


def await_gone(pids: list[int]) -> None:
    """Wait until those processes are no more."""
    deadline = time.monotonic() + SOON
    for pid in pids:
        while _state(pid) not in {"", "Z"}:
            assert time.monotonic() < deadline, f"process {pid} is still there"
            time.sleep(0.005)


def _state(pid: int) -> str:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return text.rpartition(")")[2].split()[0]


@pytest.fixture
def life(ranks: Run, other_port: int) -> tuple[Ranks, list[int]]:
    """A tree that is set up, and the processes of its middle server's sides."""
    running = ranks(ends.life, 4, other_port, {})
    assert running.heard(TOP) == "set up"
    sides = children(running.processes[MIDDLE].pid)
    assert len(sides) == 2
    return running, sides


def told(running: Ranks, rank: int) -> list[Any]:
    """What a client has been told; it has ended in order."""
    seen = running.heard(rank)
    assert running.result(rank)["kind"] is None
    return [code for code, _, _ in seen]


def test_a_client_dies_the_top_is_told_its_ids_and_the_others_go_on(
    life: tuple[Ranks, list[int]],
) -> None:
    running, sides = life
    running.kill(2)  # of 2 ids
    assert running.heard(TOP) == (1, "Exit", [0, 1])
    running.tell(TOP, [0, 1])
    assert told(running, 3) == [CODES[1].name, "Exit"]
    assert running.result(TOP)["kind"] is None
    assert running.result(MIDDLE)["kind"] is None
    await_gone(sides)


def test_the_top_dies_and_the_clients_are_told(life: tuple[Ranks, list[int]]) -> None:
    running, sides = life
    began = time.monotonic()
    running.kill(TOP)
    for rank in (2, 3):
        assert told(running, rank) == ["Exit"]
    found = running.result(MIDDLE)
    assert time.monotonic() - began < SOON
    assert found["kind"] == "ConnectorLost"
    assert "the upper side: PeerLost: rank 0 is gone" in found["text"]
    assert found["lower"] is None
    await_gone(sides)


def all_were_told(
    running: Ranks, found: dict[str, Any], sides: list[int], which: int, why: str
) -> None:
    """The middle server says what became of the side, its other side and both ends hear of it."""
    dead, other = ("upper", "lower") if which == UPPER else ("lower", "upper")
    assert found[dead] == f"process {sides[which]} {why}"
    assert found[other] == f"ConnectorLost: the {dead} side of the middle server is gone"
    if which == UPPER:
        for rank in (2, 3):
            assert told(running, rank) == ["Exit"]
        seen = running.result(TOP)
        assert (seen["kind"], seen["peer"]) == ("PeerLost", 1)
    else:
        for rank in (2, 3):
            seen = running.result(rank)
            assert (seen["kind"], seen["peer"]) == ("PeerLost", 0)
        assert running.heard(TOP) == (1, "Exit", [0, 1, 2, 3, 4])
    await_gone(sides)


@pytest.mark.parametrize("which", [UPPER, LOWER])
def test_a_side_dies_and_the_other_ends_with_an_error_that_names_it(
    life: tuple[Ranks, list[int]], which: int
) -> None:
    running, sides = life
    os.kill(sides[which], signal.SIGKILL)
    found = running.result(MIDDLE)
    assert found["kind"] == "ConnectorLost"
    all_were_told(running, found, sides, which, "was ended by SIGKILL")


def test_the_scheduler_dies_and_both_sides_tell_theirs_and_end(
    life: tuple[Ranks, list[int]],
) -> None:
    running, sides = life
    running.kill(MIDDLE)
    assert running.heard(TOP) == (1, "Exit", [0, 1, 2, 3, 4])
    for rank in (2, 3):
        assert told(running, rank) == ["Exit"]
    await_gone(sides)


def test_the_whole_middle_server_dies_and_both_ends_name_it(
    life: tuple[Ranks, list[int]],
) -> None:
    running, sides = life
    for pid in (running.processes[MIDDLE].pid, *sides):
        os.kill(pid, signal.SIGKILL)
    for rank, peer in ((TOP, 1), (2, 0), (3, 0)):
        seen = running.result(rank)
        assert (seen["kind"], seen["peer"], seen["closed"]) == ("PeerLost", peer, False)
    await_gone(sides)


def test_a_client_dies_two_levels_down_and_the_top_knows_which(
    ranks: Run, ports: Callable[[int], list[int]]
) -> None:
    running = ranks(cases.levels, 6, ports(3), "LOCAL", True, True)
    assert running.heard(TOP) == "set up"
    running.kill(5)  # the client of id 2
    news, *found = running.result(TOP)
    assert news == (1, "Exit", [2])
    assert [ids for ids, *_ in found] == [[0, 1], [0, 1]]
    for middle in (1, 2, 3):
        running.result(middle)
    assert running.result(4) == [[0], [1], []]


def test_a_client_that_does_not_answer_to_exit_is_named_in_time(
    ranks: Run, other_port: int
) -> None:
    running = ranks(ends.silent_client, 4, other_port)
    found = running.result(MIDDLE)
    assert found["kind"] == "ConnectorLost"
    assert "ExitTimeout: rank 1 below has not answered to Exit within 1 s" in found["text"]
    assert running.result(TOP) == (1, "Exit", None)
    for rank in (2, 3):  # 3 has closed without an answer, which is one
        running.result(rank)


def test_every_answer_to_exit_is_waited_for(ranks: Run, other_port: int) -> None:
    running = ranks(ends.late_client, 4, other_port)
    assert running.heard(2) == "asked"
    running.result(3)
    assert not running.lines[TOP].poll(0.3)
    running.tell(2)
    assert running.heard(TOP) == "answered"
    for rank in (TOP, MIDDLE, 2):
        running.result(rank)


@pytest.mark.parametrize("which", [UPPER, LOWER])
def test_a_side_that_stands_still_is_named_in_time_and_it_is_as_if_it_had_died(
    ranks: Run, other_port: int, which: int
) -> None:
    running = ranks(ends.life, 4, other_port, {"silence_timeout": ends.QUIET})
    assert running.heard(TOP) == "set up"
    sides = children(running.processes[MIDDLE].pid)
    os.kill(sides[which], signal.SIGSTOP)
    stopped_at = time.monotonic()
    found = running.result(MIDDLE)
    assert time.monotonic() - stopped_at < ends.QUIET + SOON
    why = "has given no sign of life for 3 s and was killed"
    all_were_told(running, found, sides, which, why)


def test_a_middle_server_that_was_paused_as_a_whole_goes_on(ranks: Run, other_port: int) -> None:
    running = ranks(ends.life, 4, other_port, {"silence_timeout": ends.QUIET})
    assert running.heard(TOP) == "set up"
    middle = running.processes[MIDDLE].pid
    all_of_it = [middle, *children(middle)]
    for pid in all_of_it:
        os.kill(pid, signal.SIGSTOP)
    assert not running.lines[TOP].poll(2 * ends.QUIET)
    for pid in all_of_it:
        os.kill(pid, signal.SIGCONT)
    running.kill(2)  # so there is news
    assert running.heard(TOP) == (1, "Exit", [0, 1])
    running.tell(TOP, [0, 1])
    assert told(running, 3) == [CODES[1].name, "Exit"]
    for rank in (TOP, MIDDLE):
        assert running.result(rank)["kind"] is None


def test_a_strategy_that_takes_long_is_not_taken_for_a_side_that_stands_still(
    ranks: Run, other_port: int
) -> None:
    top, middle, client = ranks(ends.patient, 3, other_port).results()
    assert middle["kind"] is None
    assert top[1] == CODES[0].name
    assert [code for code, _, _ in client] == [CODES[0].name, "Exit"]


def test_who_reads_the_queue_directly_sees_real_messages_only(ranks: Run, other_port: int) -> None:
    top, middle, client = ranks(ends.direct, 3, other_port).results()
    assert middle["kind"] is None
    assert top == [CODES[0].name, "Exit"]
    assert [code for code, _, _ in client] == [CODES[0].name, "Exit"]


def test_a_lower_side_that_stands_still_after_exit_is_named_by_the_upper_side_too(
    ranks: Run, other_port: int
) -> None:
    running = ranks(ends.stopped, 4, other_port)
    assert running.heard(TOP) == "set up"
    sides = children(running.processes[MIDDLE].pid)
    os.kill(sides[LOWER], signal.SIGSTOP)
    running.tell(TOP)
    told_at = time.monotonic()
    found = running.result(MIDDLE)
    limit = 0.5 + 2 * LEAVING
    assert time.monotonic() - told_at < 2 * limit + LEAVING + SOON
    silent = f"the lower side of the middle server has said nothing for {limit:g} s after Exit"
    assert found["upper"] == f"ConnectorLost: {silent}"
    assert found["lower"] == f"process {sides[LOWER]} was ended by SIGKILL"
    await_gone(sides)
    assert running.result(TOP) == (1, "Exit", [0, 1])
    assert running.result(2)["kind"] == running.result(3)["kind"] == "PeerLost"


def test_a_strategy_that_never_returns_does_not_keep_the_lower_side_from_its_end(
    ranks: Run, other_port: int
) -> None:
    top, middle, sender, _ = ranks(ends.stuck, 4, other_port).results()
    assert top == (1, "Exit", None)
    assert middle["upper"] is None
    late = "ExitTimeout: rank 1, 2 below has not answered to Exit within 0.5 s"
    assert middle["lower"] == late
    assert (sender["kind"], sender["peer"]) == ("PeerLost", 0)


def test_a_lower_side_that_is_busy_after_exit_is_not_taken_for_one_that_stands_still(
    ranks: Run, other_port: int
) -> None:
    top, middle, client = ranks(ends.busy, 3, other_port).results()
    assert middle["kind"] is None
    assert [code for _, code, _ in top] == [CODES[0].name, "Exit"]
    assert [code for code, _, _ in client] == [CODES[0].name, "Exit"]


def test_clients_are_told_that_there_is_nobody_above(ranks: Run, other_port: int) -> None:
    _, middle, client = ranks(ends.no_top, 3, other_port).results()
    assert middle["upper"].startswith("RendezvousTimeout: joining as rank 1 of 2")
    assert middle["lower"] is None
    assert [code for code, _, _ in client] == ["Exit"]


def test_an_id_that_there_is_not_ends_it_in_order(ranks: Run, other_port: int) -> None:
    top, middle, client = ranks(ends.wrong_id, 3, other_port).results()
    assert "the lower side: IdError: there is no client 7" in middle["text"]
    assert top == (1, "Exit", [0])
    assert [code for code, _, _ in client] == ["Exit"]


@pytest.mark.parametrize("what", ["killed", "terminated"])
def test_no_orphan_stays_while_it_waits_for_others_to_join(
    ranks: Run, other_port: int, what: str
) -> None:
    running = ranks(ends.starts, 1, other_port)
    scheduler = running.heard(0)
    sides: list[int] = []
    deadline = time.monotonic() + DEADLINE
    while len(sides) < 2:
        assert time.monotonic() < deadline
        sides = children(scheduler)
    os.kill(scheduler, signal.SIGKILL if what == "killed" else signal.SIGTERM)
    await_gone([scheduler, *sides])


PROGRAM = """
import sys
from fedtest.comm import DistNetwork
from fedtest.comm.hierarchical import Scheduler

if __name__ == "__main__":
    upper, lower = map(int, sys.argv[1:])
    middle = Scheduler(
        DistNetwork(("127.0.0.1", upper), 2, 1, "lo", timeout=60),
        DistNetwork(("127.0.0.1", lower), 2, 0, "lo", timeout=60),
    )
    middle.start()
    print("started", middle.pid, flush=True)
    # Here the interpreter ends, and waits for the middle server.
"""


@contextmanager
def program(
    directory: Path, text: str, ports: list[int]
) -> Iterator[tuple[subprocess.Popen[str], int, list[int]]]:
    """Such a program, and the processes of its Scheduler and of the two sides."""
    file = directory / "program.py"
    file.write_text(text, encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, str(file), *map(str, ports)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        scheduler = int(process.stdout.readline().split()[1])
        sides: list[int] = []
        deadline = time.monotonic() + DEADLINE
        while len(sides) < 2:
            assert time.monotonic() < deadline
            sides = children(scheduler)
        yield process, scheduler, sides


@pytest.fixture
def meeting(port: int, other_port: int) -> list[int]:
    """The ports of the groups above and below."""
    return [port, other_port]


@pytest.mark.parametrize(("last", "status"), [("", 0), ("    sys.exit(3)\n", 3)])
def test_an_interpreter_that_comes_to_its_end_waits_for_the_middle_server(
    ranks: Run, meeting: list[int], tmp_path: Path, last: str, status: int
) -> None:
    with program(tmp_path, PROGRAM + last, meeting) as (process, scheduler, sides):
        assert process.poll() is None
        _, client = ranks(ends.around, 2, meeting[1]).results()
        out, err = process.communicate(timeout=SOON)
    assert [code for code, _, _ in client] == ["Exit"]
    assert (process.returncode, out, err) == (status, "", "")
    assert not any(map(_state, [scheduler, *sides]))


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_orphan_stays_when_the_interpreter_ends(
    ports: Callable[[int], list[int]], tmp_path: Path, how: signal.Signals
) -> None:
    with program(tmp_path, PROGRAM, ports(2)) as (process, scheduler, sides):
        if how is signal.SIGINT:  # as a terminal does
            os.killpg(process.pid, how)
        else:
            process.send_signal(how)
        await_gone([process.pid, scheduler, *sides])
        process.wait(SOON)
