"""Short shell scripts in a host, as root, each with a deadline."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from fedtest.engine.docker import labels
from fedtest.engine.docker.client import engine_errors
from fedtest.engine.docker.frames import Frames
from fedtest.errors import DeadlineError, EngineError

if TYPE_CHECKING:
    from fedtest.engine.base import RunTag
    from fedtest.engine.docker.client import DockerClient


_POLL = 0.05


def run_script(
    client: DockerClient, run: RunTag, host: str, script: str, *words: str, end: float
) -> str:
    """What the script prints in the host; `words` are its arguments.

    DeadlineError naming the host; EngineError with the script's errors if it fails.
    """
    doing = f"running a script in host {host}"
    with engine_errors(doing):
        return run_checked(
            client,
            labels.container_name(run.id, host),
            ["/bin/sh", "-c", script, "fedtest", *words],
            doing,
            end,
        )


def run_checked(
    client: DockerClient, container: str, command: list[str], doing: str, end: float
) -> str:
    """What a command prints in a container, as root. DeadlineError; EngineError if it fails."""
    execution = client.api.exec_create(container, command, user="0:0")["Id"]
    out, errors = finish(client, execution, doing, end)
    # It may close its output and go on.
    while (status := client.api.exec_inspect(execution))["Running"]:
        if time.monotonic() > end:
            raise DeadlineError(f"{doing}: not done in time")
        time.sleep(_POLL)
    if status["ExitCode"]:
        said = (errors or out).decode("utf-8", "replace").strip()
        raise EngineError(f"{doing}: {said or 'status ' + str(status['ExitCode'])}")
    return out.decode("utf-8", "replace")


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
