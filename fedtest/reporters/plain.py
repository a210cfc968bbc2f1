"""Lines, for where there is no terminal; and quiet, for where nobody looks on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.reporters.printable import PatientConsole, printable, tolerate
from fedtest.reporters.summary import print_summary
from fedtest.run.observer import Observer

if TYPE_CHECKING:
    from typing import TextIO

    from fedtest.engine.base import ProcessKey
    from fedtest.run.result import Result

_WIDTH = 160
_MOST = 1 << 20
"""Characters of one process that are shown; its log has them, and more."""


class QuietReporter(Observer):
    """Says nothing until the end, then only what did not hold, and the verdict."""

    def __init__(self, out: TextIO) -> None:
        tolerate(out)
        self._console = PatientConsole(file=out, width=None if out.isatty() else _WIDTH)

    def finished(self, result: Result) -> None:
        print_summary(self._console, result, quiet=True)


class PlainReporter(Observer):
    """One line for each thing that happens."""

    def __init__(self, out: TextIO) -> None:
        tolerate(out)
        self._out = out
        self._console = PatientConsole(file=out, width=_WIDTH)
        self._shown: dict[ProcessKey, int] = {}

    def run_started(self, scenario: str, run_id: str, directory: str) -> None:
        self._say(f"scenario {scenario}, run {run_id}, {directory}")

    def stage_started(self, name: str) -> None:
        self._say(f"{name} ...")

    def stage_progress(self, text: str) -> None:
        self._say(f"  {text}")

    def stage_ended(self, name: str, seconds: float, *, failed: bool) -> None:
        self._say(f"{name}: {'FAILED after' if failed else 'done in'} {seconds:.1f} s")

    def line(self, key: ProcessKey, stream: str, text: str) -> None:
        shown = self._shown.get(key, 0)
        if shown > _MOST:
            return
        self._shown[key] = shown + len(text) + 1
        if self._shown[key] > _MOST:
            self._say(f"{key.host} {key.process}: prints more than is shown here; see its log")
            return
        self._say(f"{key.host} {key.process}{'!' if stream == 'stderr' else '|'} {text}")

    def exited(self, key: ProcessKey, status: int) -> None:
        self._say(f"{key.host} {key.process}: exited with {status}")

    def finished(self, result: Result) -> None:
        print_summary(self._console, result)
        self._out.flush()

    def _say(self, text: str) -> None:
        self._out.write(printable(text) + "\n")
        self._out.flush()
