"""Lines, for where there is no terminal; and quiet, for where nobody looks on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from fedtest import values
from fedtest.reporters.excerpt import EVERY, Excerpt, Line
from fedtest.reporters.folds import Folds
from fedtest.reporters.printable import PatientConsole, printable, tolerate
from fedtest.reporters.summary import print_summary
from fedtest.run.observer import Observer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TextIO

    from fedtest.engine.base import ProcessKey
    from fedtest.run.result import Result

_WIDTH = 160
_NAMED = 3
"""Of those that still run, as many are named."""
_MOST = 1 << 20
"""Characters of one process that are shown; its log has them, and more."""


class QuietReporter(Observer):
    """Says nothing until the end, then only what did not hold, and the verdict."""

    def __init__(self, out: TextIO, *, folds: Folds | None = None) -> None:
        tolerate(out)
        self._out = out
        self._console = PatientConsole(file=out, width=None if out.isatty() else _WIDTH)
        self._folds = folds or Folds()

    def finished(self, result: Result) -> None:
        # Details are what hosts printed, which no CI system is to obey.
        self._out.write(self._folds.begin())
        print_summary(self._console, result, quiet=True)
        self._out.write(self._folds.end())
        self._out.flush()


class PlainReporter(Observer):
    """One line for each thing that happens; of what processes print, the first and last lines.

    `verbose`: all of their lines. `folds`: how the CI system that reads it folds stages.
    """

    def __init__(
        self,
        out: TextIO,
        *,
        verbose: bool = False,
        folds: Folds | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        tolerate(out)
        self._out = out
        self._console = PatientConsole(file=out, width=_WIDTH)
        self._verbose = verbose
        self._folds = folds or Folds()
        self._clock = clock
        self._wrote_at = clock()
        self._shown: dict[ProcessKey, int] = {}
        self._excerpts: dict[ProcessKey, Excerpt] = {}

    def run_started(self, scenario: str, run_id: str, directory: str) -> None:
        self._write(self._folds.begin())
        self._say(f"scenario {scenario}, run {run_id}, {directory}")

    def stage_started(self, name: str) -> None:
        self._write(self._folds.open(name))

    def stage_progress(self, text: str) -> None:
        self._say(f"  {text}")

    def stage_ended(self, name: str, seconds: float, *, failed: bool) -> None:
        self._write(self._folds.close())
        self._say(f"{name}: {'FAILED after' if failed else 'done in'} {seconds:.1f} s")

    def line(self, key: ProcessKey, stream: str, text: str) -> None:
        line = Line(stream, text)
        if self._verbose:
            self._bounded(key, line)
        elif not text.startswith(values.PROGRESS):
            excerpt = self._excerpts.get(key)
            if excerpt is None:
                excerpt = self._excerpts[key] = Excerpt(self._clock)
            if excerpt.is_due(line):
                self._line(key, line)

    def still_running(self, keys: Sequence[ProcessKey]) -> None:
        if self._clock() - self._wrote_at < EVERY:
            return
        some = ", ".join(f"{key.host} {key.process}" for key in keys[:_NAMED])
        more = f", ... ({len(keys)} processes)" if len(keys) > _NAMED else ""
        self._say(f"  still running: {some}{more}")

    def exited(self, key: ProcessKey, status: int) -> None:
        # It may be started again, and has first lines again then.
        if excerpt := self._excerpts.pop(key, None):
            self._last(key, excerpt, status)
        self._say(f"{key.host} {key.process}: exited with {status}")

    def finished(self, result: Result) -> None:
        # Of those whose end nobody saw: the host went away, or they printed after it.
        for key, excerpt in self._excerpts.items():
            self._last(key, excerpt, result.exit_code)
        print_summary(self._console, result)
        self._write(self._folds.end())

    def _last(self, key: ProcessKey, excerpt: Excerpt, status: int) -> None:
        hidden, last = excerpt.end(status)
        if hidden:
            lines = "1 line" if hidden == 1 else f"{hidden} lines"
            self._say(f"{key.host} {key.process}: {lines} not shown; the log has all")
        for line in last:
            self._line(key, line)

    def _bounded(self, key: ProcessKey, line: Line) -> None:
        shown = self._shown.get(key, 0)
        if shown > _MOST:
            return
        self._shown[key] = shown + len(line.text) + 1
        if self._shown[key] > _MOST:
            self._say(f"{key.host} {key.process}: prints more than is shown here; see its log")
            return
        self._line(key, line)

    def _line(self, key: ProcessKey, line: Line) -> None:
        self._say(f"{key.host} {key.process}{'!' if line.stream == 'stderr' else '|'} {line.text}")

    def _say(self, text: str) -> None:
        self._write(printable(text) + "\n")

    def _write(self, text: str) -> None:
        self._wrote_at = self._clock()
        self._out.write(text)
        self._out.flush()
