"""The end of a run for a person: problems, the table of checks, the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fedtest.run.result import Verdict

if TYPE_CHECKING:
    from rich.console import Console

    from fedtest.run.result import CheckResult, Result

STYLES = {Verdict.PASSED: "bold green", Verdict.FAILED: "bold red", Verdict.INVALID: "bold yellow"}


def print_summary(console: Console, result: Result, *, quiet: bool = False) -> None:
    """Print everything, or with `quiet` only what did not hold and the verdict."""
    for problem in result.problems:
        console.print(Text(problem.message, style=STYLES[problem.verdict]))
        for line in problem.details:
            console.print(Padding(Text(line, style="dim"), (0, 0, 0, 4)))
        if problem.remedy:
            console.print(Padding(Text(problem.remedy), (0, 0, 0, 2)))
    checks = [check for check in result.checks if not (quiet and check.passed)]
    if checks:
        console.print(_table(checks))
    for check in checks:
        if not check.passed and check.details:
            console.print(Text(f"{check.id}:", style="bold"))
            for line in check.details:
                console.print(Padding(Text(line), (0, 0, 0, 2)))
    passed = sum(check.passed for check in result.checks)
    count = f"{passed} of {len(result.checks)} checks hold, " if result.checks else ""
    console.print(
        f"[{STYLES[result.verdict]}]{result.verdict}[/] {escape(result.scenario)}: "
        f"{count}{result.seconds:.1f} s, {escape(result.directory)}",
        soft_wrap=True,
        highlight=False,
    )


def _table(checks: list[CheckResult]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("", "check", "found"):
        table.add_column(heading, overflow="fold")
    for check in checks:
        mark = Text("ok", style="green") if check.passed else Text("NO", style="bold red")
        table.add_row(mark, Text(check.expected), Text(check.found))
    return table
