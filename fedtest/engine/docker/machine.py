"""What `ensure` asks of the machine and does to it; tests put another in its place."""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from fedtest.engine import machine
from fedtest.engine.docker.client import DockerClient
from fedtest.engine.machine import tail
from fedtest.errors import DeadlineError, EngineError, EngineUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

LOG = Path("/var/log/fedtest-dockerd.log")
_POLL = 0.1


class Machine(machine.Machine):
    """The machine fedtest runs on, and its engine. Nothing here decides."""

    def engine_version(self) -> str:
        """The version of the engine that answers. EngineUnavailable or DeadlineError if none."""
        client = DockerClient()
        try:
            return str(client.version["Version"])
        finally:
            client.close()

    def has_systemd(self) -> bool:
        """Whether systemd runs this machine (sd_booted(3) looks the same way)."""
        return Path("/run/systemd/system").is_dir()

    def services(self) -> Iterator[tuple[str, list[str]]]:
        """The machine's own way to start the engine: its name and command; nothing if none."""
        if self.has_systemd():
            yield "systemd", ["systemctl", "start", "docker"]
        elif Path("/etc/init.d/docker").exists() and self.which("service"):
            yield "its init script", ["service", "docker", "start"]

    def wait_for_engine(self, timeout: float) -> str:
        """Its version as soon as it answers. DeadlineError with its last words if it does not."""
        end = time.monotonic() + timeout
        while True:
            try:
                return self.engine_version()
            except (EngineUnavailable, DeadlineError) as error:
                if time.monotonic() > end:
                    raise DeadlineError(
                        f"the engine did not answer within {timeout:.0f} s: {error.message}"
                    ) from error
            time.sleep(_POLL)

    def start_dockerd(self, timeout: float) -> tuple[int, str]:
        """Start dockerd so that it outlives this process; its pid and version.

        EngineError or DeadlineError with the end of its log; it does not run then.
        """
        with LOG.open("wb") as log:
            process = subprocess.Popen(
                [self.which("dockerd") or "dockerd"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
                env={**self.env, "PATH": f"{self.env.get('PATH', '')}:/usr/sbin:/sbin"},
            )
        end = time.monotonic() + timeout
        try:
            while process.poll() is None and time.monotonic() < end:
                with suppress(EngineUnavailable, DeadlineError):
                    return process.pid, self.engine_version()
                time.sleep(_POLL)
        except BaseException:
            _end(process)
            raise
        said = tail(LOG.read_text(encoding="utf-8", errors="replace"))
        if process.poll() is None:
            _end(process)
            raise DeadlineError(f"dockerd did not answer within {timeout:.0f} s ({LOG}):\n{said}")
        raise EngineError(f"dockerd ended with status {process.returncode} ({LOG}):\n{said}")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
