"""MNIST, provisioned once into the user's cache.

The four raw files lie as torchvision reads them: `root()` is what
`torchvision.datasets.MNIST(root, download=False)` is given. A file is put into
its place by a rename, after its checksum was found right; so what is there
under its name is whole, unless somebody damaged it, and that is looked at too.
"""

from __future__ import annotations

import hashlib
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fedtest import cache
from fedtest.data import sources
from fedtest.errors import DataError
from fedtest.locks import lock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MD5 = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
"""The four files and their checksums: against damage, not against malice."""

DIGEST = hashlib.sha256(repr(sorted(MD5.items())).encode()).hexdigest()[:12]
"""Names the content of the data set."""

PATIENCE = 900.0
"""Seconds to wait for another process that fetches."""


@dataclass(frozen=True, slots=True)
class Provisioned:
    """Where the data set lies, and where it came from (None: it was there already)."""

    root: Path
    source: str | None


def root() -> Path:
    """The data set's directory in the user's cache, there or not."""
    return cache.directory() / "mnist"


def raw(directory: Path) -> Path:
    """Where the four files are below the data set's directory."""
    return directory / "MNIST" / "raw"


def missing(directory: Path) -> list[str]:
    """The files that are not whole in the data set's `directory`."""
    return [name for name in MD5 if _md5(raw(directory) / name) != MD5[name]]


def provision(
    progress: Callable[[str], None],
    *,
    directory: Path | None = None,
    fetchers: Sequence[sources.Source] | None = None,
) -> Provisioned:
    """Have MNIST in `directory` (the user's cache), from the first source that has it.

    DataError when none has, with what each said and where to put the files.
    """
    target = directory or root()
    fetchers = sources.default() if fetchers is None else fetchers
    if not missing(target):
        return Provisioned(target, None)
    try:
        raw(target).mkdir(parents=True, exist_ok=True)
        # In the same file system, so that a rename puts a file into its place.
        with (
            lock("data-mnist", "fetching MNIST", PATIENCE, progress),
            tempfile.TemporaryDirectory(dir=target, prefix=".fetch-") as scratch,
        ):
            if not missing(target):
                return Provisioned(target, None)
            return Provisioned(target, _fetch(target, Path(scratch), fetchers, progress))
    except OSError as error:
        raise DataError(
            f"no place for MNIST in {target}: {error}",
            remedy="Set XDG_CACHE_HOME to a directory that can be written, with 60 MB free.",
        ) from error


def _fetch(
    target: Path,
    scratch: Path,
    fetchers: Sequence[sources.Source],
    progress: Callable[[str], None],
) -> str:
    """Try each source for what is still missing; the name of the one that completed it."""
    said = []
    for number, source in enumerate(fetchers):
        work = scratch / str(number)
        work.mkdir()
        wanted = missing(target)
        progress(f"fetching MNIST: {source.name}")
        try:
            source.fetch(wanted, work)
        except sources.SourceError as error:
            said.append(f"{source.name}: {error}")
        # Files that did come before a failure are as good as any.
        wrong = [name for name in wanted if not _accept(work / name, raw(target) / name)]
        if not wrong:
            return source.name
        came = [name for name in wrong if (work / name).exists()]
        if came:
            said.append(f"{source.name}: wrong checksum of {', '.join(came)}")
        elif not said or not said[-1].startswith(f"{source.name}: "):
            said.append(f"{source.name}: has no {', '.join(wrong)}")
        progress(said[-1])
    files = "\n".join(f"  {name}  (MD5 {MD5[name]})" for name in missing(target))
    tried = "\n".join(f"  {line}" for line in said) or "  nothing: there is no source"
    raise DataError(
        f"MNIST is not there and could not be fetched. Tried:\n{tried}",
        remedy=f"Put these files, unpacked, into {raw(target)}:\n{files}",
    )


def _accept(came: Path, place: Path) -> bool:
    """Move a file that came into its place, if it is what it should be."""
    if _md5(came) != MD5[place.name]:
        return False
    came.chmod(0o644)
    came.replace(place)
    return True


def _md5(path: Path) -> str | None:
    """The checksum of a file, or None if it cannot be read."""
    with suppress(OSError), path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    return None
