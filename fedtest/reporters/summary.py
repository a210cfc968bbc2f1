"""The end of a run for a person: problems, the table of checks, the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fedtest.reporters.printable import printable
from fedtest.run.result import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console

    from fedtest.run.result import CheckResult, Result

_FILES = 3
"""Of a kind, as many are named."""

STYLES = {Verdict.PASSED: "bold green", Verdict.FAILED: "bold red", Verdict.INVALID: "bold yellow"}


def print_summary(console: Console, result: Result, *, quiet: bool = False) -> None:
    """Print everything, or with `quiet` only what did not hold and the verdict."""
    for problem in result.problems:
        for line in problem.message.splitlines():
            text = Text(printable(line), style=STYLES[problem.verdict])
            console.print(text, soft_wrap=not console.is_terminal)
        _indented(console, problem.details, 4)
        for line in problem.remedy.splitlines():  # It may be a command, which is copied whole.
            console.print(Text(printable(f"  {line}")), soft_wrap=True)
    checks = [check for check in result.checks if not (quiet and check.passed)]
    if checks:
        console.print(_table(checks))
    for check in checks:
        if not check.passed and check.details:
            console.print(Text(f"{check.id}:", style="bold"))
            _indented(console, check.details, 2)
    for item in result.saved:
        _named(console, item.what, item.files)
    if result.collected:
        _named(console, "files of hosts", [item.file for item in result.collected])
    passed = sum(check.passed for check in result.checks)
    count = f"{passed} of {len(result.checks)} checks hold, " if result.checks else ""
    on = printable(f" on {result.engine}") if result.engine else ""
    console.print(
        Text.assemble(
            (result.verdict, STYLES[result.verdict]),
            f" {result.scenario}{on}: {count}{result.seconds:.1f} s, {result.directory}",
        ),
        soft_wrap=True,
    )


def _named(console: Console, what: str, files: Sequence[str]) -> None:
    some = ", ".join(files[:_FILES])
    more = f", ... ({len(files)} files)" if len(files) > _FILES else ""
    console.print(Text(printable(f"{what}: {some}{more}"), style="dim"), soft_wrap=True)


def _indented(console: Console, lines: Iterable[str], width: int) -> None:
    for line in lines:
        console.print(Padding(Text(printable(line)), (0, 0, 0, width), expand=False))


def _table(checks: list[CheckResult]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("", "check", "found"):
        table.add_column(heading, overflow="fold")
    for check in checks:
        mark = Text("ok", style="green") if check.passed else Text("NO", style="bold red")
        table.add_row(mark, Text(printable(check.expected)), Text(printable(check.found)))
    return table
