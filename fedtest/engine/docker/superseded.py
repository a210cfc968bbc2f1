"""Images of earlier builds from a user's directory: removed when a newer one is there.

An image carries the directory that it is from in a label. One that a container
is made of is not removed by the engine, and one that a run took lately is left
alone: that run may be about to make hosts of it.
"""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING

from docker.errors import APIError

from fedtest.engine.docker.client import engine_errors
from fedtest.locks import own_directory

if TYPE_CHECKING:
    from pathlib import Path

    from fedtest.engine.docker.client import DockerClient
    from fedtest.plan import BuildSpec

USER = "fedtest-user"
LABEL = "fedtest.built-from"

LATELY = 3600.0
"""Seconds; longer than any run is between asking for its images and making its hosts."""


def label(spec: BuildSpec) -> dict[str, str]:
    """What marks an image as built from this directory."""
    whole = f"{spec.context}\n{spec.dockerfile}"
    return {LABEL: hashlib.sha256(whole.encode()).hexdigest()[:24]}


def note_use(tag: str) -> None:
    """A run is about to make hosts of this image."""
    _marker(tag).touch()


def remove_superseded(client: DockerClient, spec: BuildSpec, newest: str) -> list[str]:
    """Remove those of the directory's images that are not the newest; the tags that are gone."""
    (item,) = label(spec).items()
    with engine_errors("looking for images of earlier builds"):
        found = client.api.images(filters={"label": "=".join(item)})
    tags = [tag for image in found for tag in image.get("RepoTags") or ()]
    old = [tag for tag in tags if tag.startswith(f"{USER}:") and tag != newest and not _lately(tag)]
    return [tag for tag in old if removed(client, tag)]


def removed(client: DockerClient, tag: str) -> bool:
    """Remove the image of this name; False if a container is made of it."""
    with engine_errors(f"removing the image {tag}"):
        try:
            client.api.remove_image(tag)
        except APIError:
            return False  # Something is made of it, or somebody else was faster.
    _marker(tag).unlink(missing_ok=True)
    return True


def _lately(tag: str) -> bool:
    try:
        used = _marker(tag).stat().st_mtime
    except FileNotFoundError:
        return False
    return time.time() - used < LATELY


def _marker(tag: str) -> Path:
    """Touched when a run takes this image."""
    return own_directory() / f"image-{tag.rpartition(':')[2]}.used"
