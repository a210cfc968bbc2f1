"""Reaching the engine, or saying well why that cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.engine.docker.client import ConfigurationUnusable, DockerClient
from fedtest.engine.docker.endpoint import SOCKET, Endpoint, EndpointUnusable, meant
from fedtest.errors import DeadlineError, EngineUnavailable, FedtestError

if TYPE_CHECKING:
    from collections.abc import Iterator


def reach(endpoint: Endpoint | None = None) -> DockerClient:
    """A client of the engine at `endpoint`, or of the one that is meant.

    EngineUnavailable with what was tried and what to do.
    """
    endpoint = endpoint or meant()
    try:
        return DockerClient(endpoint)
    except (ConfigurationUnusable, EndpointUnusable):
        raise
    except (EngineUnavailable, DeadlineError) as error:
        raise unreachable(error, endpoint) from error


def unreachable(error: FedtestError, endpoint: Endpoint) -> EngineUnavailable:
    """The one message for an engine that does not answer."""
    why = reason(error)
    if not endpoint.is_default:
        remedy = (
            f"{endpoint.mending} While it is chosen no other engine is used in its place, and "
            "`fedtest engine ensure` starts none."
        )
    elif "ermission denied" in why:
        remedy = (
            f"An engine may well be running, but this user may not use {SOCKET}: run as root, "
            "or join the group docker (`sudo usermod -aG docker $USER`) and log in again."
        )
    else:
        remedy = (
            "`fedtest engine ensure` starts an installed engine; with `--install`, as root "
            "on Debian or Ubuntu, it installs one first. For an engine elsewhere set DOCKER_HOST, "
            "or choose a docker context."
        )
    return EngineUnavailable(f"no Docker engine answers. Tried {endpoint}: {why}", remedy=remedy)


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
