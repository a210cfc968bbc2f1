"""What every process was doing: its state, and the stacks of those that run Python.

The stacks are read from outside by py-spy, so that a process that hangs in C,
in the middle of a receive for example, is told of without its help, and goes on.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

_EACH = 10.0
_ALL = 30.0
_MOST = 200
COMMAND = 1000
"""Characters that are shown of a command; of a longer one whole words, and then `CUT`."""
CUT = "..."


def stacks(sessions: Collection[int] | None) -> str:
    """A paragraph for each process of these sessions, or of all that are not ours."""
    end = time.monotonic() + _ALL
    told = [_process(process, end) for process in _processes(sessions)]
    return "\n".join(told)


def _processes(sessions: Collection[int] | None) -> Iterator[Path]:
    own = _session(Path("/proc/self"))
    found = sorted(
        (path for path in Path("/proc").iterdir() if path.name.isdigit()),
        key=lambda path: int(path.name),
    )
    for path in found[:_MOST]:
        session = _session(path)
        chosen = session != own if sessions is None else session in sessions
        if session is not None and chosen:
            yield path


def _session(process: Path) -> int | None:
    stat = _read(process / "stat").rpartition(")")[2].split()
    return int(stat[3]) if len(stat) > 3 else None


def _process(process: Path, end: float) -> str:
    command = _shown(_read(process / "cmdline").rstrip("\0").split("\0"))
    stat = _read(process / "stat").rpartition(")")[2].split()
    state = stat[0] if stat else "gone"
    waits = _read(process / "wchan").strip("0\n")
    head = f"process {process.name}, state {state}"
    head += f" (in {waits})" if waits else ""
    text = f"{head}: {command or '[no command]'}\n"
    return text + _indented(_python(process, end)) if _runs_python(process) else text


def _shown(words: Sequence[str]) -> str:
    """Whole words, as many as there is room for: half a secret would not be known as one."""
    length = 0
    for at, word in enumerate(words):
        length += len(word) + 1
        if length > COMMAND:
            return " ".join((*words[:at], CUT))
    return " ".join(words)


def _runs_python(process: Path) -> bool:
    try:
        name = (process / "exe").readlink().name
    except OSError:
        return False
    return name.startswith("python") or "libpython" in _read(process / "maps")


def _python(process: Path, end: float) -> str:
    spy = _spy()
    if spy is None:
        return "its stacks are not known: there is no py-spy in the node image"
    left = min(end - time.monotonic(), _EACH)
    if left <= 0:
        return "its stacks are not known: there was no time left"
    try:
        done = subprocess.run(
            [spy, "dump", "--pid", process.name],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=left,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"its stacks are not known: {error}"
    if done.returncode:
        return f"its stacks are not known: {done.stderr.strip()}"
    # py-spy tells the command once more, and that may be a whole program.
    _, thread, rest = done.stdout.partition("\nThread ")
    return (thread.lstrip("\n") + rest) or done.stdout


def _spy() -> str | None:
    """Beside this file in the node image, else where pip put it."""
    for path in (Path(__file__).with_name("py-spy"), Path(sys.executable).with_name("py-spy")):
        if path.is_file():
            return str(path)
    return shutil.which("py-spy")


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
