"""Files and directories of this machine: whether they are there, and can go into hosts."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_BYTES = 100 * 1000**2
MOST_FILES = 10_000
"""Of what is put into a host at one path; more is for `mounts`, or for an image."""


class CannotCopy(ValueError):
    """A file or directory that cannot go into a host; the message says why."""


@dataclass(frozen=True, slots=True)
class LocalFile:
    """`name`: its path below what was asked for, "" for that itself."""

    name: str
    path: Path
    directory: bool
    size: int
    mode: int


def is_directory(path: str | Path) -> bool:
    """Whether it is there. Not Path.is_dir: that raises where a name is too long, or not ours."""
    return os.path.isdir(path)  # noqa: PTH112


def is_file(path: str | Path) -> bool:
    """Whether it is there, as `is_directory`."""
    return os.path.isfile(path)  # noqa: PTH113


def files_at(path: str) -> list[LocalFile]:
    """The file, or the directory with all that is in it, by name. CannotCopy."""
    found: list[LocalFile] = []
    total = 0
    try:
        for item in _walk(Path(path), ""):
            found.append(item)
            total += item.size
            if total > MOST_BYTES or len(found) > MOST_FILES:
                raise CannotCopy(
                    f"{path} is more than {MOST_BYTES // 1000**2} MB or {MOST_FILES} files"
                )
    except OSError as error:
        raise CannotCopy(f"{error.filename or path}: {error.strerror}") from error
    return found


def content_of(item: LocalFile) -> bytes:
    """What a file has in it now. CannotCopy if it is not the file any more that it was."""
    try:
        # A link or a pipe may have taken its place.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        with os.fdopen(os.open(item.path, flags), "rb") as file:
            content = file.read(item.size + 1)
    except OSError as error:
        raise CannotCopy(f"{item.path}: {error.strerror}") from error
    if len(content) != item.size:
        raise CannotCopy(f"{item.path} changed while it was read")
    return content


def _walk(path: Path, name: str) -> Iterator[LocalFile]:
    found = path.lstat()
    mode = stat.S_IMODE(found.st_mode) & 0o777
    if stat.S_ISREG(found.st_mode):
        yield LocalFile(name, path, False, found.st_size, mode)
    elif stat.S_ISDIR(found.st_mode):
        yield LocalFile(name, path, True, 0, mode)
        for below in sorted(os.listdir(path)):  # noqa: PTH208 - names are wanted
            try:
                below.encode()
            except UnicodeEncodeError as error:
                raise CannotCopy(f"{path} has a file whose name is not UTF-8") from error
            yield from _walk(path / below, f"{name}/{below}" if name else below)
    else:
        what = "a symbolic link" if stat.S_ISLNK(found.st_mode) else "a special file"
        raise CannotCopy(f"{path} is {what}")
