"""The one place where the Docker SDK is wrapped: time-outs, threads, typed errors."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import docker
import requests
from docker import utils
from docker.errors import APIError, DockerException, InvalidConfigFile, NotFound
from docker.tls import TLSConfig
from docker.utils.config import find_config_file

from fedtest.engine.docker.endpoint import Endpoint, meant
from fedtest.engine.docker.over_ssh import CONNECT, Dialler, SshClient
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

    Without an `endpoint` it is the one that is meant (see there).
    Raises EngineUnavailable at once if no engine answers, ConfigurationUnusable or EndpointUnusable
    before it asks.
    """

    def __init__(self, endpoint: Endpoint | None = None) -> None:
        self.endpoint = endpoint or meant()
        self.url = self.endpoint.url
        over_ssh = self.url.startswith("ssh://")
        self._dialler = Dialler(self.endpoint) if over_ssh else None
        self._local = threading.local()
        self._all: list[docker.APIClient] = []
        self._lock = threading.Lock()
        try:
            with engine_errors(f"asking the engine at {self.url} for its version"):
                probe = self._connect("auto", CONNECT if over_ssh else CONNECT_TIMEOUT)
                try:
                    self.version: dict[str, Any] = probe.version()
                    self.api_version: tuple[int, ...] = tuple(
                        int(part) for part in probe.api_version.split(".")
                    )
                finally:
                    probe.close()
        except BaseException:
            self.close()
            raise

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
        # The SDK reads the user's configuration for itself, and trusts what is in it.
        odd = (InvalidConfigFile, AttributeError, TypeError, KeyError)
        try:
            if self._dialler is not None:
                return SshClient(self._dialler, version=version, timeout=timeout)
            tls = _tls(self.endpoint)
            return _Client(self.url, version=version, timeout=timeout, tls=tls)
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
        if self._dialler is not None:
            self._dialler.close()


class _Client(docker.APIClient):
    """The SDK's client, which knows an engine by the authority that it was given for it.

    `requests` would take that of the environment (REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE) instead.
    """

    def merge_environment_settings(
        self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any
    ) -> Any:
        asked = self.verify if verify is None else verify
        return super().merge_environment_settings(url, proxies, stream, asked, cert)


def _tls(endpoint: Endpoint) -> TLSConfig | bool:
    """A context has its own; the environment's is for DOCKER_HOST and the default socket."""
    if not endpoint.context:
        return utils.kwargs_from_env().get("tls", False)
    tls = endpoint.tls
    if tls is None:
        return False
    pair = (str(tls.certificate), str(tls.key)) if tls.certificate and tls.key else None
    return TLSConfig(pair, str(tls.authority) if tls.authority else None, tls.verify)


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
