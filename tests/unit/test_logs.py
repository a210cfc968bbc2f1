"""A log keeps a process's first and last words, says what it cut, and never holds it up."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedtest.run.logs import LINE, ProcessLog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def log(tmp_path: Path) -> Iterator[ProcessLog]:
    log = ProcessLog(tmp_path / "log", head=100, tail=50)
    yield log
    log.close()


def written(log: ProcessLog) -> bytes:
    log.close()
    return log.path.read_bytes()


def test_what_fits_is_there_as_it_was_printed(log: ProcessLog) -> None:
    log.feed("stdout", b"out\n")
    log.feed("stderr", b"err\n")
    assert written(log) == b"out\nerr\n"
    assert log.cut == 0


def test_what_was_printed_is_on_the_disk_before_the_process_ends(log: ProcessLog) -> None:
    log.feed("stdout", b"half a line")
    assert log.path.read_bytes() == b"half a line"


def test_a_line_says_how_much_was_cut_between_head_and_tail(log: ProcessLog) -> None:
    log.feed("stdout", b"h" * 100)
    log.feed("stdout", b"m" * 1000)
    log.feed("stdout", b"t" * 50)
    assert written(log) == b"h" * 100 + b"\n[fedtest: 1000 bytes cut here]\n" + b"t" * 50


def test_head_and_tail_that_meet_are_not_parted(log: ProcessLog) -> None:
    log.feed("stdout", b"x" * 150)
    assert written(log) == b"x" * 150


def test_output_that_is_no_text_is_kept_byte_for_byte(log: ProcessLog) -> None:
    data = bytes(range(256))[:90]
    assert log.feed("stdout", data + b"\n") == [
        *data.decode("utf-8", "replace").split("\n"),
    ]
    assert written(log) == data + b"\n"


def test_bytes_that_are_not_utf8_are_shown_as_replacement_characters(log: ProcessLog) -> None:
    assert log.feed("stdout", b"\xff\xfe ok\n") == ["\ufffd\ufffd ok"]


def test_a_character_that_came_in_two_pieces_is_whole_in_its_line(log: ProcessLog) -> None:
    assert log.feed("stdout", "é".encode()[:1]) == []
    assert log.feed("stdout", "é".encode()[1:] + b"\n") == ["é"]


def test_lines_of_the_two_streams_do_not_mix(log: ProcessLog) -> None:
    log.feed("stdout", b"one ")
    log.feed("stderr", b"two ")
    assert log.feed("stdout", b"out\n") == ["one out"]
    assert log.feed("stderr", b"err\n") == ["two err"]


def test_a_line_without_an_end_is_handed_on_at_the_close_with_its_stream(log: ProcessLog) -> None:
    log.feed("stdout", b"a\nout")
    log.feed("stderr", b"err")
    assert log.close() == [("stdout", "out"), ("stderr", "err")]
    assert log.close() == []


def test_the_last_lines_include_one_that_is_not_ended(log: ProcessLog) -> None:
    log.feed("stdout", b"connecting\nwaiting for peer ... ")
    assert log.last == ["connecting", "waiting for peer ... "]


def test_the_last_lines_are_few_and_short(tmp_path: Path) -> None:
    log = ProcessLog(tmp_path / "log")
    log.feed("stdout", b"".join(b"%d " % i + b"x" * 10_000 + b"\n" for i in range(100)))
    log.close()
    assert len(log.last) == 20
    assert log.last[-1].startswith("99 ")
    assert max(map(len, log.last)) == 500


def test_a_long_line_is_handed_on_in_pieces(tmp_path: Path) -> None:
    log = ProcessLog(tmp_path / "log")
    lines = log.feed("stdout", b"x" * (2 * LINE + 10) + b"\nnext\n")
    log.close()
    assert [len(line) for line in lines] == [LINE, LINE, 10, 4]


@given(size=st.integers(1, 3 * LINE), cuts=st.lists(st.integers(0, 3 * LINE), max_size=5))
def test_lines_are_the_same_however_the_output_is_cut_into_pieces(
    tmp_path_factory: pytest.TempPathFactory, size: int, cuts: list[int]
) -> None:
    data = b"x" * size + b"\nb\n\nc"
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    path = tmp_path_factory.getbasetemp() / "pieces"
    whole, pieces = ProcessLog(path), ProcessLog(path)
    expected = whole.feed("stdout", data) + [text for _, text in whole.close()]
    found = [
        line for begin, end in pairwise(places) for line in pieces.feed("stdout", data[begin:end])
    ]
    found += [text for _, text in pieces.close()]
    assert found == expected


@given(
    pieces=st.lists(st.binary(max_size=40), max_size=30),
    head=st.integers(0, 100),
    tail=st.integers(0, 100),
)
def test_what_is_written_is_the_head_the_message_and_the_tail(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], head: int, tail: int
) -> None:
    log = ProcessLog(tmp_path_factory.getbasetemp() / "property", head=head, tail=tail)
    for number, piece in enumerate(pieces):
        log.feed(("stdout", "stderr")[number % 2], piece)
    data = b"".join(pieces)
    cut = max(len(data) - head - tail, 0)
    message = b"\n[fedtest: %d bytes cut here]\n" % cut if cut else b""
    rest = data[head:]
    assert written(log) == data[:head] + message + rest[len(rest) - min(tail, len(rest)) :]
    assert log.cut == cut


def test_memory_is_bounded_whatever_is_printed(tmp_path: Path) -> None:
    log = ProcessLog(tmp_path / "log", head=1000, tail=50_000)
    small, large = b"ab\n", b"x" * 65536
    tracemalloc.start()
    try:
        for _ in range(20_000):
            log.feed("stdout", small)
        for _ in range(20):
            log.feed("stderr", large)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        log.close()
    assert peak < 1_000_000
    assert log.path.stat().st_size < 52_000


def test_output_after_the_close_is_no_error(log: ProcessLog) -> None:
    log.close()
    assert log.feed("stdout", b"late\n") == []


def test_a_full_disk_is_told_and_lines_still_come(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.symlink_to("/dev/full")
    log = ProcessLog(path)
    assert log.feed("stdout", b"one\n") == ["one"]
    assert log.feed("stdout", b"two\n") == ["two"]
    log.close()
    assert log.error is not None
    assert log.error.strerror == "No space left on device"
