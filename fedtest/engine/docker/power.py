"""Hosts switched off, halted and let go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docker.errors import APIError

from fedtest.engine.docker import labels
from fedtest.engine.docker.client import engine_errors
from fedtest.errors import EngineError

if TYPE_CHECKING:
    from fedtest.engine.base import Power, RunTag
    from fedtest.engine.docker.client import DockerClient

_CONFLICT = 409


def set_power(client: DockerClient, run: RunTag, host: str, wanted: Power) -> None:
    """Bring one host into the state; EngineError if it is in another one afterwards."""
    name = labels.container_name(run.id, host)
    call = {"on": client.api.unpause, "off": client.api.kill, "paused": client.api.pause}[wanted]
    with engine_errors(f"switching host {host} {wanted}"):
        try:
            if wanted == "off" and _state(client, name) == "paused":
                client.api.unpause(name)  # What stands still cannot be ended on some engines.
            call(name)
        except APIError as error:
            # It may be in that state already: what it then is decides.
            if error.status_code not in {_CONFLICT, 500}:
                raise
        if wanted == "off":
            client.api.wait(name, timeout=60)
        found = _state(client, name)
    if found != wanted:
        raise EngineError(f"host {host} should be {wanted}, it is {found}")


def _state(client: DockerClient, name: str) -> Power:
    state = client.api.inspect_container(name)["State"]
    if not state["Running"]:
        return "off"
    return "paused" if state["Paused"] else "on"
