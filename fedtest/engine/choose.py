"""Which engine: the one that was asked for, or Docker where it answers, and else none of it."""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING
from urllib.parse import quote

from fedtest.engine.docker import labels
from fedtest.errors import EngineUnavailable, FedtestError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fedtest.engine.base import Engine

NAMES = ("auto", "docker", "netns")
_SOCKET = "/var/run/docker.sock"
_PATIENCE = 2.0


def open_engine(name: str, *, warm: bool = True) -> Engine:
    """The engine of that name; `auto` says in `chosen` which it took, and why. EngineUnavailable.

    `warm`: Python processes may start from one that has imported already, where
    the engine can do so. Whatever it is, its runs also remove what dead runs left on the other one.
    """
    if name == "netns":
        return _netns(warm=warm)
    if name == "docker":
        return _docker()
    try:
        engine = _docker()
    except FedtestError as error:
        why = error
    else:
        engine.chosen = "chosen because Docker answers"
        return engine
    try:
        engine = _netns(warm=warm)
    except EngineUnavailable as error:
        raise EngineUnavailable(
            f"{why.message}\nWithout Docker: {error.message}",
            remedy="\n  ".join(filter(None, (why.remedy, error.remedy))),
        ) from error
    engine.chosen = f"chosen because {why.message[0].lower()}{why.message[1:]}"
    return engine


def _docker() -> Engine:
    from fedtest.engine.docker import engine  # noqa: PLC0415 - it is slow, and may not be wanted

    opened: Engine = engine.DockerEngine()
    opened.also_sweep = (sweep_netns,)
    return opened


def _netns(*, warm: bool) -> Engine:
    from fedtest.engine.netns.engine import NetnsEngine  # noqa: PLC0415 - it may not be wanted
    from fedtest.engine.netns.warm_starter import WarmStarter  # noqa: PLC0415

    opened = NetnsEngine(WarmStarter() if warm else None)
    opened.also_sweep = (sweep_docker,)
    return opened


def sweep_netns(deadline: float) -> Mapping[str, int]:
    """What dead runs left without Docker; that needs nothing of this machine."""
    from fedtest.engine.netns.state import sweep  # noqa: PLC0415 - it may not be wanted

    return sweep(deadline)


def sweep_docker(deadline: float) -> Mapping[str, int]:
    """What dead runs left on Docker, if there is anything."""
    if not _docker_may_have_some():
        return {}
    with suppress(EngineUnavailable):
        engine = _docker()
        try:
            return engine.sweep(deadline)
        finally:
            engine.close()
    return {}


class _Local(HTTPConnection):
    """HTTP over the engine's socket: the SDK alone would take longer than a run."""

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_PATIENCE)
        self.sock.connect(_SOCKET)


def _docker_may_have_some() -> bool:
    if os.environ.get("DOCKER_HOST"):
        return True  # Whoever set it wants that engine looked at.
    wanted = quote(json.dumps({"label": [labels.RUN]}))
    for path in (f"/containers/json?all=1&filters={wanted}", f"/networks?filters={wanted}"):
        connection = _Local("localhost", timeout=_PATIENCE)
        try:
            connection.request("GET", path)
            found = json.loads(connection.getresponse().read())
            if any(labels.is_abandoned(item["Labels"]) for item in found):
                return True
        except (OSError, HTTPException, ValueError, LookupError, TypeError):
            return False
        finally:
            connection.close()
    return False
