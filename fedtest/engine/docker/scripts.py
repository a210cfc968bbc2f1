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
        output, _ = finish(client, execution["Id"], f"host {host}: a script in it", end)
    return output.decode("utf-8", "replace")


def finish(client: DockerClient, execution: str, what: str, end: float) -> tuple[bytes, bytes]:
    """Start an exec that was made: its standard output and error, whole. DeadlineError."""
    frames = Frames(client.api.exec_start(execution, socket=True))
    output = {"stdout": bytearray(), "stderr": bytearray()}
    try:
        while not frames.ended:
            left = end - time.monotonic()
            if left <= 0:
                raise DeadlineError(f"{what} did not end in time")
            for stream, data in frames.read(left, limit=left):
                output[stream] += data
    finally:
        frames.close()
    return bytes(output["stdout"]), bytes(output["stderr"])
