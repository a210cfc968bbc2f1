"""What a run leaves: a directory, written as the run goes, so that a failure loses nothing."""

from __future__ import annotations

import json
import math
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from fedtest.errors import InvalidError, UsageError
from fedtest.run.secrets import Secrets

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from fedtest.engine.base import ProcessKey
    from fedtest.engine.snapshot import Snapshot

_NAMED = 60
"""Characters of a name that leave room for more: 255 bytes are the most."""
_SAYABLE = frozenset((str, int, bool, type(None)))


class RunDirectory:
    """`<runs>/<time>-<scenario>-<id>/`, and `<runs>/latest` pointing at the newest."""

    def __init__(self, runs: Path, scenario: str, run_id: str, now: datetime) -> None:
        name = f"{now:%Y%m%d-%H%M%S}-{scenario}-{run_id}"
        self.path = runs / name
        try:
            runs = runs.absolute()  # Fails where the current directory is gone.
            self.path = runs / name
            (self.path / "logs").mkdir(parents=True)
            (self.path / "hosts").mkdir()
            _point(runs / "latest", name)
        except OSError as error:
            raise UsageError(
                f"cannot write the run's directory {self.path}: {error.strerror}",
                remedy="Name another one by --runs DIR.",
            ) from error
        self.secrets = Secrets({})
        """What is not to be written."""

    def log(self, key: ProcessKey) -> Path:
        """Where a process's log goes."""
        return self.path / "logs" / f"{key.host}.{key.process}.log"

    def text(self, name: str, content: str) -> None:
        """Write a file, whole or not at all."""
        # A half of a surrogate pair can come from a process, and not go into UTF-8.
        self.binary(name, self.secrets.mask(content).encode("utf-8", "backslashreplace"))

    def binary(self, name: str, content: bytes) -> None:
        """The same of what is no text, or not ours."""
        path = self.path / name
        # Beside the run's own files: below them, it may be the name of a file that a host left.
        part = self.path / f".{path.name[:_NAMED]}.part"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(content)
            part.replace(path)
        except OSError as error:
            with suppress(OSError):
                part.unlink()
            raise InvalidError(f"cannot write {path}: {error.strerror}") from error

    def json(self, name: str, content: Any) -> None:
        """Write plain data or a dataclass as JSON."""
        self.text(name, _document(self.secrets.masked(plain(content))))

    def snapshot(self, moment: str, host: str, found: Snapshot) -> None:
        """Write what a host looked like, parsed and as it printed it."""
        content = plain(found)
        self.text(f"hosts/{host}.{moment}.txt", content.pop("text"))
        self.json(f"hosts/{host}.{moment}.json", content)


def to_json(content: Any) -> str:
    """Plain data or a dataclass as a JSON document."""
    return _document(plain(content))


def _document(said: Any) -> str:
    return json.dumps(said, allow_nan=False, indent=2) + "\n"


def plain(value: Any) -> Any:
    """What JSON can say, of anything. It has no NaN and no infinity: they become strings."""
    # Most of what there is, and asked for first: hosts have thousands of such values.
    if type(value) in _SAYABLE:
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, (dict, Mapping)):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    sayable = isinstance(value, (str, int)) or (isinstance(value, float) and math.isfinite(value))
    return value if sayable else str(value)


def _point(link: Path, name: str) -> None:
    """Runs may start side by side: each link is whole, the last one stays."""
    part = link.with_name(f".latest-{secrets.token_hex(4)}")
    os.symlink(name, part)  # noqa: PTH211 - relative to the link, so no Path
    part.replace(link)
