"""Which Docker engine is meant, and who said so: read as Docker's command line reads it.

DOCKER_HOST comes before DOCKER_CONTEXT, which comes before what `docker context use` wrote
down. The SDK reads contexts, too, but takes the default socket for one that does not exist,
and finds none where there is no config.json. Nothing of the SDK is needed here.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fedtest.errors import EngineUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

SOCKET = "/var/run/docker.sock"
DEFAULT = f"unix://{SOCKET}"
_SAME = {DEFAULT, "unix:///run/docker.sock", "unix://"}
_NAME = "default"
_PORT, _TLS_PORT = 2375, 2376


class EndpointUnusable(EngineUnavailable):
    """An engine is chosen that cannot be asked: its docker context is not there, for one."""


@dataclass(frozen=True, slots=True)
class Tls:
    """A context's TLS: files that are there, and whether the engine must prove who it is."""

    authority: Path | None
    certificate: Path | None
    key: Path | None
    verify: bool


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An engine's address. `said_by` is empty where nobody said anything: the default socket.

    `context` is the name of a docker context, with its `tls`; without one the
    environment says what of TLS there is (DOCKER_TLS_VERIFY, DOCKER_CERT_PATH).
    """

    url: str = DEFAULT
    said_by: str = ""
    context: str = ""
    tls: Tls | None = None

    def __post_init__(self) -> None:
        """EndpointUnusable for an address that cannot be told to anybody."""
        place = self.url.rpartition("://")[2].partition("/")[0]
        if ":" in place.rpartition("@")[0]:
            whose = f" of the docker context {self.context}" if self.context else ""
            raise EndpointUnusable(
                f"the Docker engine's address{whose} ({self.said_by}) has a password in it",
                remedy="Leave it out: `ssh` uses a key or an agent, and TLS a certificate.",
            )

    def __str__(self) -> str:
        if self.context:
            return f"the docker context {self.context} ({self.said_by}), {self.url}"
        if self.said_by:
            return f"{self.said_by}={self.url}"
        return f"the default socket {self.url}"

    @property
    def on_purpose(self) -> bool:
        """Somebody has chosen it, so that no other may take its place."""
        return bool(self.said_by)

    @property
    def is_default(self) -> bool:
        """It is the engine at this machine's default socket, whoever said so."""
        return self.url in _SAME

    @property
    def socket(self) -> str | None:
        """The path of its socket, if it is one of this machine."""
        if self.is_default:
            return SOCKET
        kind, _, path = self.url.partition("://")
        return f"/{path.lstrip('/')}" if kind == "unix" else None

    @property
    def mending(self) -> str:
        """What to do where nobody answers there."""
        if self.context:
            undo = (
                "unset DOCKER_CONTEXT"
                if self.said_by == "DOCKER_CONTEXT"
                else "choose another (`docker context use default`)"
            )
            return f"Mend the docker context {self.context}, or {undo}."
        return f"Mend or unset {self.said_by}."


def meant(env: Mapping[str, str] = os.environ) -> Endpoint:
    """The engine that Docker's command line would take. EndpointUnusable if there is none."""
    if host := env.get("DOCKER_HOST"):
        return Endpoint(_with_port(host.strip() or DEFAULT, env), "DOCKER_HOST")
    home = env.get("HOME") or os.path.expanduser("~")  # noqa: PTH111 - pathlib's raises
    directory = Path(env.get("DOCKER_CONFIG") or f"{home}/.docker")
    name, said_by = env.get("DOCKER_CONTEXT", ""), "DOCKER_CONTEXT"
    if not name:
        name, said_by = _current(directory), "set by `docker context use`"
    if name in {"", _NAME}:
        return Endpoint()
    return _of_context(directory / "contexts", name, said_by)


def _current(directory: Path) -> str:
    """The context that is written down; none if that is unreadable, as the command line does."""
    try:
        found = json.loads((directory / "config.json").read_text(encoding="utf-8"))
        name = found["currentContext"]
    except (OSError, ValueError, LookupError, TypeError):
        return ""
    return name if isinstance(name, str) else ""


def _of_context(contexts: Path, name: str, said_by: str) -> Endpoint:
    key = hashlib.sha256(name.encode()).hexdigest()
    path = contexts / "meta" / key / "meta.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["Endpoints"]["docker"]
        url, skip = found.get("Host") or DEFAULT, bool(found.get("SkipTLSVerify"))
        if not isinstance(url, str):
            raise TypeError(f"the address is {url!r}")  # noqa: TRY301 - one message for all of these
    except FileNotFoundError:
        why = "there is no such context"
    except OSError as error:
        why = f"{path}: {error.strerror}"
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        why = f"{path} names no engine ({type(error).__name__}: {error})"
    else:
        return Endpoint(url, said_by, name, _tls(contexts / "tls" / key / "docker", skip=skip))
    raise EndpointUnusable(
        f"the docker context {name!r} ({said_by}) cannot be used: {why}",
        remedy=f"{Endpoint('', said_by, name).mending} `docker context ls` lists those there are.",
    )


def _tls(directory: Path, *, skip: bool) -> Tls | None:
    """None without files where the engine need not be known: then there is no TLS at all."""
    authority, certificate, key = (
        path if path.is_file() else None
        for path in (directory / "ca.pem", directory / "cert.pem", directory / "key.pem")
    )
    if not (authority or certificate or key or skip):
        return None
    return Tls(authority, certificate, key, verify=not skip)


def _with_port(url: str, env: Mapping[str, str]) -> str:
    """An address of tcp:// with its port, which Docker's command line adds and the SDK wants."""
    try:
        parts = urlsplit(url)
        if parts.scheme != "tcp" or parts.port is not None or not parts.hostname:
            return url
    except ValueError:
        return url  # Told of by whoever uses it.
    port = _TLS_PORT if env.get("DOCKER_TLS_VERIFY") else _PORT
    return f"{parts.scheme}://{parts.netloc}:{port}{parts.path}"
