"""What there is to watch: lines, metrics.jsonl, and training.png in the end."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self, TextIO

from fedtest.ring.errors import CheckpointError

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

METRICS = "metrics.jsonl"


class Log:
    """Lines to standard output and, if there is one, to a file.

    A standard output that is gone (a terminal that was closed) is done without, and so
    is a file that can no longer be written: that is said once.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: TextIO | None = None
        if path is not None:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._file = path.open("a", encoding="utf-8", buffering=1)
            except OSError as error:
                raise CheckpointError(f"{path} cannot be written: {error.strerror}") from error

    def __call__(self, line: str) -> None:
        if self._file is not None:
            try:
                self._file.write(line + "\n")
            except OSError as error:
                self._close()
                self(f"no more lines in {self._path}: {error.strerror or error}")
        try:
            # In one piece: ranks that torchrun started share their output, and would mix lines.
            print(line + "\n", end="", flush=True)  # noqa: T201 - where progress goes
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._close()

    def _close(self) -> None:
        if self._file is not None:
            with suppress(OSError):  # it writes what it could not write before
                self._file.close()
            self._file = None


@dataclass(frozen=True)
class Row:
    """Some steps up to `step`, of all epochs; accuracy and loss are this rank's."""

    epoch: int
    step: int
    loss: float
    accuracy: float
    samples_per_s: float  # all ranks together
    compute_ms: float  # of a step
    communication_ms: float

    def line(self) -> str:
        share = self.communication_ms / max(1e-9, self.compute_ms + self.communication_ms)
        return (
            f"epoch={self.epoch} step={self.step} loss={self.loss:.4f} "
            f"accuracy={self.accuracy:.4f} samples_per_s={self.samples_per_s:.0f} "
            f"communication={share:.0%}"
        )


class Meter:
    """Loss, accuracy and times since they were last taken."""

    def __init__(self) -> None:
        self._clear()

    def samples(self, loss: Any, guessed: Any, wanted: Any) -> None:
        """What this rank has made of its samples; `loss` is their sum."""
        self._loss += float(loss.detach())
        self._right += int((guessed.detach().argmax(1) == wanted).sum())
        self._own += len(wanted)

    def step(self, together: int, communication: float) -> None:
        """A step is done, of so many samples on all ranks."""
        self._together += together
        self._communication += communication
        self._steps += 1

    def take(self, epoch: int, step: int) -> Row:
        own, steps = max(1, self._own), max(1, self._steps)
        seconds = time.monotonic() - self._since
        row = Row(
            epoch,
            step,
            self._loss / own,
            self._right / own,
            self._together / seconds,
            1000 * (seconds - self._communication) / steps,
            1000 * self._communication / steps,
        )
        self._clear()
        return row

    def _clear(self) -> None:
        self._loss, self._right, self._own = 0.0, 0, 0
        self._together, self._steps, self._communication = 0, 0, 0.0
        self._since = time.monotonic()


class Metrics:
    """metrics.jsonl: one line for each Row, and `test_accuracy` after each epoch.

    A training that is resumed goes on in the file; what it had beyond is left out.
    A loss that is no number is null: JSON has no word for it.
    """

    def __init__(self, directory: Path | None, done: int) -> None:
        self._path = None if directory is None else directory / METRICS
        self.rows: list[dict[str, Any]] = []
        if self._path is None:
            return
        try:
            if done and self._path.is_file():
                self.rows = [row for row in _rows(self._path) if row["step"] <= done]
            text = "".join(json.dumps(row) + "\n" for row in self.rows)
            self._path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise CheckpointError(f"{self._path} cannot be written: {error}") from error

    def add(self, row: Row) -> None:
        self._write(_numbers(asdict(row)))

    def evaluated(self, epoch: int, step: int, accuracy: float) -> None:
        self._write({"epoch": epoch, "step": step, "test_accuracy": accuracy})

    def _write(self, row: dict[str, Any]) -> None:
        self.rows.append(row)
        if self._path is not None:
            try:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
            except OSError as error:
                raise CheckpointError(f"{self._path} cannot be written: {error}") from error


def _numbers(row: dict[str, Any]) -> dict[str, Any]:
    """The same, rounded; None for what is infinite or no number."""
    return {
        key: (round(value, 6) if math.isfinite(value) else None)
        if isinstance(value, float)
        else value
        for key, value in row.items()
    }


def _rows(path: Path) -> list[dict[str, Any]]:
    """The lines that are whole: the last one of a process that was killed may not be."""
    found = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and isinstance(row.get("step"), int):
            found.append(_numbers(row))
    return found
