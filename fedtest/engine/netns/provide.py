"""What hosts are given of the machine, and what cannot be had without Docker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.data import mnist
from fedtest.errors import DataError, ImageError, InvalidError
from fedtest.plan import ImagePlan

if TYPE_CHECKING:
    from collections.abc import Callable

    from fedtest.plan import Plan

_DOCKER = "Run it with --engine docker."


def refuse_what_needs_docker(plan: Plan) -> None:
    """ImageError for hosts from an image, InvalidError for networks with a way out."""
    for host in plan.hosts:
        if host.image != ImagePlan():
            what = f"image {host.image.name}" if host.image.name else "an image that is built"
            raise ImageError(
                f"host {host.name} is from {what}; hosts without Docker are from no image, "
                "they see this machine's files",
                remedy=_DOCKER,
            )
    for network in plan.networks:
        if not network.internal:
            raise InvalidError(
                f"network {network.name} is to have a way out (`internal: false`); without "
                "Docker none has, since nothing is added to the machine's own network",
                remedy=_DOCKER,
            )


def data_directory(name: str, progress: Callable[[str], None]) -> str:
    """The directory with the data set, provisioned once for this user. DataError."""
    if name != "mnist":
        raise DataError(f"no data set is called {name!r}; there is mnist")
    return str(mnist.provision(progress).root)
