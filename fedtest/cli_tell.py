"""What the command line says beside a command's own output, on standard error."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from fedtest.errors import ScenarioError

if TYPE_CHECKING:
    from typing import TextIO

    from fedtest.errors import FedtestError


def complain(error: FedtestError) -> None:
    """Print the message and the remedy."""
    # The problems of a file begin with where they are, as tools expect it.
    prefix = "" if isinstance(error, ScenarioError) else "fedtest: "
    remedy = f"\n  {error.remedy}" if error.remedy else ""
    try:
        print(f"{prefix}{error.message}{remedy}", file=sys.stderr)
    except OSError:  # Nobody can be told, but the exit code still says it.
        give_up(sys.stderr)


def note(text: str) -> None:
    """Print how a command gets on."""
    print(text, file=sys.stderr)


def give_up(stream: TextIO) -> None:
    """Have nothing more written there: at its end Python would flush it, fail, exit with 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
