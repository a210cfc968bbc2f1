"""What runs are made from, had ahead of any run: for those who use it without fedtest."""

from __future__ import annotations

import secrets
from contextlib import closing
from typing import TYPE_CHECKING

from fedtest.engine.base import RunTag
from fedtest.engine.docker import labels
from fedtest.engine.docker.images import node_image, remove_other_node_images
from fedtest.engine.docker.reach import reach
from fedtest.engine.docker.volumes import ensure_volume
from fedtest.engine.owner import Owner

if TYPE_CHECKING:
    from collections.abc import Callable


def node_image_tag(progress: Callable[[str], None]) -> str:
    """The node image's name, built if need be."""
    with closing(reach()) as client:
        return node_image(client, progress=progress, labels=_labels())


def remove_superseded_node_images() -> list[str]:
    """Remove the node images of other versions of fedtest that nothing is made of; their names."""
    with closing(reach()) as client:
        return remove_other_node_images(client)


def data_volume(name: str, progress: Callable[[str], None]) -> str:
    """The name of the volume that holds the data set `name`, filled if need be."""
    with closing(reach()) as client:
        marks = _labels()
        image = node_image(client, progress=progress, labels=marks)
        return ensure_volume(client, name, image=image, labels=marks, progress=progress)


def _labels() -> dict[str, str]:
    """A run of its own, so that a sweep removes what it leaves if it is killed."""
    return labels.of_run(RunTag(secrets.token_hex(4), "provide", Owner.me()))
