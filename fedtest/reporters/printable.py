"""Text that comes from processes, made fit for somebody's terminal, and a console for it."""

from __future__ import annotations

import re
from io import TextIOWrapper
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from typing import IO

# Many at a time: a process may print a gigabyte of NUL.
_CONTROL = re.compile(r"(?:\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0a-\x1f\x7f-\x9f\ud800-\udfff])+")
_LONGEST = 4000
"""Characters of one line; all of it is in the log."""


def printable(text: str) -> str:
    """`text` without what a terminal would obey; of a line that was drawn over, the last state."""
    shown = text.rstrip("\r\n").rpartition("\r")[2]
    if len(shown) <= _LONGEST:
        return _CONTROL.sub("", shown)
    return f"{_CONTROL.sub('', shown[:_LONGEST])} ... ({len(shown)} characters)"


def tolerate(out: IO[str]) -> None:
    """A terminal that knows few characters gets others for those that it lacks, no error."""
    if isinstance(out, TextIOWrapper):
        out.reconfigure(errors="replace")


class PatientConsole(Console):
    """rich ends the program when nobody reads its output; ours has hosts to remove."""

    def on_broken_pipe(self) -> None:
        raise  # noqa: PLE0704 - it is called while BrokenPipeError is handled
