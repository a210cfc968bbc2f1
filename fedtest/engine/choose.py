"""Which engine: the one that was asked for, or Docker where it answers, and else namespaces."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING
from urllib.parse import quote

from fedtest.engine.docker import labels
from fedtest.engine.docker.endpoint import EndpointUnusable, meant
from fedtest.errors import EngineUnavailable, InvalidError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fedtest.engine.base import Engine

NAMES = ("auto", "docker", "netns")
_PATIENCE = 2.0
_WITHOUT = "`--engine netns` does without Docker."


def open_engine(name: str, *, warm: bool = True, python: str | None = None) -> Engine:
    """The engine of that name; `auto` says in `chosen` which it took, and why. EngineUnavailable.

    `auto` takes namespaces where no Docker answers at the default socket. An engine that somebody
    chose (DOCKER_HOST, a docker context) is that one or none.

    `warm`: Python processes may start from one that has imported already, where
    the engine can do so. `python`: what hosts without Docker are to run.
    Whatever it is, its runs also remove what dead runs left on the other one.
    """
    if name == "netns":
        return _netns(warm=warm, python=python)
    try:
        endpoint = meant()
    except EndpointUnusable as error:
        if name == "auto":
            error.remedy = _or_without(error)
        raise
    if name == "docker":
        return _docker()
    try:
        engine = _docker()
    except InvalidError as error:
        if endpoint.on_purpose:
            raise EngineUnavailable(error.message, remedy=_or_without(error)) from error
        why = error
    else:
        engine.chosen = (
            f"chosen by {endpoint}"
            if endpoint.on_purpose
            else "chosen because Docker answers at the default socket"
        )
        return engine
    try:
        engine = _netns(warm=warm, python=python)
    except EngineUnavailable as error:
        raise EngineUnavailable(
            f"{why.message}\nWithout Docker: {error.message}",
            remedy="\n  ".join(filter(None, (why.remedy, error.remedy))),
        ) from error
    engine.chosen = f"chosen because {why.message[0].lower()}{why.message[1:]}"
    return engine


def _or_without(error: InvalidError) -> str:
    return " ".join(filter(None, (error.remedy, _WITHOUT)))


def docker_is_chosen() -> bool:
    """Whether somebody chose a Docker engine, so that it is a fault if it does not answer."""
    try:
        return meant().on_purpose
    except EndpointUnusable:
        return True


def _docker() -> Engine:
    from fedtest.engine.docker import engine  # noqa: PLC0415 - it is slow, and may not be wanted

    opened: Engine = engine.DockerEngine()
    opened.also_sweep = (sweep_netns,)
    return opened


def _netns(*, warm: bool, python: str | None = None) -> Engine:
    from fedtest.engine.netns.engine import NetnsEngine  # noqa: PLC0415 - it may not be wanted
    from fedtest.engine.netns.warm_starter import WarmStarter  # noqa: PLC0415

    opened = NetnsEngine(WarmStarter() if warm else None, python)
    opened.also_sweep = (sweep_docker,)
    return opened


def sweep_netns(deadline: float) -> Mapping[str, int]:
    """What dead runs left without Docker; that needs nothing of this machine."""
    from fedtest.engine.netns.state import sweep  # noqa: PLC0415 - it may not be wanted

    return sweep(deadline)


def sweep_docker(deadline: float) -> Mapping[str, int]:
    """What dead runs left on Docker, if there is anything: looked for by runs without Docker.

    Only at a socket of this machine, which tells it at once; what is on an engine elsewhere
    is removed by the next run there.
    """
    with suppress(EngineUnavailable):
        endpoint = meant()
        if endpoint.socket is None or not _has_some(endpoint.socket):
            return {}
        engine = _docker()
        try:
            return engine.sweep(deadline)
        finally:
            engine.close()
    return {}


class _Local(HTTPConnection):
    """HTTP over the engine's socket: the SDK alone would take longer than a run."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_PATIENCE)
        self.sock.connect(self._path)


def _has_some(path: str) -> bool:
    wanted = quote(json.dumps({"label": [labels.RUN]}))
    for query in (f"/containers/json?all=1&filters={wanted}", f"/networks?filters={wanted}"):
        connection = _Local(path)
        try:
            connection.request("GET", query)
            found = json.loads(connection.getresponse().read())
            if any(labels.is_abandoned(item["Labels"]) for item in found):
                return True
        except (OSError, HTTPException, ValueError, LookupError, TypeError):
            return False
        finally:
            connection.close()
    return False
