"""The images hosts run from: there already, pulled, or built.

An image of ours has a tag made from a hash of what goes in, so that having the
tag is being up to date. Of a user's directory older builds are removed when
nobody uses them; older node images are not: they may be somebody's base.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docker.errors import ImageNotFound

from fedtest.engine.docker.base_image import BASE, import_base
from fedtest.engine.docker.build import build
from fedtest.engine.docker.client import engine_errors
from fedtest.engine.docker.context import directory_context, node_context, text_context
from fedtest.engine.docker.files import read_file, unstarted
from fedtest.engine.docker.pull import pull
from fedtest.engine.docker.superseded import USER, label, note_use, remove_superseded, removed
from fedtest.errors import ImageError
from fedtest.locks import lock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fedtest.engine.docker.client import DockerClient
    from fedtest.engine.docker.context import Context
    from fedtest.plan import BuildSpec, ImagePlan

NODE = "fedtest-node"

NODE_ARG = "FEDTEST_NODE"
"""A user's Dockerfile that has `ARG FEDTEST_NODE` and `FROM ${FEDTEST_NODE}` builds on ours."""

VERSIONS = "fedtest.versions"
"""Label of the node image: JSON, the versions of what a run's outcome may depend on.

All packages' are in the image, in VERSIONS_FILE. In the label they would be
12 KB in every host's entry of every listing and every event of the engine.
"""

VERSIONS_FILE = "/etc/fedtest-versions.txt"
_TELLING = re.compile(
    r"base-files|iproute2|iptables|libc6|libgloo.*|libopenblas.*|libtorch\d.*"
    r"|python3|python3\.\d+|python3-(numpy|torch|torchvision)"
)

PATIENCE = 1800.0
"""Seconds to wait for another process that builds."""


def ensure_image(
    client: DockerClient,
    plan: ImagePlan,
    *,
    progress: Callable[[str], None],
    labels: Mapping[str, str],
) -> str:
    """The engine's name of the image that `plan` asks for, made if need be.

    `labels` mark the helper container that a build may need. ImageError if the
    image cannot be had.
    """
    if plan.build is not None:
        return user_image(client, plan.build, progress=progress, labels=labels)
    if plan.name is not None:
        return named_image(client, plan.name, progress=progress)
    return node_image(client, progress=progress, labels=labels)


def node_image(
    client: DockerClient,
    *,
    progress: Callable[[str], None],
    labels: Mapping[str, str],
) -> str:
    """The tag of the node image, built if it is missing or out of date. ImageError."""
    with node_context() as context:
        # The usual case first, and without a lock: all is there.
        base = image_id(client, BASE)
        if base and image_id(client, tag := _node_tag(context, base)):
            return tag
        with lock("image-node", "building the node image", PATIENCE, progress):
            base = image_id(client, BASE) or _base_image(client, progress)
            tag = _node_tag(context, base)
            if not image_id(client, tag):
                progress("building the node image")
                built = build(client, context, "the node image", progress, args={"BASE": base})
                _label_versions(client, built, tag, labels)
                progress(f"built {tag}")
            return tag


def present_node_image(client: DockerClient) -> str | None:
    """The tag of the node image if it is there and up to date."""
    base = image_id(client, BASE)
    with node_context() as context:
        tag = _node_tag(context, base) if base else None
    return tag if tag and image_id(client, tag) else None


def remove_other_node_images(client: DockerClient) -> list[str]:
    """Remove all node images but the one that is up to date, as far as nothing is made of them.

    A user's image that was built on one keeps what it needs of it.
    """
    newest = present_node_image(client)
    with engine_errors("looking for node images"):
        found = client.api.images(name=NODE)
    tags = [tag for image in found for tag in image.get("RepoTags") or ()]
    return [tag for tag in tags if tag != newest and removed(client, tag)]


def named_image(client: DockerClient, name: str, *, progress: Callable[[str], None]) -> str:
    """An image by its name, pulled if it is not there. ImageError if it cannot be."""
    if not image_id(client, name):
        pull(client, name, progress)
    return name


def user_image(
    client: DockerClient,
    spec: BuildSpec,
    *,
    progress: Callable[[str], None],
    labels: Mapping[str, str],
) -> str:
    """The tag of an image built from a user's directory, if it changed since. ImageError.

    What its FROM names is not looked at: to have a newer base, pull it and
    remove the tag.
    """
    with directory_context(spec) as context:
        args = {}
        if NODE_ARG in Path(spec.dockerfile).read_text(encoding="utf-8", errors="replace"):
            args[NODE_ARG] = node_image(client, progress=progress, labels=labels)
        tag = f"{USER}:{_digest(context.digest, context.dockerfile, *args.values())}"
        note_use(tag)
        if image_id(client, tag):
            return tag
        with lock(f"image-{tag[-12:]}", f"building {spec.context}", PATIENCE, progress):
            if not image_id(client, tag):
                progress(f"building an image from {spec.context}")
                marks = label(spec)
                build(client, context, spec.context, progress, tag=tag, args=args, labels=marks)
                progress(f"built {tag}")
                for old in remove_superseded(client, spec, tag):
                    progress(f"removed {old}, which was built from it earlier")
            return tag


def image_id(client: DockerClient, name: str) -> str | None:
    """The id of the image `name`, or None if the engine has none of this name."""
    found = _inspect(client, name)
    return str(found["Id"]) if found else None


def image_versions(client: DockerClient, name: str) -> dict[str, str]:
    """What an image's label tells of versions, package to version; empty if it tells nothing."""
    found = _inspect(client, name) or {}
    label = ((found.get("Config") or {}).get("Labels") or {}).get(VERSIONS, "{}")
    return {str(package): str(version) for package, version in json.loads(label).items()}


def _inspect(client: DockerClient, name: str) -> dict[str, Any] | None:
    api: Any = client.api  # the SDK leaves this call untyped
    with engine_errors(f"looking for the image {name}"):
        try:
            return dict(api.inspect_image(name))
        except ImageNotFound:
            return None


def _node_tag(context: Context, base: str) -> str:
    return f"{NODE}:{_digest(context.digest, base)}"


def _base_image(client: DockerClient, progress: Callable[[str], None]) -> str:
    try:
        pull(client, BASE, progress)
    except ImageError as error:
        progress(f"{error}; building it")
        import_base(client, progress, pulling=str(error))
    found = image_id(client, BASE)
    if found is None:
        raise ImageError(f"{BASE} is not there, though it was just made")
    return found


def _label_versions(client: DockerClient, built: str, tag: str, labels: Mapping[str, str]) -> None:
    """Tag the image, with its versions in a label.

    The builder cannot compute a label, so this is a second build, of one step.
    """
    with unstarted(client, built, labels) as container:
        listing = read_file(client, container, VERSIONS_FILE)
    value = json.dumps(_telling(listing.decode()), sort_keys=True)
    with text_context(f"FROM {built}\n") as context:
        build(client, context, f"the label of {tag}", _quiet, tag=tag, labels={VERSIONS: value})


def _telling(listing: str) -> dict[str, str]:
    """The telling packages of what `dpkg-query --show` lists: name (and architecture), version."""
    pairs = (line.partition("\t") for line in listing.splitlines())
    every = {name.partition(":")[0]: version for name, _, version in pairs}
    return {name: version for name, version in every.items() if _TELLING.fullmatch(name)}


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _quiet(_: str) -> None:
    """Progress of something too short to be told."""
