"""Build contexts: tar files that come out the same for the same content.

Times and owners are left out, so that the digest of a context says what goes
into an image, and nothing else does.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
import sysconfig
import tarfile
import tempfile
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self

from docker.utils.build import exclude_paths

from fedtest.bundle import PACKAGE, bundle
from fedtest.errors import ImageError
from fedtest.local_files import is_directory, is_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from fedtest.plan import BuildSpec

NODE_SIDE = ("__init__.py", "values.py", "comm", "probe", "ring")
"""What of fedtest goes into the node image; .dockerignore has the same for `docker build`."""

STARTED_WITH = "images/node"
"""What the image's Python starts with, in the bundle as in the context."""

SPY = "fedtest/probe/py-spy"
"""Tells the stacks of Python processes; from our own installation, where that is for Linux."""

IN_MEMORY = 8 << 20
"""Bytes up to which a context stays in memory; a larger one goes to a temporary file."""


@dataclass
class Context:
    """A packed context. `file` is at its start; closing it frees what it takes."""

    file: IO[bytes]
    digest: str
    dockerfile: str

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.file.close()


def node_context() -> Context:
    """The context of the node image: its Dockerfile, its Python's start, fedtest's node side."""
    return pack(_node_entries(), "Dockerfile")


def _node_entries() -> Iterator[tuple[str, Path | bytes]]:
    root = bundle()
    yield "Dockerfile", root / "Dockerfile"
    for path in _files(root / STARTED_WITH):
        yield str(path.relative_to(root)), path
    for part in NODE_SIDE:
        for path in _files(PACKAGE / part):
            yield f"fedtest/{path.relative_to(PACKAGE)}", path
    spy = Path(sysconfig.get_path("scripts")) / "py-spy"
    if sys.platform == "linux" and spy.is_file():
        yield SPY, spy


def _files(top: Path) -> Iterator[Path]:
    """Yield `top`, or the files below it, without what Python compiled."""
    for path in [top] if top.is_file() else sorted(top.rglob("*")):
        if "__pycache__" not in path.parts and path.is_file():
            yield path


def text_context(dockerfile: str) -> Context:
    """A context of nothing but a Dockerfile."""
    return pack([("Dockerfile", dockerfile.encode())], "Dockerfile")


def directory_context(build: BuildSpec) -> Context:
    """The context of a user's own image, without what its .dockerignore names.

    ImageError if something of it cannot be read.
    """
    root, dockerfile = Path(build.context), Path(build.dockerfile)
    if not is_directory(root):
        raise ImageError(f"build: {root} is not a directory")
    if not is_file(dockerfile):
        raise ImageError(f"build: no Dockerfile {dockerfile}")
    inside = dockerfile.is_relative_to(root)
    name = str(dockerfile.relative_to(root)) if inside else ".fedtest.Dockerfile"
    try:
        entries: list[tuple[str, Path | bytes]] = [
            (path, root / path)
            for path in exclude_paths(str(root), _ignored(root), dockerfile=name)
            if path and path != name
        ]
    except ValueError as error:
        raise ImageError(f"{root / '.dockerignore'}: {error}") from error
    return pack([*entries, (name, dockerfile)], name)


def _ignored(root: Path) -> list[str]:
    try:
        text = (root / ".dockerignore").read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise ImageError(f"{root / '.dockerignore'}: {error}") from error
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def pack(entries: Iterable[tuple[str, Path | bytes]], dockerfile: str) -> Context:
    """Tar `entries`, a name and a file or its content each. ImageError if one cannot be read."""
    file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - closed by Context
    try:
        with tarfile.open(fileobj=file, mode="w") as tar:
            for name, source in sorted(entries, key=itemgetter(0)):
                _add(tar, name, source)
        file.seek(0)
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
        file.seek(0)
    except OSError as error:
        file.close()
        raise ImageError(f"packing the build context: {error}") from error
    except BaseException:
        file.close()
        raise
    return Context(file, digest.hexdigest(), dockerfile)


def _add(tar: tarfile.TarFile, name: str, source: Path | bytes) -> None:
    if isinstance(source, bytes):
        info = tarfile.TarInfo(name)
        info.size = len(source)
        tar.addfile(info, io.BytesIO(source))
        return
    # A second name of a file would become a link to the first; each is a file here.
    tar.inodes = {}  # type: ignore[attr-defined]
    info = tar.gettarinfo(source, arcname=name)
    if info is None:  # a socket: nothing to build from
        return
    info.mtime = 0
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    # Like git: a umask or the way of a checkout makes no other image.
    info.mode = 0o755 if info.isdir() or info.mode & 0o100 else 0o644
    if info.isreg():
        with source.open("rb") as file:
            info.size = os.fstat(file.fileno()).st_size
            tar.addfile(info, file)
    else:
        tar.addfile(info)
