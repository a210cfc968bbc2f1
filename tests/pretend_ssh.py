"""A program in the place of `ssh`: it passes on to an engine here, wherever it is sent."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_PROGRAM = """#!{python} -IS
import os, select, socket, sys
with open({log!r}, "a") as log:
    print(*sys.argv[1:], sep="\\0", file=log)
engine = socket.socket(socket.AF_UNIX)
engine.connect({engine!r})
ways = {{0: engine.fileno(), engine.fileno(): 1}}
while ways:
    for end in select.select(list(ways), [], [])[0]:
        data = os.read(end, 65536)
        if not data and end == 0:
            engine.shutdown(socket.SHUT_WR)
            del ways[end]
        elif not data:
            sys.exit()
        while data:
            data = data[os.write(ways[end], data):]
"""


def write(path: Path, *, engine: Path, log: Path) -> None:
    """Make the program; `log` gets a line for each call."""
    text = _PROGRAM.format(python=sys.executable, engine=str(engine), log=str(log))
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def calls(log: Path) -> list[list[str]]:
    """The arguments of each call."""
    return [line.split("\0") for line in log.read_text(encoding="utf-8").splitlines()]
