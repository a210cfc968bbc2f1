"""Hosts switched off, halted and let go on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from docker.errors import APIError

from fedtest.engine.docker import labels
from fedtest.engine.docker.client import engine_errors, explanation
from fedtest.errors import EngineError

if TYPE_CHECKING:
    from fedtest.engine.base import Power, RunTag
    from fedtest.engine.docker.client import DockerClient

_CONFLICT = 409
_PATIENCE = 10.0  # seconds for an engine that cannot halt a host: one that starts a process, say
_POLL = 0.1


def set_power(client: DockerClient, run: RunTag, host: str, wanted: Power) -> None:
    """Bring one host into the state; EngineError if it is in another one afterwards."""
    name = labels.container_name(run.id, host)
    end = time.monotonic() + _PATIENCE
    while True:
        with engine_errors(f"switching host {host} {wanted}"):
            refused = _try(client, name, wanted)
            found = _state(client, name)
        if found == wanted:
            return
        if refused is None or "off" in {found, wanted} or time.monotonic() > end:
            why = "" if refused is None else f": {explanation(refused)}"
            raise EngineError(f"host {host} should be {wanted}, it is {found}{why}") from refused
        time.sleep(_POLL)


def _try(client: DockerClient, name: str, wanted: Power) -> APIError | None:
    """What the engine says against it, if what the host then is decides: it may be so already."""
    call = {"on": client.api.unpause, "off": client.api.kill, "paused": client.api.pause}[wanted]
    refused = None
    try:
        if wanted == "off" and _state(client, name) == "paused":
            client.api.unpause(name)  # What stands still cannot be ended on some engines.
        call(name)
    except APIError as error:
        if error.status_code not in {_CONFLICT, 500}:
            raise
        refused = error
    if wanted == "off":
        client.api.wait(name, timeout=60)
    return refused


def _state(client: DockerClient, name: str) -> Power:
    state = client.api.inspect_container(name)["State"]
    if not state["Running"]:
        return "off"
    return "paused" if state["Paused"] else "on"
