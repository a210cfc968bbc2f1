"""What marks a container, network or volume as ours. Nothing without these is ever touched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.engine.owner import Owner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fedtest.engine.base import RunTag

RUN = "fedtest.run"
SCENARIO = "fedtest.scenario"
OWNER = "fedtest.owner"
KEPT = "fedtest.kept"
HOST = "fedtest.host"
NETWORK = "fedtest.network"
HELPER = "fedtest.helper"


def of_run(run: RunTag) -> dict[str, str]:
    """The labels that everything made for a run carries."""
    return {RUN: run.id, SCENARIO: run.scenario, OWNER: str(run.owner)}


def is_abandoned(marks: Mapping[str, str]) -> bool:
    """Whether its owner is certainly dead, and did not keep it on purpose."""
    owner = Owner.parse(marks.get(OWNER, ""))
    return owner is not None and owner.is_dead() and KEPT not in marks


def container_name(run_id: str, host: str) -> str:
    """The name a host's container has on the engine."""
    return f"fedtest-{run_id}-{host}"


def network_name(run_id: str, network: str) -> str:
    """The name a network has on the engine."""
    return f"fedtest-{run_id}-{network}"
