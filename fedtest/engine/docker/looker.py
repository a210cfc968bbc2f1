"""Looks into a host cheaply: one shell stays in it and answers whenever it is asked.

Starting a shell in a host costs the engine a tenth of a second; asking one
that is there costs a few milliseconds, so that a look can be taken several
times a second.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from fedtest.engine import inside
from fedtest.engine.docker import labels
from fedtest.engine.docker.client import engine_errors
from fedtest.engine.docker.frames import Frames, described
from fedtest.errors import FedtestError

if TYPE_CHECKING:
    from fedtest.engine.base import RunTag
    from fedtest.engine.docker.client import DockerClient


class Looker:
    """The shell in one host. Another is started when this one's host was."""

    def __init__(self, client: DockerClient, run: RunTag, host: str) -> None:
        self._client = client
        self._name = labels.container_name(run.id, host)
        self._host = host
        self._frames: Frames | None = None
        self._lock = threading.Lock()

    def look(self, end: float) -> str:
        """What `inside.SNAPSHOT` prints. EngineError, DeadlineError."""
        with self._lock:
            there = self._frames is not None
            try:
                return self._ask(end)
            except (FedtestError, OSError) as error:
                self._close()
                if not there or time.monotonic() > end:
                    raise
                lost = error
            try:
                # The host may have been restarted since, and its shell with it.
                return self._ask(end)
            except (FedtestError, OSError) as error:
                self._close()
                raise error from lost

    def close(self) -> None:
        """The shell ends with its input."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._frames is not None:
            self._frames.close()
            self._frames = None

    def _ask(self, end: float) -> str:
        with engine_errors(f"looking into host {self._host}"):
            if self._frames is None:
                execution = self._client.api.exec_create(
                    self._name,
                    ["/bin/sh", "-c", inside.LOOKER],
                    user="0:0",
                    stdin=True,
                    stderr=False,
                )
                self._frames = Frames(self._client.api.exec_start(execution["Id"], socket=True))
            self._frames.write(b"look\n")
            return described(self._frames, f"host {self._host}", end)
