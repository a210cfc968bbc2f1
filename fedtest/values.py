"""How a process tells the testbed a number: one JSON line on standard output.

    fedtest-value {"name": "test_accuracy", "value": 0.981}
    fedtest-progress {"done": 120, "total": 938}

Written by hand, or by `report` and `progress`. Values are part of the result and are what checks
look at; progress is only shown to who looks on. Belongs neither to the library nor to the
testbed: it needs nothing but the standard library, so any process can use it.
"""

import json
import math

PREFIX = "fedtest-value "
PROGRESS = "fedtest-progress "
_LARGEST = 10**300
"""Whole numbers stay below: these, their sums and differences are all floats, too."""


def report(name: str, value: float | str | bool | None) -> None:
    """Print `value` under `name` as one line of JSON, flushed, to standard output."""
    line = PREFIX + json.dumps({"name": name, "value": value}, separators=(", ", ": "))
    _print(line)


def progress(done: int, total: int) -> None:
    """Print that `done` of `total` steps are done, flushed, to standard output.

    On a terminal `fedtest run` draws a bar of it, with the time that is left. Call it as often as
    a person wants to look: a hundred times are plenty.
    """
    line = PROGRESS + json.dumps({"done": done, "total": total}, separators=(", ", ": "))
    _print(line)


def _print(line: str) -> None:
    # In one piece: processes that share an output, as torchrun's do, would mix their lines.
    print(line + "\n", end="", flush=True)  # noqa: T201 - standard output is the interface


def parse_progress(line: str) -> float | None:
    """Return the share, from 0 to 1, that `line` reports as done; None if it reports none."""
    if not line.startswith(PROGRESS):
        return None
    try:
        item = json.loads(line[len(PROGRESS) :])
        share = item["done"] / item["total"]
    except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError):
        return None  # it is shown only: nothing depends on it
    return min(max(float(share), 0.0), 1.0) if math.isfinite(share) else None


def parse(line: str) -> tuple[str, float | str | bool | None] | None:
    """The name and value that `line` reports, or None if it reports none.

    Raises ValueError with the reason when the line has the prefix but is malformed.
    """
    if not line.startswith(PREFIX):
        return None
    try:
        item = json.loads(line[len(PREFIX) :])
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from error
    if not isinstance(item, dict) or set(item) != {"name", "value"}:
        raise ValueError('not an object with just "name" and "value"')
    name, value = item["name"], item["value"]
    if not isinstance(name, str) or not name:
        raise ValueError('"name" is not a non-empty string')
    if not isinstance(value, (int, float, str, bool, type(None))):
        raise ValueError('"value" is not a number, string, boolean or null')  # noqa: TRY004
    if isinstance(value, int) and abs(value) >= _LARGEST:
        raise ValueError('"value" is a whole number of more than 300 digits')
    return name, value
