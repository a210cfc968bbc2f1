"""Removing: only what carries a run's label, until nothing of it is left."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from docker.errors import APIError

from fedtest.engine.docker import labels
from fedtest.engine.docker.client import engine_errors, explanation, gone_is_fine
from fedtest.engine.owner import Owner
from fedtest.engine.parallel import each
from fedtest.errors import DeadlineError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fedtest.engine.docker.client import DockerClient

_POLL = 0.1


def destroy(client: DockerClient, run_id: str, deadline: float) -> int:
    """Remove a run's containers, then its networks; how many things were removed.

    Looks again until both lists are empty: a call that was under way when the
    run was interrupted may still have made something after the first look.
    """
    end = time.monotonic() + deadline
    wanted = {"label": f"{labels.RUN}={run_id}"}
    removed: set[str] = set()
    while True:
        with engine_errors(f"listing what run {run_id} left"):
            containers = client.api.containers(all=True, filters=wanted)
        left = max(end - time.monotonic(), 1.0)
        names = {item["Id"]: item["Names"][0].lstrip("/") for item in containers}
        each(
            lambda found: _remove_container(client, *found),
            names.items(),
            doing="removing containers",
            deadline=left,
        )
        with engine_errors(f"listing the networks run {run_id} left"):
            networks = client.api.networks(filters=wanted)
        for network in networks:
            _remove_network(client, network)
        found = names.keys() | {network["Id"] for network in networks}
        if not found:
            return len(removed)
        if time.monotonic() > end:
            raise DeadlineError(
                f"run {run_id}: still there after {deadline:g} s: "
                + ", ".join([*names.values(), *(network["Name"] for network in networks)]),
                remedy=f"`python -m fedtest clean {run_id}` tries again.",
            )
        if found <= removed:
            time.sleep(_POLL)
        removed |= found


def _remove_container(client: DockerClient, container_id: str, name: str) -> None:
    with engine_errors(f"removing container {name}"), gone_is_fine():
        client.api.remove_container(container_id, force=True, v=True)


def _remove_network(client: DockerClient, network: dict[str, Any]) -> None:
    with engine_errors(f"removing network {network['Name']}"), gone_is_fine():
        try:
            client.api.remove_network(network["Id"])
        except APIError as error:
            # An endpoint may outlive its container by a moment; the next look retries.
            if "active endpoints" not in explanation(error):
                raise


def dead_runs(client: DockerClient) -> Mapping[str, str]:
    """Runs whose owner is certainly dead and that were not kept on purpose: id -> scenario."""
    with engine_errors("listing what earlier runs left"):
        found = client.api.containers(all=True, filters={"label": labels.RUN})
        found += client.api.networks(filters={"label": labels.RUN})
    dead = {}
    for item in found:
        marks = item["Labels"]
        owner = Owner.parse(marks.get(labels.OWNER, ""))
        if owner is not None and owner.is_dead() and labels.KEPT not in marks:
            dead[marks[labels.RUN]] = marks.get(labels.SCENARIO, "")
    return dead
