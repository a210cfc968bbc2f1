"""The base of the node image where no registry can be reached: made by debootstrap.

`images/base/rootfs` writes a root file system as a tar stream; it goes straight
into the engine and is nowhere whole on the disk or in memory.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections import deque
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from fedtest.bundle import bundle
from fedtest.engine.docker.build import HEARTBEAT
from fedtest.engine.docker.client import engine_errors, gone_is_fine
from fedtest.errors import ImageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fedtest.engine.docker.client import DockerClient

BASE = "debian:trixie-slim"
"""What the Dockerfile starts from by default."""

SUITE = "trixie"

DEADLINE = 1200.0
"""Seconds for the whole; it takes one minute on a line of 100 Mbit/s."""

CLEAN_UP = 30.0
"""Seconds the script has to remove its directory when it is told to stop."""


def import_base(client: DockerClient, progress: Callable[[str], None], *, pulling: str) -> None:
    """Make the image BASE. ImageError, with why `pulling` failed, if this machine cannot."""
    remedy = f"Where a registry can be reached: docker pull {BASE}."
    if os.geteuid() != 0:
        raise ImageError(
            f"{pulling}; and only root can build it here",
            remedy=f"{remedy} Otherwise run this once as root, which builds it by debootstrap.",
        )
    progress(f"building {BASE} by debootstrap, about a minute")
    with _rootfs(progress) as script:
        first = script.read()
        image = _import(client, script, first) if first else ""
        status = script.process.wait()
        if status == 0 and image:
            with engine_errors(f"naming the image {BASE}"):
                repository, _, tag = BASE.partition(":")
                client.api.tag(image, repository, tag)
            progress(f"built {BASE}")
            return
    if image:  # of half a file system
        with engine_errors("removing what was imported"), gone_is_fine():
            client.api.remove_image(image)
    said = "\n".join(f"  {line}" for line in script.tail)
    raise ImageError(f"{pulling}; and building it failed (status {status}):\n{said}", remedy=remedy)


def _import(client: DockerClient, script: _Script, first: bytes) -> str:
    """The id of an image of what the script writes."""
    blocks = chain([first], iter(script.read, b""))
    with engine_errors(f"importing {BASE}"):
        answer = client.api.import_image_from_stream(blocks, changes=['CMD ["bash"]'])
    # One JSON object a line; the last has the id, or the error.
    last = json.loads(str(answer).strip().splitlines()[-1])
    if "error" in last:
        raise ImageError(f"importing {BASE}: {last['error']}")
    return str(last["status"])


@dataclass
class _Script:
    """The running script; `tail` is what it said last."""

    process: subprocess.Popen[bytes]
    tail: deque[str]

    def read(self) -> bytes:
        """The next block of the archive; empty at its end."""
        assert self.process.stdout is not None  # noqa: S101 - it is a pipe
        return self.process.stdout.read(1 << 20)


@contextmanager
def _rootfs(progress: Callable[[str], None]) -> Iterator[_Script]:
    """The script, started; stopped in the end, and its temporary directory gone."""
    process = subprocess.Popen(
        ["/bin/sh", str(bundle() / "images" / "base" / "rootfs"), SUITE],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A group of its own: what ends it early must end debootstrap as well.
        start_new_session=True,
    )
    script = _Script(process, deque(maxlen=20))
    listener = threading.Thread(target=_listen, args=(script, progress), daemon=True)
    listener.start()
    timer = threading.Timer(DEADLINE, _stop, [process])
    timer.daemon = True
    timer.start()
    try:
        yield script
    finally:
        timer.cancel()
        _stop(process)
        with suppress(subprocess.TimeoutExpired):
            process.wait(CLEAN_UP)
        listener.join(1.0)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the script and what it started; it removes its directory on SIGTERM."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)


def _listen(script: _Script, progress: Callable[[str], None]) -> None:
    assert script.process.stderr is not None  # noqa: S101 - it is a pipe
    told = 0.0
    with suppress(ValueError):  # closed under our hands at the end
        for line in script.process.stderr:
            text = line.decode(errors="replace").strip()
            script.tail.append(text)
            if time.monotonic() - told > HEARTBEAT:
                told = time.monotonic()
                progress(f"debootstrap: {text}")
