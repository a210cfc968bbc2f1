"""Who looks on hears that processes were started, and once a minute that they still run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.run import heartbeat
from fedtest.run.heartbeat import EVERY, Heartbeat
from fedtest.run.observer import Observer
from runs import Lab, scenario, until

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pytest

    from fedtest.engine.base import ProcessKey


def test_it_tells_once_a_minute_however_often_it_is_woken() -> None:
    told: list[float] = []
    now = 5.0
    beat = Heartbeat(lambda: told.append(now))
    while now < 5.0 + 3 * EVERY:
        assert beat.wake(now) > now
        now += 1.0
    assert told == [5.0 + EVERY, 5.0 + 2 * EVERY]


class Listener(Observer):
    """Keeps who was started, and who was told of as running; then the file `path` is there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.told: list[str] = []

    def started(self, key: ProcessKey) -> None:
        self.told.append(f"{key.host} started")

    def line(self, key: ProcessKey, stream: str, text: str) -> None:
        self.told.append(f"{key.host} {text}")

    def still_running(self, keys: Sequence[ProcessKey]) -> None:
        self.told.append("running " + ", ".join(key.host for key in keys))
        if "a hello" in self.told:
            self.path.touch()

    def exited(self, key: ProcessKey, status: int) -> None:
        self.told.append(f"{key.host} exited")


def test_an_observer_hears_it_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "EVERY", 0.05)
    listener = Listener(tmp_path / "told")
    script = f"echo hello; {until(listener.path)}"
    Lab(tmp_path).run(scenario(script), observer=listener)
    assert listener.told[0] == "a started"
    assert "running a" in listener.told[listener.told.index("a hello") : -1]
    assert listener.told[-1] == "a exited"
