"""An engine at ssh://, through the machine's own `ssh`, as Docker's command line does it.

The SDK's own way needs paramiko even to call that program, knows neither the user's
configuration nor his agent as `ssh` does, and its sockets cannot be waited for. Here each
connection is one end of a socket pair whose other end is what `ssh` reads and writes; `docker
system dial-stdio` passes it on to the engine there. When our end closes, `ssh` ends.
"""

from __future__ import annotations

import errno
import shlex
import shutil
import socket
import subprocess
import tempfile
import threading
from dataclasses import dataclass
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import docker
from docker.transport.unixconn import UnixHTTPAdapter, UnixHTTPConnection, UnixHTTPConnectionPool

from fedtest.engine.docker.endpoint import EndpointUnusable

if TYPE_CHECKING:
    from docker.transport.basehttpadapter import BaseHTTPAdapter

    from fedtest.engine.docker.endpoint import Endpoint

CONNECT = 30
"""Seconds in which `ssh` must be connected, as for Docker's command line."""

_UPGRADING = ("/attach", "/start")
"""Ends of the paths after which a connection may be a bare stream."""

_FORM = "It is ssh://[user@]host[:port][/socket]."

_LAST_WORDS = 2.0
"""Seconds in which `ssh` must have ended when its connection has."""


@dataclass(frozen=True, slots=True)
class Remote:
    """Where an address of ssh:// leads to. `socket` is the engine's there, if it is named."""

    host: str
    user: str = ""
    port: int | None = None
    socket: str = ""

    @classmethod
    def parse(cls, url: str) -> Remote:
        """EndpointUnusable where Docker's command line would refuse it, too."""
        try:
            parts = urlsplit(url)
            port, host = parts.port, parts.hostname
        except ValueError as error:
            raise EndpointUnusable(
                f"not an address of ssh://: {url} ({error})", remedy=_FORM
            ) from error
        if not host or parts.query or parts.fragment:
            raise EndpointUnusable(f"not an address of ssh://: {url}", remedy=_FORM)
        path = "" if parts.path == "/" else parts.path
        return cls(host, parts.username or "", port, path)

    def command(self, program: str) -> list[str]:
        """`--` ends its options: a host may be called what it likes."""
        asked = ["docker", *(["--host", f"unix://{self.socket}"] if self.socket else [])]
        return [
            program,
            "-o",
            f"ConnectTimeout={CONNECT}",
            "-T",
            *(["-l", self.user] if self.user else []),
            *(["-p", str(self.port)] if self.port else []),
            "--",
            self.host,
            shlex.join([*asked, "system", "dial-stdio"]),
        ]


class Dialler:
    """Makes connections to one engine, and ends what they were made by."""

    def __init__(self, endpoint: Endpoint) -> None:
        remote = Remote.parse(endpoint.url)
        program = shutil.which("ssh")
        if program is None:
            raise EndpointUnusable(
                f"{endpoint} needs the program ssh, which is not on PATH",
                remedy=f"Install it: openssh-client on Debian and Ubuntu. Or: {endpoint.mending}",
            )
        self._command = remote.command(program)
        self._said = tempfile.TemporaryFile("a+b")  # noqa: SIM115 - lives as long as this
        self._started: list[subprocess.Popen[bytes]] = []
        self._lock = threading.Lock()

    def dial(self) -> tuple[socket.socket, subprocess.Popen[bytes]]:
        """A connection, whose other side may turn out to be nobody, and what it is made by."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                process = subprocess.Popen(
                    self._command,
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=self._said,
                    # Ctrl-C is for us: what cleans up needs the connection.
                    start_new_session=True,
                )
        except BaseException:
            ours.close()
            raise
        with self._lock:
            self._started = [item for item in self._started if item.poll() is None]
            self._started.append(process)
        return ours, process

    def explained(self, process: subprocess.Popen[bytes], error: Exception) -> Exception:
        """What `ssh` says, if that is why the connection has ended; else the same error."""
        try:
            status = process.wait(_LAST_WORDS)
        except subprocess.TimeoutExpired:
            return error
        with self._lock:
            self._said.seek(0)
            lines = self._said.read().decode(errors="replace").split("\n")
        words = [line.strip() for line in lines if line.strip()]
        last = words[-1] if words else f"it ended with status {status} and said nothing"
        return ConnectionResetError(errno.ECONNRESET, f"ssh: {last.removeprefix('ssh: ')}")

    def close(self) -> None:
        """End all that is still connected."""
        with self._lock:
            for process in self._started:
                process.terminate()
            for process in self._started:
                try:
                    process.wait(_LAST_WORDS)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            self._started.clear()
            self._said.close()


class _Connection(UnixHTTPConnection):
    def __init__(self, dialler: Dialler, base_url: str, timeout: int) -> None:
        super().__init__(base_url, "", timeout)
        self._dialler = dialler
        self._process: subprocess.Popen[bytes] | None = None

    def connect(self) -> None:
        self.sock, self._process = self._dialler.dial()
        self.sock.settimeout(self.timeout)

    def getresponse(self) -> Any:
        try:
            return super().getresponse()
        except TimeoutError:
            raise
        except (OSError, HTTPException) as error:
            ended = error
        # Out here it stands for the other: the reason that is told is the innermost one.
        raise self._dialler.explained(self._process, ended) if self._process else ended


class _Pool(UnixHTTPConnectionPool):
    def __init__(self, dialler: Dialler, base_url: str, timeout: int, size: int) -> None:
        super().__init__(base_url, "", timeout, maxsize=size)
        self._dialler, self._patience = dialler, timeout

    def _new_conn(self) -> Any:
        return _Connection(self._dialler, self.base_url, self._patience)


class _Adapter(UnixHTTPAdapter):
    def __init__(self, dialler: Dialler, timeout: int) -> None:
        super().__init__("http+unix:///", timeout)
        self._dialler = dialler

    def get_connection(self, url: bytes | str, proxies: Any = None) -> UnixHTTPConnectionPool:
        """One pool for all that leaves its connection as it was: each costs a start of `ssh`."""
        path = str(url).partition("?")[0]
        key = path if path.endswith(_UPGRADING) else ""
        with self.pools.lock:
            pool = self.pools.get(key)
            if pool is None:
                pool = _Pool(self._dialler, key, self.timeout, self.max_pool_size)
                self.pools[key] = pool
            return pool


class SshClient(docker.APIClient):
    """The SDK's client, as of a socket of this machine; the connections are a dialler's."""

    def __init__(self, dialler: Dialler, *, version: str, timeout: int) -> None:
        # Before the SDK's own, which may ask for the version already.
        self._over_ssh = _Adapter(dialler, timeout)
        super().__init__("unix:///over/ssh", version=version, timeout=timeout)

    def get_adapter(self, url: bytes | str) -> BaseHTTPAdapter:
        return self._over_ssh

    def close(self) -> None:
        super().close()
        self._over_ssh.close()
