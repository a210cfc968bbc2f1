"""One attempt to make a virtual environment with torch, by pip or by uv."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

REQUIREMENTS = ("torch>=2.2", "torchvision>=0.17")
SCRATCH = ".scratch"
_LONGEST = 3600.0
_LAST = 5
_SILENCE = 15.0
_ENDING = 30.0
# It ends with who started it, however that ends.
_TIED = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execv(sys.argv[1], sys.argv[1:])"
_LARGE = re.compile(r"(?:Downloading|Using cached) (\S+) \((\d+)(?:\.\d+)? ?([MG])i?B\)")
_TOLD = ("Installing collected packages", "Prepared ", "Installed ", "Building ")
_MISLEADING = (
    "PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PIP_USER", "PIP_REQUIRE_VIRTUALENV"
)  # fmt: skip


class Failed(Exception):
    """It could not be made so; the installer's last words."""


def tools() -> list[str]:
    """What can make one here, the quicker one first."""
    return [*(["uv"] if shutil.which("uv") else []), "pip"]


def install(
    place: Path, tool: str, index: str | None, further: str, progress: Callable[[str], None]
) -> str:
    """Make it at `place`; the interpreter's path. `index` None: as the user's settings say. Failed.

    `further`: the text of a file of requirements, had from where the user's settings say.
    """
    python = str(place / "bin" / "python")
    if tool == "uv":
        here = [str(shutil.which("uv")), "venv", "--quiet", "--python", sys.executable]
    else:
        # Ours installs into it: that takes less time, and some systems have no other for it.
        here = [sys.executable, "-I", "-m", "venv", *(["--without-pip"] if _has_pip() else [])]
    _run([*here, str(place)], place, _environment(place), progress)
    (place / SCRATCH).mkdir()
    _run(
        [*_installer(tool, python), *REQUIREMENTS],
        place,
        _environment(place, index),
        progress,
    )
    if further.strip():
        file = place / "requirements.txt"
        file.write_text(further, encoding="utf-8")
        _run([*_installer(tool, python), "-r", str(file)], place, _environment(place), progress)
    _run([python, "-s", "-c", "import torch, torchvision"], place, _environment(place), progress)
    shutil.rmtree(place / SCRATCH)
    return python


def _installer(tool: str, python: str) -> list[str]:
    if tool == "uv":
        return [str(shutil.which("uv")), "pip", "install", "--python", python]
    quiet = ["--no-input", "--disable-pip-version-check", "--progress-bar", "off"]
    if _has_pip():
        return [sys.executable, "-m", "pip", "--python", python, "install", *quiet]
    return [python, "-m", "pip", "install", *quiet]


def _has_pip() -> bool:
    return importlib.util.find_spec("pip") is not None


def _environment(place: Path, index: str | None = None) -> Mapping[str, str]:
    env = {name: value for name, value in os.environ.items() if name not in _MISLEADING}
    env["VIRTUAL_ENV"] = str(place)
    # Gigabytes are unpacked there, and /tmp is memory on many systems.
    if (place / SCRATCH).is_dir():
        env["TMPDIR"] = str(place / SCRATCH)
    if index is not None:  # and no other: elsewhere a newer one may be larger by far
        # Not on the command line: its address may have a password in it, and others see that.
        env |= {"PIP_INDEX_URL": index, "PIP_EXTRA_INDEX_URL": index, "UV_DEFAULT_INDEX": index}
        for name in ("UV_INDEX", "UV_EXTRA_INDEX_URL"):
            env.pop(name, None)
    return env


def _run(
    command: Sequence[str], place: Path, env: Mapping[str, str], progress: Callable[[str], None]
) -> None:
    try:
        process = subprocess.Popen(
            [sys.executable, "-S", "-E", "-c", _TIED, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=env,
            cwd="/",
            umask=0o022,  # Every user of a host reads it.
            start_new_session=True,
        )
    except OSError as error:
        raise Failed(f"{command[0]}: {error.strerror}") from error
    last: deque[str] = deque(maxlen=_LAST)
    what = " ".join(command[:4])
    try:
        for line in _lines(process, what):
            if line is None:
                progress(f"{size(place) / 1e9:.1f} GB are there")
            elif line:
                last.append(line)
                if told := _worth_telling(line):
                    progress(told)
        status = process.wait(_ENDING)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{what} closed its output and did not end") from error
    finally:
        _kill(process)
        if process.stdout is not None:
            process.stdout.close()
        process.wait()
    if status:
        raise Failed("\n".join(last) or f"{what} ended with status {status}")


def _lines(process: subprocess.Popen[bytes], what: str) -> Iterator[str | None]:
    """What it says, line by line; None whenever it has said nothing for a while. Failed."""
    if process.stdout is None:
        return
    end = time.monotonic() + _LONGEST
    descriptor, rest = process.stdout.fileno(), b""
    while True:
        if time.monotonic() > end:
            raise Failed(f"{what} had not ended after {_LONGEST:g} s")
        if not select.select([descriptor], [], [], _SILENCE)[0]:
            yield None
            continue
        piece = os.read(descriptor, 1 << 16)
        *whole, rest = (rest + piece).split(b"\n")
        yield from (line.decode("utf-8", "replace").strip() for line in whole)
        if not piece:
            if rest:
                yield rest.decode("utf-8", "replace").strip()
            return


def size(place: Path) -> int:
    """The bytes that it takes on the disk."""
    found = 0
    for directory, _, names in os.walk(place):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                found += os.lstat(os.path.join(directory, name)).st_blocks * 512
    return found


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _worth_telling(line: str) -> str:
    """What an installer says, as far as it takes long."""
    if (large := _LARGE.match(line)) and (large[3] == "G" or int(large[2]) >= 20):
        return f"{large[1]}, {large[2]} {large[3]}B"
    return line[:80] if line.startswith(_TOLD) else ""
