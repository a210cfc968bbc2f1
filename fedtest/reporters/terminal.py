"""A live picture of the run: stages with their times, and how each process is getting on."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from fedtest import values
from fedtest.engine.base import ProcessKey
from fedtest.reporters.printable import PatientConsole, printable, tolerate
from fedtest.reporters.progress import Progress
from fedtest.reporters.summary import print_summary
from fedtest.run.observer import Observer

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from fedtest.plan import Plan
    from fedtest.run.result import Result

_NAME = 16


@dataclass
class _Going:
    """How one process is getting on."""

    newest: Text = field(default_factory=lambda: Text("not started yet", style="dim"))
    progress: Progress = field(default_factory=Progress)
    silent_since: float | None = None

    def shown(self, now: float) -> Text:
        if self.silent_since is not None:
            return Text(f"no output yet, {now - self.silent_since:.0f} s", style="dim")
        if bar := self.progress.bar(now):
            return Text.assemble(bar, "  ", self.newest)
        return self.newest


class TerminalReporter(Observer):
    """Stages that are over scroll up; what goes on now is drawn anew in place."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or PatientConsole()
        tolerate(self._console.file)
        self._stage = ""
        self._began = 0.0
        self._note = ""
        self._spinner = Spinner("dots")
        self._going: dict[ProcessKey, _Going] = {}
        # It asks for the picture at once.
        self._live = Live(
            get_renderable=self._picture,
            console=self._console,
            refresh_per_second=8,
            transient=True,
        )

    def run_started(self, scenario: str, run_id: str, directory: str) -> None:
        self._console.print(Text.assemble((scenario, "bold"), f", run {run_id}"))
        self._live.start()

    def planned(self, plan: Plan) -> None:
        self._note = f"{len(plan.hosts)} hosts on {len(plan.networks)} networks"
        # In the plan's order, whoever speaks first.
        self._going = {ProcessKey(item.host, item.name): _Going() for item in plan.processes}

    def stage_started(self, name: str) -> None:
        self._stage, self._began, self._note = name, time.monotonic(), ""

    def stage_progress(self, text: str) -> None:
        self._note = printable(text)

    def stage_ended(self, name: str, seconds: float, *, failed: bool) -> None:
        mark = Text("x ", "bold red") if failed else Text("✓ ", "green")
        self._console.print(_row(mark, name, seconds, self._note))
        self._stage, self._note = "", ""

    def started(self, key: ProcessKey) -> None:
        self._going[key] = _Going(Text(), silent_since=time.monotonic())

    def line(self, key: ProcessKey, stream: str, text: str) -> None:
        going = self._going.setdefault(key, _Going(Text()))
        going.silent_since = None
        if (share := values.parse_progress(text)) is not None:
            going.progress.reached(share)
        shown = printable(text)
        if shown.strip() and not shown.startswith((values.PREFIX, values.PROGRESS)):
            going.newest = Text(shown, style="yellow" if stream == "stderr" else "")

    def exited(self, key: ProcessKey, status: int) -> None:
        going = self._going.get(key, _Going(Text()))
        end = Text(f"exited with {status}  ", style="green" if status == 0 else "bold red")
        # It may be started again, and begins anew then.
        self._going[key] = _Going(Text.assemble(end, (going.newest.plain, "dim")))

    def finished(self, result: Result) -> None:
        self._live.stop()
        for key, going in self._going.items():
            self._console.print(_line(key, going.newest), overflow="ellipsis", no_wrap=True)
        print_summary(self._console, result)

    def _picture(self) -> RenderableType:
        if not self._stage:
            return Text()
        head = Table.grid()
        head.add_row(
            self._spinner,
            Text(" "),
            _row(Text(), self._stage, time.monotonic() - self._began, self._note),
        )
        # Drawn from a thread of its own, while lines come in.
        now = time.monotonic()
        lines = [_line(key, going.shown(now)) for key, going in self._going.copy().items()]
        room = max(self._console.height - 3, 1)
        return Group(head, *lines[:room])


def _row(mark: Text, name: str, seconds: float, note: str) -> Text:
    return Text.assemble(mark, f"{name:<{_NAME}} {seconds:6.1f} s  ", (note, "dim"))


def _line(key: ProcessKey, text: Text) -> Text:
    line = Text.assemble("    ", (f"{key.host:<10} ", "cyan"), (f"{key.process:<10} ", "dim"), text)
    line.no_wrap, line.overflow = True, "ellipsis"
    return line
