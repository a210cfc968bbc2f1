"""A file of the host: what it is, how large, its digest, and the beginning of its content."""

from __future__ import annotations

import base64
import hashlib
import os
import stat
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

CONTENT = 256 << 10
"""Bytes of a file that are told."""
WHOLE = 16 << 20
"""Bytes of all files together that are told as a whole."""
_HASHED = 1 << 30
_LINKS = 40
_BLOCK = 1 << 20


def whole(root: str, paths: Iterable[str]) -> list[dict[str, Any]]:
    """As `look`, with all that is in the files; what is too much of it is an `error`."""
    found, left = [], WHOLE
    for path in paths:
        told = look(root, path, left)
        if told["kind"] == "file" and not told["error"]:
            if told["size"] > left:
                told |= {
                    "content": "",
                    "error": f"it has {told['size']} bytes, and all together may have {WHOLE}",
                }
            else:
                left -= told["size"]
        found.append(told)
    return found


def look(root: str, path: str, most: int = CONTENT) -> dict[str, Any]:
    """`kind` is `file`, `directory`, `other`, or None if there is nothing; `error` says why else.

    Nothing but regular files is opened: a pipe would wait for its other end.
    """
    told: dict[str, Any] = {"kind": None, "size": 0, "sha256": None, "content": "", "error": ""}
    try:
        real = within(root, path)
        found = os.lstat(real)
        told["size"] = found.st_size
        if not stat.S_ISREG(found.st_mode):
            told["kind"] = "directory" if stat.S_ISDIR(found.st_mode) else "other"
            return told
        told["kind"] = "file"
        told |= _content(real, found.st_size, most)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        told["error"] = os.strerror(error.errno or 0)
    return told


def _content(real: str, size: int, most: int) -> dict[str, Any]:
    digest = hashlib.sha256()
    with open(real, "rb", opener=open_plainly) as file:
        head = file.read(most)
        digest.update(head)
        while size <= _HASHED and (block := file.read(_BLOCK)):
            digest.update(block)
    return {
        "sha256": digest.hexdigest() if size <= _HASHED else None,
        "content": base64.b64encode(head).decode("ascii"),
    }


def open_plainly(path: str, flags: int) -> int:
    """Opens no link, and does not wait for the other end of a pipe."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def within(root: str, path: str) -> str:
    """The file that the host means: a link leads to where it does in the host, not here."""
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
    return os.path.join(root, *done)  # noqa: PTH118
