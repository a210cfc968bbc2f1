"""Data sets as volumes of the engine, named by their digest, filled once.

The marker is written last, so a volume with it is whole, and looking for it is
all that a later run does. A volume that a killed run left half full is filled
again. Nothing is ever started for it.
"""

from __future__ import annotations

import tarfile
import tempfile
from io import BytesIO
from typing import TYPE_CHECKING

from fedtest.data import mnist
from fedtest.engine.docker.client import engine_errors
from fedtest.engine.docker.files import read_file, unstarted, write_tar
from fedtest.errors import DataError
from fedtest.locks import lock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from fedtest.engine.docker.client import DockerClient

LABEL = "fedtest.data"
MARKER = ".fedtest-complete"
PATIENCE = 900.0
"""Seconds to wait for another process that fills the volume."""

_AT = "/data"


def ensure_volume(
    client: DockerClient,
    name: str,
    *,
    image: str,
    labels: Mapping[str, str],
    progress: Callable[[str], None],
) -> str:
    """The volume that holds the data set `name`, filled if it is not yet.

    `image` is one the engine has: a container of it, never started, is how
    volumes are looked into; `labels` mark it. DataError if the data set cannot
    be had.
    """
    if name != "mnist":
        raise DataError(f"no data set is called {name!r}; there is mnist")
    volume = f"fedtest-mnist-{mnist.DIGEST}"
    with engine_errors(f"making the volume {volume}"):
        # The same volume if it is there.
        client.api.create_volume(volume, labels={LABEL: name})
    with unstarted(client, image, labels, {volume: _AT}) as container:
        if _complete(client, container):
            return volume
        found = mnist.provision(progress)
        with lock(f"volume-{volume}", f"filling the volume {volume}", PATIENCE, progress):
            if not _complete(client, container):
                progress(f"filling the volume {volume}")
                _fill(client, container, found.root)
    return volume


def _complete(client: DockerClient, container: str) -> bool:
    try:
        return read_file(client, container, f"{_AT}/{MARKER}") == mnist.DIGEST.encode()
    except FileNotFoundError:
        return False


def _fill(client: DockerClient, container: str, root: Path) -> None:
    with tempfile.TemporaryFile() as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            _add(tar, "MNIST", directory=True)
            _add(tar, "MNIST/raw", directory=True)
            for name in mnist.MD5:
                content = (mnist.raw(root) / name).read_bytes()
                _add(tar, f"MNIST/raw/{name}", content)
        file.seek(0)
        write_tar(client, container, _AT, file)
    with tempfile.TemporaryFile() as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            _add(tar, MARKER, mnist.DIGEST.encode())
        file.seek(0)
        write_tar(client, container, _AT, file)


def _add(tar: tarfile.TarFile, name: str, content: bytes = b"", *, directory: bool = False) -> None:
    info = tarfile.TarInfo(name)
    info.type = tarfile.DIRTYPE if directory else tarfile.REGTYPE
    info.mode = 0o755 if directory else 0o644
    info.size = len(content)
    tar.addfile(info, BytesIO(content))
