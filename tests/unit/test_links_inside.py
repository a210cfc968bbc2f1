"""The programs that scripts carry along, as far as they need no network namespace."""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fedtest.links import inside
from fedtest.links.inside import connect, delay, listen, probe

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAMS = Path(inside.__file__).parent


@pytest.mark.parametrize("name", ["connect", "delay", "listen", "probe"])
def test_a_program_needs_nothing_but_python(name: str) -> None:
    """They travel as text into namespaces where no package of ours is."""
    text = (PROGRAMS / f"{name}.py").read_text(encoding="utf-8")
    assert "fedtest" not in text
    code = f"import sys; sys.argv = ['x']; __name__ = 'other'\n{text}"
    subprocess.run([sys.executable, "-I", "-c", code], check=True, timeout=60)


class TestLine:
    """One queue of packets that are delayed."""

    def test_a_packet_is_due_when_its_delay_is_over_and_not_before(self) -> None:
        line = delay.Line(3, 0.010, 0)
        line.add(7, 100.0)
        assert line.due(100.0099) == b""
        verdict = line.due(100.0101)
        assert struct.unpack("!II", verdict[-8:]) == (delay.NF_ACCEPT, 7)
        assert line.due(200) == b""

    def test_one_verdict_is_for_all_that_are_due(self) -> None:
        line = delay.Line(3, 0.010, 0)
        for packet in range(5):
            line.add(packet, 100 + packet / 1000)
        assert struct.unpack("!II", line.due(100.0125)[-8:])[1] == 2
        assert len(line.waiting) == 2

    def test_jitter_stays_within_its_bounds_and_never_reorders(self) -> None:
        line = delay.Line(3, 0.010, 0.004)
        for packet in range(1000):
            line.add(packet, packet / 1000)
        dues = [due for due, _ in line.waiting]
        assert dues == sorted(dues)
        delays = [due - packet / 1000 for due, packet in line.waiting]
        assert 0.006 <= min(delays) < 0.008
        assert 0.0138 < max(delays) <= 0.014


def test_a_packets_id_is_read_from_the_kernels_message() -> None:
    body = delay.message(delay.PACKET, 0, 5, (1, struct.pack("!IHB", 4711, 0x0800, 1)))
    assert delay.packet_id(body) == 4711


def packet(*attributes: tuple[int, bytes]) -> memoryview:
    head = (delay.PACKET_HEAD, struct.pack("!IHB", 4711, 0x0800, 1))  # padded by one
    return memoryview(delay.message(delay.PACKET, 0, 5, head, *attributes))


class TestClock:
    """When a packet came, by the clock by which it is due."""

    @pytest.fixture(autouse=True)
    def times(self, monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
        found = {"monotonic": 50.0, "time": 1000.0}
        monkeypatch.setattr(delay.time, "monotonic", lambda: found["monotonic"])
        monkeypatch.setattr(delay.time, "time", lambda: found["time"])
        return found

    def stamped(self, seconds: int, micros: int) -> memoryview:
        return packet((3, b"mark"), (delay.TIMESTAMP, struct.pack("!QQ", seconds, micros)))

    def came(self, clock: delay.Clock, message: memoryview) -> float:
        clock.look()
        return clock.came(message)

    def test_a_packet_came_when_the_kernel_says(self) -> None:
        clock = delay.Clock()
        assert self.came(clock, self.stamped(999, 999_750)) == pytest.approx(49.99975)
        # However long it took to be told.
        assert self.came(clock, self.stamped(997, 0)) == pytest.approx(47)

    def test_one_without_a_stamp_came_now(self) -> None:
        assert self.came(delay.Clock(), packet((3, b"mark"))) == 50
        assert self.came(delay.Clock(), packet()) == 50

    def test_none_comes_later_than_now(self) -> None:
        assert self.came(delay.Clock(), self.stamped(1000, 500)) == 50

    def test_a_time_of_day_that_is_set_moves_no_packet(self, times: dict[str, float]) -> None:
        clock = delay.Clock()
        times["time"] += 0.5
        assert self.came(clock, self.stamped(999, 999_750)) == 50
        assert self.came(clock, self.stamped(1000, 499_750)) == pytest.approx(49.99975)
        times["time"] -= 3600
        assert self.came(clock, self.stamped(1000, 499_750)) == 50


def test_a_packet_that_came_before_another_waits_for_its_turn() -> None:
    line = delay.Line(3, 0.010, 0)
    line.add(1, 100.002)
    line.add(2, 100.0)
    assert line.due(100.011) == b""
    assert struct.unpack("!II", line.due(100.0121)[-8:])[1] == 2


def test_a_timer_is_as_late_as_it_was_and_a_machine_without_time_teaches_nothing() -> None:
    late = delay.Lateness()
    for _ in range(200):
        late.learn(0.0001)
        late.learn(0.2)
    assert late.seconds == pytest.approx(0.0001, rel=0.01)


class TestFlow:
    """What the probe counts."""

    def test_distinct_doubled_and_overtaken_packets_are_told_apart(self) -> None:
        flow = probe.Flow()
        for number in (0, 1, 3, 2, 2, 5):
            flow.count(number)
        found = flow.result()
        assert (found["packets"], found["distinct"], found["twice"], found["late"]) == (6, 5, 1, 1)

    def test_the_rate_is_that_after_the_burst(self) -> None:
        flow = probe.Flow()
        flow.arrive(0.0, 1_000_000, 700)
        for at in range(1, 1001):
            flow.arrive(at / 1000, 12_500, 9)
        assert flow.rate() == pytest.approx(100e6, rel=0.002)

    def test_nothing_has_no_rate(self) -> None:
        assert probe.Flow().rate() == 0


@pytest.fixture
def server() -> int:
    """A probe's other end on this machine's loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as some:
        some.bind(("127.0.0.1", 0))
        port = some.getsockname()[1]
    threading.Thread(target=probe.serve, args=(port,), daemon=True).start()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(0.1)
        sock.connect(("127.0.0.1", port))
        for _ in range(100):
            try:
                sock.send(probe.HEAD.pack(b"e", 0, 0))
                sock.recv(100)
                break
            except (TimeoutError, ConnectionRefusedError):
                continue
    return port


def test_the_probe_measures_a_way_without_conditions(server: int) -> None:
    order = {
        "target": "127.0.0.1",
        "wait": 5,  # Only if an answer is late.
        "round_trips": {"count": 10, "interval": 0.001},
        "losses": {"count": 200, "interval": 0.0001},
        "rate": {"seconds": 0.3, "payload": 1000, "at_once": 8, "unsent": 100_000},
    }
    for _ in range(3):  # A kernel in need drops a packet even on loopback.
        (answer,) = probe.ask([order], server)
        if len(answer["round_trips"]) == 10:
            break
    assert len(answer["round_trips"]) == 10
    assert answer["losses"]["distinct"] == 200
    assert answer["losses"]["twice"] == 0
    assert answer["rate"]["rate"] > 1e6


def test_the_probe_ends_although_nobody_answers() -> None:
    order = {"target": "127.0.0.1", "wait": 0.01, "round_trips": {"count": 5, "interval": 0.001},
             "losses": {"count": 5, "interval": 0.001}}  # fmt: skip
    (answer,) = probe.ask([order], 9)
    assert answer["round_trips"] == []
    assert answer["losses"]["distinct"] == 0


@pytest.fixture
def ports() -> Iterator[list[int]]:
    """Two ports that something has taken, with a wrong answer and with none."""
    found = []
    for _ in range(2):
        with socket.create_server(("127.0.0.1", 0)) as some:
            found.append(some.getsockname()[1])
    words = [f"{found[0]}:wrong", f"{found[1]}:nothing"]
    program = PROGRAMS / "listen.py"
    with subprocess.Popen([sys.executable, str(program), *words]) as process:
        while connect.outcome("127.0.0.1", found[1]) == "refused":
            assert process.poll() is None
        yield found
        process.kill()


def test_a_taken_port_answers_wrongly_or_not_at_all(ports: list[int]) -> None:
    assert connect.outcome("127.0.0.1", ports[0]) == "answered"
    assert connect.outcome("127.0.0.1", ports[1]) == "silent"
    with socket.create_connection(("127.0.0.1", ports[0])) as connection:
        assert connection.recv(100) == listen.WRONG


def test_what_becomes_of_connections_is_told_in_their_order(ports: list[int]) -> None:
    words = [f"127.0.0.1:{port}" for port in (ports[1], ports[0])]
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / "connect.py"), *words],
        capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == ["silent", "answered"]


def test_a_port_where_nobody_listens_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as some:
        port = some.getsockname()[1]
    assert connect.outcome("127.0.0.1", port) == "refused"
