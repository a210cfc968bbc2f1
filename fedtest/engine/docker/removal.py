"""Removing: only what carries a run's label, until nothing of it is left."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from fedtest.engine.docker import labels
from fedtest.engine.docker.client import engine_errors, gone_is_fine
from fedtest.errors import DeadlineError, EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fedtest.engine.docker.client import DockerClient
    from fedtest.engine.parallel import Workers

_POLL = 0.1

_AS_LONG_AS_CALLS = 3600.0
"""Seconds: no bound of its own, since every call has one."""


def destroy(client: DockerClient, workers: Workers, run_id: str, deadline: float) -> int:
    """Remove a run's containers, then its networks; how many things were removed.

    Looks again until both lists are empty: a call that was under way when the
    run was interrupted may still have made something after the first look, and
    an endpoint may outlive its container by a moment. What cannot be removed
    does not keep the rest; at the deadline the error says what it is and why.
    """
    end = time.monotonic() + deadline
    wanted = {"label": f"{labels.RUN}={run_id}"}
    removed: set[str] = set()
    while True:
        with engine_errors(f"listing what run {run_id} left"):
            containers = client.api.containers(all=True, filters=wanted)
            networks = client.api.networks(filters=wanted)
        if not containers and not networks:
            return len(removed)
        slow = any(item["Id"] in removed for item in [*containers, *networks])
        failed: dict[str, str] = {}
        for remove, found in (
            (_remove_container, {item["Id"]: item["Names"][0].lstrip("/") for item in containers}),
            (_remove_network, {item["Id"]: item["Name"] for item in networks}),
        ):
            failed |= _remove_all(client, workers, remove, found)
            removed |= found.keys()
        if (failed or slow) and time.monotonic() > end:
            raise DeadlineError(
                f"run {run_id}: still there after {deadline:g} s:\n"
                + "\n".join(f"  {why}" for why in failed.values() or ["  the engine is slow"]),
                remedy=f"`fedtest clean {run_id}` tries again.",
            )
        if failed or slow:
            time.sleep(_POLL)


def _remove_all(
    client: DockerClient,
    workers: Workers,
    remove: Callable[[DockerClient, str, str], None],
    found: Mapping[str, str],
) -> dict[str, str]:
    """Why each that could not be removed could not, by id."""

    def attempt(item: tuple[str, str]) -> str:
        try:
            remove(client, *item)
        except EngineError as error:
            return error.message
        return ""

    told = workers.each(attempt, found.items(), doing="removing", deadline=_AS_LONG_AS_CALLS)
    return {item: why for (item, _), why in told.items() if why}


def _remove_container(client: DockerClient, container_id: str, name: str) -> None:
    with engine_errors(f"removing container {name}"), gone_is_fine():
        client.api.remove_container(container_id, force=True, v=True)


def _remove_network(client: DockerClient, network_id: str, name: str) -> None:
    with engine_errors(f"removing network {name}"), gone_is_fine():
        client.api.remove_network(network_id)


def dead_runs(client: DockerClient) -> Mapping[str, str]:
    """Runs whose owner is certainly dead and that were not kept on purpose: id -> scenario."""
    with engine_errors("listing what earlier runs left"):
        found = client.api.containers(all=True, filters={"label": labels.RUN})
        found += client.api.networks(filters={"label": labels.RUN})
    dead = {}
    for item in found:
        marks = item["Labels"]
        if labels.is_abandoned(marks):
            dead[marks[labels.RUN]] = marks.get(labels.SCENARIO, "")
    return dead
