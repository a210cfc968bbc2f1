"""The Result as JSON on standard output, for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.run.artifacts import to_json
from fedtest.run.observer import Observer

if TYPE_CHECKING:
    from typing import TextIO

    from fedtest.run.result import Result


class JsonReporter(Observer):
    """Says nothing until the end, then just one JSON document: what is in `result.json`."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def finished(self, result: Result) -> None:
        # GitHub obeys `##[command]` anywhere in a line, also within what a host printed.
        self._out.write(to_json(result).replace("##[", "#\\u0023["))
        self._out.flush()
