"""Reaching the engine, or saying well why that cannot be."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fedtest.engine.docker.client import ConfigurationUnusable, DockerClient
from fedtest.errors import DeadlineError, EngineUnavailable, FedtestError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SOCKET = "/var/run/docker.sock"
DEFAULT = f"unix://{SOCKET}"


def reach(base_url: str | None = None) -> DockerClient:
    """A client of the engine at `base_url`, of DOCKER_HOST, or at the default socket.

    EngineUnavailable with what was tried and what to do.
    """
    try:
        return DockerClient(base_url)
    except ConfigurationUnusable:
        raise
    except (EngineUnavailable, DeadlineError) as error:
        raise unreachable(error, base_url) from error


def unreachable(
    error: FedtestError, base_url: str | None = None, env: Mapping[str, str] = os.environ
) -> EngineUnavailable:
    """The one message for an engine that does not answer."""
    chosen = other_than_default(env)
    if base_url:
        tried = base_url
    elif chosen:
        tried = f"DOCKER_HOST={chosen}"
    else:
        tried = f"the default socket {DEFAULT} (DOCKER_HOST is not set)"
    why = reason(error)
    if chosen and not base_url:
        remedy = (
            "Mend or unset DOCKER_HOST. While it is set no engine of this machine is "
            "used, and `fedtest engine ensure` starts none."
        )
    elif "ermission denied" in why:
        remedy = (
            f"An engine may well be running, but this user may not use {SOCKET}: run as root, "
            "or join the group docker (`sudo usermod -aG docker $USER`) and log in again."
        )
    else:
        remedy = (
            "`fedtest engine ensure` starts an installed engine; with `--install`, as root "
            "on Debian or Ubuntu, it installs one first. For an engine elsewhere set DOCKER_HOST."
        )
    return EngineUnavailable(f"no Docker engine answers. Tried {tried}: {why}", remedy=remedy)


def other_than_default(env: Mapping[str, str]) -> str:
    """What DOCKER_HOST says, if it says anything but the default; else empty."""
    chosen = env.get("DOCKER_HOST", "")
    return "" if chosen in {DEFAULT, "unix:///run/docker.sock"} else chosen


def reason(error: BaseException) -> str:
    """The system's own words, dug out of what the SDK and its libraries wrap around them."""
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.strerror and not isinstance(cause.strerror, tuple):
            return str(cause.strerror)
    return str(error)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """All errors behind one, innermost first."""
    found: list[BaseException] = []
    todo: list[object] = [error]
    while todo:
        item = todo.pop()
        if isinstance(item, BaseException) and item not in found:
            found.append(item)
            todo += [item.__cause__, item.__context__, getattr(item, "reason", None), *item.args]
    yield from reversed(found)
