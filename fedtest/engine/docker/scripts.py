"""Short shell scripts in a host, as root, each with a deadline."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from fedtest.engine.docker import labels
from fedtest.engine.docker.client import engine_errors
from fedtest.engine.docker.frames import Frames
from fedtest.errors import DeadlineError

if TYPE_CHECKING:
    from fedtest.engine.base import RunTag
    from fedtest.engine.docker.client import DockerClient


def run_script(
    client: DockerClient, run: RunTag, host: str, script: str, *words: str, end: float
) -> str:
    """What the script prints; `words` are its arguments. DeadlineError naming the host."""
    with engine_errors(f"running a script in host {host}"):
        execution = client.api.exec_create(
            labels.container_name(run.id, host),
            ["/bin/sh", "-c", script, "fedtest", *words],
            user="0:0",
            stderr=False,
        )
        frames = Frames(client.api.exec_start(execution["Id"], socket=True))
        output = bytearray()
        try:
            while not frames.ended:
                left = end - time.monotonic()
                if left <= 0:
                    raise DeadlineError(f"host {host}: a script in it did not end in time")
                for _, data in frames.read(left, limit=left):
                    output += data
        finally:
            frames.close()
    return output.decode("utf-8", "replace")
