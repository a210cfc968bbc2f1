"""The one place where the Docker SDK is wrapped: time-outs, threads, typed errors."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import docker
import requests
from docker import utils
from docker.errors import APIError, DockerException, InvalidConfigFile, NotFound
from docker.utils.config import find_config_file

from fedtest.errors import (
    DeadlineError,
    EngineError,
    EngineUnavailable,
    interruption_behind,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

CONNECT_TIMEOUT = 5
"""Seconds in which an engine must answer at all."""

CALL_TIMEOUT = 60
"""Seconds for one call. A call that may take longer says so itself."""


class ConfigurationUnusable(EngineUnavailable):
    """What the user has written down for Docker's clients is not what they understand."""


class DockerClient:
    """Connections to one engine. The SDK's client is not thread-safe: each thread has its own.

    `base_url` None means what the environment says (DOCKER_HOST, or the default socket).
    Raises EngineUnavailable at once if no engine answers, ConfigurationUnusable before it asks.
    """

    def __init__(self, base_url: str | None = None) -> None:
        self.url = base_url or os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
        self._local = threading.local()
        self._all: list[docker.APIClient] = []
        self._lock = threading.Lock()
        with engine_errors(f"asking the engine at {self.url} for its version"):
            probe = self._connect("auto", CONNECT_TIMEOUT)
            try:
                self.version: dict[str, Any] = probe.version()
                self.api_version: tuple[int, ...] = tuple(
                    int(part) for part in probe.api_version.split(".")
                )
            finally:
                probe.close()

    @property
    def api(self) -> docker.APIClient:
        """The calling thread's own client."""
        client = getattr(self._local, "client", None)
        if client is None:
            client = self._connect(".".join(map(str, self.api_version)), CALL_TIMEOUT)
            self._local.client = client
            with self._lock:
                self._all.append(client)
        return client

    def _connect(self, version: str, timeout: int) -> docker.APIClient:
        settings = utils.kwargs_from_env()
        settings["base_url"] = self.url
        # The SDK reads the user's configuration for itself, and trusts what is in it.
        odd = (InvalidConfigFile, AttributeError, TypeError, KeyError)
        try:
            return docker.APIClient(version=version, timeout=timeout, **settings)
        except odd as error:
            raise ConfigurationUnusable(
                f"Docker's configuration {find_config_file()!s} cannot be used: {error}",
                remedy="Mend it, or name another directory for it by DOCKER_CONFIG.",
            ) from error

    def close(self) -> None:
        """Close every thread's connections."""
        with self._lock:
            for client in self._all:
                client.close()
            self._all.clear()


@contextmanager
def engine_errors(doing: str) -> Iterator[None]:
    """Turn what the SDK raises while `doing` something into our own errors."""
    try:
        yield
    # ValueError: an address that cannot be one, like a port of 99999.
    except (DockerException, requests.exceptions.RequestException, ValueError) as error:
        if interrupted := interruption_behind(error):
            raise interrupted from None
        raise _ours(error, doing) from error


def _ours(error: Exception, doing: str) -> EngineError | DeadlineError | EngineUnavailable:
    if isinstance(error, APIError):
        return EngineError(f"{doing}: the engine says: {explanation(error)}")
    if isinstance(error, requests.exceptions.Timeout):
        return DeadlineError(f"{doing}: the engine did not answer in time")
    return EngineUnavailable(
        f"{doing}: {error}",
        remedy="Start an engine: `fedtest engine ensure` does it on Linux, `--install` installs "
        "one on Debian and Ubuntu.",
    )


def close_response(stream: Any) -> None:
    """Close the response behind a stream or socket of the SDK, which by itself leaves it open."""
    stream._response.close()  # noqa: SLF001 - the SDK has no other way


def explanation(error: APIError) -> str:
    """The engine's own words."""
    return str(error.explanation or error).strip()


@contextmanager
def gone_is_fine() -> Iterator[None]:
    """For removals: what is not there any more, or is being removed, needs no removing."""
    try:
        yield
    except NotFound:
        pass
    except APIError as error:
        if "already in progress" not in explanation(error):
            raise
