"""A file of the host: what it is, how large, its digest, and the beginning of its content."""

from __future__ import annotations

import base64
import hashlib
import os
import stat
from contextlib import contextmanager
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

CONTENT = 256 << 10
"""Bytes of a file that are told."""
WHOLE = 16 << 20
"""Bytes of all files together that are told as a whole."""
_HASHED = 1 << 30
_LINKS = 40
_BLOCK = 1 << 20


def whole(root: str, paths: Iterable[str]) -> list[dict[str, Any]]:
    """As `look`, with all that is in the files; what is too much of it is an `error`.

    `size` is what was read, and nothing is hashed: a file may grow while it is
    read, and those of /proc have no size before.
    """
    found, left = [], WHOLE
    for path in paths:
        told = _looked(root, path, partial(_whole, left))
        left -= told["size"] if told["kind"] == "file" and not told["error"] else 0
        found.append(told)
    return found


def look(root: str, path: str) -> dict[str, Any]:
    """`kind` is `file`, `directory`, `other`, or None if there is nothing; `error` says why else.

    Nothing but regular files is opened: a pipe would wait for its other end.
    """
    return _looked(root, path, _beginning)


def _looked(root: str, path: str, content: Callable[[int, int], dict[str, Any]]) -> dict[str, Any]:
    """`content` is given the file and its size, and tells the rest."""
    told: dict[str, Any] = {"kind": None, "size": 0, "sha256": None, "content": "", "error": ""}
    try:
        with reached(root, path) as place:
            found = os.fstat(place)
            told["size"] = found.st_size
            if not stat.S_ISREG(found.st_mode):
                told["kind"] = "directory" if stat.S_ISDIR(found.st_mode) else "other"
                return told
            told["kind"] = "file"
            with opened(place) as file:
                told |= content(file, found.st_size)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        told["error"] = os.strerror(error.errno or 0)
    return told


def _whole(left: int, file: int, size: int) -> dict[str, Any]:
    allowed = f"and all together may have {WHOLE}"
    if size > left:
        return {"error": f"it has {size} bytes, {allowed}"}
    content = b"".join(blocks(file, left + 1))
    if len(content) > left:
        return {"error": f"it has at least {len(content)} bytes, {allowed}"}
    return {"size": len(content), "content": base64.b64encode(content).decode("ascii")}


def _beginning(file: int, size: int) -> dict[str, Any]:
    digest = hashlib.sha256()
    head = b"".join(blocks(file, CONTENT))
    digest.update(head)
    if size <= _HASHED:
        for block in blocks(file):
            digest.update(block)
    return {
        "sha256": digest.hexdigest() if size <= _HASHED else None,
        "content": base64.b64encode(head).decode("ascii"),
    }


def blocks(file: int, most: int | None = None) -> Iterator[bytes]:
    """What is in an open file from where it was read to, up to `most` bytes of it."""
    while block := os.read(file, _BLOCK if most is None else min(_BLOCK, most)):
        yield block
        if most is not None:
            most -= len(block)


@contextmanager
def reached(root: str, path: str) -> Iterator[int]:
    """The file that the host means, found and not opened.

    What is a link by now was none when it was looked at, and leads where the
    host does not mean: it is not followed.
    """
    names = within(root, path)
    here = os.open(root, os.O_PATH)
    try:
        for name in names:
            directory = here
            here = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=directory)
            os.close(directory)
        yield here
    finally:
        os.close(here)


@contextmanager
def opened(place: int) -> Iterator[int]:
    """What was reached, to be read. One that has nothing at the moment is not waited for."""
    file = os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield file
    finally:
        os.close(file)


def within(root: str, path: str) -> list[str]:
    """The names that lead there from the root: a link leads to where it does in the host."""
    left = list(reversed(PurePosixPath(path).parts[1:]))
    done: list[str] = []
    links = 0
    while left:
        part = left.pop()
        if part == "..":
            done = done[:-1]
            continue
        here = os.path.join(root, *done, part)  # noqa: PTH118 - plain text, nothing resolved
        if not os.path.islink(here):  # noqa: PTH114
            done.append(part)
            continue
        links += 1
        if links > _LINKS:
            raise OSError(40, "too many links")
        target = PurePosixPath(os.readlink(here))  # noqa: PTH115
        if target.is_absolute():
            done = []
        left += reversed([name for name in target.parts if name != "/"])
    return done
