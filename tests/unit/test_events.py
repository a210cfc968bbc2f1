"""One queue in, one numbered list out."""

from __future__ import annotations

import json
import math
import threading
import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from fedtest.engine.base import ProcessKey
from fedtest.errors import EngineError
from fedtest.run.events import EventLog, Exited, Inbox, Lost, Output

if TYPE_CHECKING:
    from pathlib import Path

KEY = ProcessKey("a", "p")


def test_what_an_engine_tells_comes_out_in_its_order() -> None:
    inbox = Inbox()
    error = EngineError("gone")
    inbox.output(KEY, "stdout", b"x")
    inbox.exited(KEY, 3)
    inbox.lost(KEY, error)
    assert [inbox.get(0) for _ in range(4)] == [
        Output(KEY, "stdout", b"x"),
        Exited(KEY, 3),
        Lost(KEY, error),
        None,
    ]


def test_a_full_inbox_holds_up_who_prints_until_something_is_taken() -> None:
    inbox = Inbox(size=1)
    inbox.exited(KEY, 1)
    done = threading.Event()
    writer = threading.Thread(daemon=True, target=lambda: (inbox.exited(KEY, 2), done.set()))
    writer.start()
    assert not done.wait(0.05)
    assert inbox.get(1) == Exited(KEY, 1)
    assert done.wait(10)
    writer.join()
    assert inbox.get(0) == Exited(KEY, 2)


def test_closing_frees_everybody_who_waits() -> None:
    inbox = Inbox(size=1)
    inbox.exited(KEY, 0)
    writers = [threading.Thread(daemon=True, target=inbox.exited, args=(KEY, n)) for n in range(5)]
    for writer in writers:
        writer.start()
    inbox.close()
    for writer in writers:
        writer.join(10)
    assert not any(writer.is_alive() for writer in writers)


def test_a_closed_inbox_takes_nothing_more_but_gives_what_it_has() -> None:
    inbox = Inbox()
    inbox.exited(KEY, 1)
    inbox.close()
    inbox.exited(KEY, 2)
    assert inbox.waiting() == 1
    assert inbox.get(0) == Exited(KEY, 1)
    assert inbox.get(0) is None


def test_how_much_there_is_to_read_is_bounded_and_not_how_many_items() -> None:
    inbox = Inbox(size=100_000)
    for _ in range(100):
        inbox.output(KEY, "stdout", b"x")
    inbox.output(KEY, "stdout", b"x" * 100_000)
    done = threading.Event()
    writer = threading.Thread(daemon=True, target=lambda: (inbox.exited(KEY, 2), done.set()))
    writer.start()
    assert not done.wait(0.05)
    inbox.close()
    writer.join(10)
    assert inbox.waiting() == 101


def test_a_time_to_wait_that_has_passed_already_is_none() -> None:
    assert Inbox().get(-5) is None


def lines(path: Path) -> list[dict[str, object]]:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return [
        json.loads(line, parse_constant=refuse)
        for line in path.read_text(encoding="utf-8").splitlines()
    ]


def test_events_are_numbered_and_timed_one_to_a_line(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    log.add("stage", name="hosts")
    log.add("exited", "server1", process="p", status=0)
    first, second = lines(log.path)
    assert (first["seq"], first["kind"], first["name"]) == (1, "stage", "hosts")
    assert "host" not in first
    assert (second["seq"], second["host"], second["status"]) == (2, "server1", 0)
    assert datetime.fromisoformat(str(first["time"])).utcoffset() == timedelta(0)
    log.close()


def test_an_event_is_in_the_file_when_it_has_been_added(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    for count in range(1, 4):
        log.add("x")
        assert len(lines(log.path)) == count
    log.close()


def test_a_closed_log_goes_on_where_it_was(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    log.add("x")
    log.close()
    log.add("y")
    log.close()
    assert [line["seq"] for line in lines(log.path)] == [1, 2]


def test_what_json_cannot_say_is_written_as_a_string(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    log.add("value", value=math.nan, other=[math.inf, -math.inf], text="\ud800\n")
    (line,) = lines(log.path)
    assert (line["value"], line["other"]) == ("nan", ["inf", "-inf"])
    log.close()


def test_many_events_take_little_time_each(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    began = time.process_time()
    for number in range(5000):
        log.add("value", "a", process="p", name="loss", value=number)
    log.close()
    assert (time.process_time() - began) / 5000 < 0.0005


def test_an_event_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").symlink_to("/dev/full")
    log = EventLog(tmp_path / "events.jsonl")
    log.add("x")
    log.add("y")
    log.close()
    assert log.error is not None
    assert log.count == 2
