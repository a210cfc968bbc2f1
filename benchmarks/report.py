"""What benchmarks share: one table on standard output, the numbers as JSON beside it."""

from __future__ import annotations

import json
import platform
import statistics
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


def median(seconds: list[float]) -> float:
    """The median: a shared machine's odd round does not move it."""
    return statistics.median(seconds)


def report(title: str, columns: list[str], rows: list[list[str]], numbers: dict[str, Any]) -> None:
    """Print the table; write `benchmarks/results/<title>.json`."""
    table = Table(title=title)
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*row)
    Console(width=120).print(table)
    print(f"written to {save(title, numbers)}")


def save(title: str, numbers: dict[str, Any]) -> Path:
    """Write `benchmarks/results/<title>.json`, whole or not at all."""
    path = Path(__file__).parent / "results" / f"{title}.json"
    path.parent.mkdir(exist_ok=True)
    kernel = ".".join(platform.release().split(".")[:2])
    machine = {"kernel": kernel, "python": platform.python_version()}
    new = path.with_suffix(".new")
    new.write_text(json.dumps({"machine": machine, **numbers}, indent=2) + "\n", encoding="utf-8")
    return new.replace(path)
