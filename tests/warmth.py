"""The same command started warm and cold, to compare."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fedtest.engine.netns.warm.client import Child, Start, Zygote
from fedtest.engine.netns.warm.command import PythonCommand, recognise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

PATIENCE = 60.0
PYTHON = Path(sys.executable).with_name("python")


class Outcome(NamedTuple):
    """What there is to see of a process from outside."""

    status: int
    out: str
    err: str


def environment(python: Path = PYTHON, **more: str) -> dict[str, str]:
    """Little, so that what is there is there on purpose."""
    return {
        "PATH": f"{python.parent}:/usr/bin:/bin",
        "HOME": "/nowhere",
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        **more,
    }


def status_of(code: int) -> int:
    """As engines tell it."""
    return code if code >= 0 else 128 - code


@dataclass
class Warmth:
    """Starts commands in a directory, both ways."""

    zygote: Zygote
    directory: Path
    env: Mapping[str, str] = field(default_factory=environment)

    def write(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def command(self, argv: Sequence[str] | str, **env: str) -> PythonCommand:
        if isinstance(argv, str):
            argv = ["/bin/sh", "-c", argv]
        found = recognise(argv, {**self.env, **env}, str(self.directory))
        assert isinstance(found, PythonCommand), found
        return found

    def spawn(self, argv: Sequence[str] | str, stdin: int, out: int, err: int, **how: Any) -> Child:
        env = how.pop("env", {})
        command = self.command(argv, **env)
        assert self.zygote.why_not(command, str(self.directory)) == ""
        start = Start(command, str(self.directory), stdin, out, err, **how)
        (child,) = self.zygote.spawn([start], PATIENCE)
        return child

    def warm(
        self,
        argv: Sequence[str] | str,
        *,
        then: Callable[[int], object] = lambda _pid: None,
        stdin: bytes = b"",
        expect: bool = True,
        **how: Any,
    ) -> Outcome:
        """`then` is done when the process runs, with its id."""
        with pipes(stdin) as (ends, collect):
            child = self.spawn(argv, *ends, **how)
            with ended_for_sure(child.pid):
                assert child.warm is expect, child.reason
                out, err = collect(lambda: then(child.pid))
                return Outcome(child.ended.result(PATIENCE), out, err)

    def cold(
        self,
        argv: Sequence[str] | str,
        *,
        then: Callable[[int], object] = lambda _pid: None,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        **how: Any,
    ) -> Outcome:
        command = ["/bin/sh", "-c", argv] if isinstance(argv, str) else list(argv)
        with pipes(stdin) as (ends, collect):
            process = subprocess.Popen(
                command,
                env={**self.env, **(env or {})},
                cwd=self.directory,
                stdin=ends[0],
                stdout=ends[1],
                stderr=ends[2],
                start_new_session=True,
                user=how.get("uid"),
                group=how.get("gid"),
                extra_groups=how.get("groups"),
                umask=how.get("umask", -1),
            )
            with ended_for_sure(process.pid):
                out, err = collect(lambda: then(process.pid))
                return Outcome(status_of(process.wait(PATIENCE)), out, err)

    def same(self, argv: Sequence[str] | str, **how: Any) -> Outcome:
        """Both ways; they must not differ."""
        cold = self.cold(argv, **how)
        warm = self.warm(argv, **how)
        assert warm == cold
        return warm


@contextmanager
def pipes(stdin: bytes) -> Iterator[tuple[tuple[int, int, int], Callable[..., tuple[str, str]]]]:
    """Three streams for a process, and a call that closes our copies and reads to the end."""
    reader, writer = os.pipe()
    os.write(writer, stdin)
    os.close(writer)
    out_reader, out = os.pipe()
    err_reader, err = os.pipe()
    texts = {}

    def read(fd: int) -> None:
        with os.fdopen(fd, "rb") as stream:
            # Where an object lies in memory is nobody's business.
            texts[fd] = re.sub(" at 0x[0-9a-f]+", "", stream.read().decode())

    threads = [
        threading.Thread(daemon=True, target=read, args=(fd,)) for fd in (out_reader, err_reader)
    ]

    def collect(then: Callable[[], object]) -> tuple[str, str]:
        for fd in (reader, out, err):
            os.close(fd)
        for thread in threads:
            thread.start()
        then()
        for thread in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), "its output does not end"
        return texts[out_reader], texts[err_reader]

    yield (reader, out, err), collect


@contextmanager
def ended_for_sure(session: int) -> Iterator[None]:
    """Nothing of a process that failed a test stays behind."""
    try:
        yield
    except BaseException:
        os.killpg(session, signal.SIGKILL)
        raise
