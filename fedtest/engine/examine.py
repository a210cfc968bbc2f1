"""What may be asked of a host from beside it, and the answer; the same for every engine.

An engine has only to run `python -m fedtest.probe` with `request` in the
host's network and among its processes; `parse` reads what that prints.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from fedtest.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

MODULE = "fedtest.probe"
CONNECTED = "connected"


class Target(NamedTuple):
    """Where a connection is tried to, and for how many seconds."""

    address: str
    port: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Examination:
    """Files to look at, connections to try, and whether to tell what processes do.

    `facts`: paths of which only the facts are wanted, and nothing of what is in them.
    `whole`: files of which all is wanted, up to what the probe brings.
    """

    files: tuple[str, ...] = ()
    reach: tuple[Target, ...] = ()
    stacks: bool = False
    facts: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A path in a host. `kind`: `file`, `directory`, `other` or None if nothing is there.

    `content` is its beginning, or all of it; `error` says why it could not be looked at.
    """

    kind: str | None
    size: int
    sha256: str | None
    content: bytes
    error: str


@dataclass(frozen=True, slots=True)
class PathFacts:
    """What a path in a host is. `kind` as in FileFacts.

    `device` and `inode` name it among all files under the kernel whose id is
    `boot`. `read_only` and `capacity` (bytes) are its file system's.
    """

    kind: str | None
    sha256: str | None
    mode: int
    uid: int
    gid: int
    device: int
    inode: int
    boot: str
    read_only: bool
    capacity: int
    error: str


@dataclass(frozen=True, slots=True)
class Examined:
    """The answer: facts by path, and `connected` or the reason why not by target.

    `ports`: those that the connections were made from, which are nobody's of the host.
    """

    files: Mapping[str, FileFacts]
    reach: Mapping[Target, str]
    stacks: str
    ports: frozenset[int] = frozenset()
    facts: Mapping[str, PathFacts] = field(default_factory=dict)
    whole: Mapping[str, FileFacts] = field(default_factory=dict)


def request(wanted: Examination, root: str, sessions: Collection[int] | None = None) -> str:
    """The argument of the probe. `root`: where the host's files are, as the probe sees them."""
    return json.dumps(
        {
            "root": root,
            "files": wanted.files,
            "reach": wanted.reach,
            "stacks": wanted.stacks,
            "facts": wanted.facts,
            "whole": wanted.whole,
            "sessions": None if sessions is None else list(sessions),
        }
    )


def parse(host: str, wanted: Examination, text: str) -> Examined:
    """Read what the probe printed."""
    try:
        told = json.loads(text)
        return Examined(
            files=_files(wanted.files, told["files"]),
            reach={
                target: outcome
                for target, (outcome, _) in zip(wanted.reach, told["reach"], strict=True)
            },
            stacks=told["stacks"],
            ports=frozenset(port for _, port in told["reach"] if port),
            facts={
                path: PathFacts(**item)
                for path, item in zip(wanted.facts, told["facts"], strict=True)
            },
            whole=_files(wanted.whole, told["whole"]),
        )
    except (LookupError, TypeError, ValueError) as error:
        raise EngineError(
            f"looking at host {host} from beside it: it said: {text[-500:]}"
        ) from error


def _files(paths: Sequence[str], told: Sequence[Mapping[str, Any]]) -> dict[str, FileFacts]:
    return {
        path: FileFacts(**{**facts, "content": base64.b64decode(facts["content"])})
        for path, facts in zip(paths, told, strict=True)
    }
