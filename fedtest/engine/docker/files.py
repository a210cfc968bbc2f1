"""Files of images and volumes, through a container that is made and never started.

That is how the engine lets one look at them without running anything.
"""

from __future__ import annotations

import io
import tarfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from docker.errors import NotFound
from docker.types import Mount

from fedtest.engine.docker.client import engine_errors, gone_is_fine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fedtest.engine.docker.client import DockerClient


@contextmanager
def unstarted(
    client: DockerClient,
    image: str,
    labels: Mapping[str, str],
    volumes: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """A container that does not run, with `volumes` (name to directory); always removed.

    `labels` say whose it is, should this process be killed meanwhile.
    """
    mounts = [
        Mount(target=target, source=name, type="volume", no_copy=True)
        for name, target in (volumes or {}).items()
    ]

    def create() -> str:
        with engine_errors(f"making a helper container from {image}"):
            return str(
                client.api.create_container(
                    image,
                    command=["true"],
                    labels=dict(labels),
                    network_disabled=True,
                    host_config=client.api.create_host_config(mounts=mounts, network_mode="none"),
                )["Id"]
            )

    # In a thread, so that an interruption does not leave the call under way, and
    # then a container that nobody knows of.
    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(create)
        try:
            yield made.result()
        finally:
            if made.exception() is None:  # Waits for the call to end.
                with engine_errors("removing a helper container"), gone_is_fine():
                    client.api.remove_container(made.result(), force=True, v=True)


def read_file(client: DockerClient, container: str, path: str) -> bytes:
    """A file's content. FileNotFoundError if it is not there."""
    with engine_errors(f"reading {path}"):
        try:
            chunks, _ = client.api.get_archive(container, path)
        except NotFound:
            raise FileNotFoundError(path) from None
        with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as tar:
            member = tar.next()
            content = tar.extractfile(member) if member else None
            if content is None:
                raise FileNotFoundError(path)
            return content.read()


def write_tar(client: DockerClient, container: str, directory: str, archive: IO[bytes]) -> None:
    """Unpack a tar file into a directory that is there."""
    with engine_errors(f"writing to {directory}"):
        client.api.put_archive(container, directory, archive)
