"""What `ensure` asks of the machine and does to it; tests put another in its place."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from fedtest.engine.docker.client import DockerClient
from fedtest.errors import DeadlineError, EngineError, EngineUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LOG = Path("/var/log/fedtest-dockerd.log")
_TAIL = 20
_POLL = 0.1


class Machine:
    """The machine fedtest runs on. Nothing here decides."""

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        self.env = env

    def engine_version(self) -> str:
        """The version of the engine that answers. EngineUnavailable or DeadlineError if none."""
        client = DockerClient()
        try:
            return str(client.version["Version"])
        finally:
            client.close()

    def which(self, program: str) -> str | None:
        """Where a program is; root's directories are looked into whatever PATH says."""
        path = self.env.get("PATH", os.defpath) + ":/usr/local/sbin:/usr/sbin:/sbin"
        return shutil.which(program, path=path)

    def is_root(self) -> bool:
        return os.geteuid() == 0

    def is_debian(self) -> bool:
        """Debian, Ubuntu, or one that says it is like them."""
        try:
            lines = Path("/etc/os-release").read_text(encoding="utf-8").splitlines()
        except OSError:
            return False
        values = dict(line.split("=", 1) for line in lines if "=" in line)
        names = f"{values.get('ID', '')} {values.get('ID_LIKE', '')}".replace('"', "").split()
        return bool({"debian", "ubuntu"} & set(names)) and self.which("apt-get") is not None

    def has_systemd(self) -> bool:
        """Whether systemd runs this machine (sd_booted(3) looks the same way)."""
        return Path("/run/systemd/system").is_dir()

    def services(self) -> Iterator[tuple[str, list[str]]]:
        """The machine's own way to start the engine: its name and command; nothing if none."""
        if self.has_systemd():
            yield "systemd", ["systemctl", "start", "docker"]
        elif Path("/etc/init.d/docker").exists() and self.which("service"):
            yield "its init script", ["service", "docker", "start"]

    def run(self, command: list[str], timeout: float) -> tuple[int, str]:
        """A command's status and the end of what it said; 124 if it did not end in time."""
        env = {**self.env, "DEBIAN_FRONTEND": "noninteractive"}
        program = self.which(command[0]) or command[0]
        try:
            done = subprocess.run(
                [program, *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=timeout,
                env=env,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return 124, f"not done after {timeout:.0f} s"
        except OSError as error:
            return 127, str(error)
        return done.returncode, _tail(done.stdout)

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
        said = _tail(LOG.read_text(encoding="utf-8", errors="replace"))
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


def _tail(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines()[-_TAIL:])
