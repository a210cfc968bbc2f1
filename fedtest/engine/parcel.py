"""What is put into a host, the same for every engine: files with content, mode and owner."""

from __future__ import annotations

import tarfile
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from typing import IO, TYPE_CHECKING

from fedtest.errors import InvalidError
from fedtest.local_files import CannotCopy, LocalFile, content_of, files_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from fedtest.plan_provisions import FilePlan

_IN_MEMORY = 8 << 20


@dataclass(frozen=True, slots=True)
class Entry:
    """One file or directory of a host. `owner` as in the plan: `user` or `user:group`."""

    path: str
    directory: bool
    mode: int
    owner: str
    source: bytes | LocalFile

    def content(self) -> bytes:
        """What is in it. InvalidError if it cannot be read."""
        if isinstance(self.source, bytes):
            return self.source
        try:
            return content_of(self.source)
        except CannotCopy as error:
            raise _refused(self.path, error) from error

    @property
    def digest(self) -> str | None:
        """SHA-256 of a file's content."""
        return None if self.directory else sha256(self.content()).hexdigest()


def entries(files: Iterable[FilePlan]) -> list[Entry]:
    """Everything that is put into a host. InvalidError."""
    return [entry for plan in files for entry in _entries(plan)]


def _entries(plan: FilePlan) -> list[Entry]:
    mode = None if plan.mode is None else int(plan.mode, 8)
    if plan.source is None:
        content = (plan.content or "").encode()
        return [Entry(plan.path, False, mode or 0, plan.owner, content)]
    try:
        found = files_at(plan.source)
    except CannotCopy as error:
        raise _refused(plan.path, error) from error
    return [
        Entry(
            path=f"{plan.path}/{item.name}" if item.name else plan.path,
            directory=item.directory,
            mode=item.mode if mode is None or item.directory else mode,
            owner=plan.owner,
            source=item,
        )
        for item in found
    ]


@contextmanager
def archive(items: Iterable[Entry], ids: Callable[[str], tuple[int, int]]) -> Iterator[IO[bytes]]:
    """A tar file to be unpacked at a host's root. `ids`: an owner's numbers of user and group."""
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            for item in items:
                header = tarfile.TarInfo(item.path.removeprefix("/"))
                header.mode = item.mode
                header.uid, header.gid = ids(item.owner)
                if item.directory:
                    header.type = tarfile.DIRTYPE
                    tar.addfile(header)
                else:
                    content = item.content()
                    header.size = len(content)
                    tar.addfile(header, BytesIO(content))
        file.seek(0)
        yield file


def owner_ids(owner: str, passwd: str, group: str) -> tuple[int, int]:
    """The numbers of `user` or `user:group`, by a host's own lists. LookupError with the name."""
    user, _, its_group = owner.partition(":")
    users = [line.split(":") for line in passwd.splitlines() if line.count(":") >= 3]
    known = next((item for item in users if user in (item[0], item[2])), None)
    if known is None and not user.isdigit():
        raise LookupError(f"no user is called {user}")
    uid = int(known[2]) if known else int(user)
    if not its_group:
        return uid, int(known[3]) if known else uid
    if its_group.isdigit():
        return uid, int(its_group)
    groups = [line.split(":") for line in group.splitlines() if line.count(":") >= 2]
    found = next((item[2] for item in groups if item[0] == its_group), None)
    if found is None:
        raise LookupError(f"no group is called {its_group}")
    return uid, int(found)


def _refused(path: str, error: CannotCopy) -> InvalidError:
    return InvalidError(
        f"files: {path}: {error}",
        remedy="Regular files and directories can be copied; `mounts` shows a directory as it is.",
    )
