"""What is put into hosts must have places of its own there."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from fedtest.scenario.problems import Finding, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fedtest.scenario.draft import Draft
    from fedtest.scenario.hosts import Host
    from fedtest.scenario.problems import Loc


def findings(draft: Draft) -> Iterator[Finding]:
    """What is wrong with the places."""
    said: set[tuple[Loc, str]] = set()
    for name, host in draft.hosts.items():
        for finding in _host(draft, name, host) if host else ():
            # What all hosts are given is the same mistake on each.
            if (finding.loc, finding.message) not in said:
                said.add((finding.loc, finding.message))
                yield finding


def _host(draft: Draft, name: str, host: Host) -> Iterator[Finding]:
    own: Loc = ("hosts", name)
    directories: dict[str, tuple[str, Loc]] = {
        path: ("a mount", ("mounts", path)) for path in draft.mounts
    }
    directories |= {path: ("a mount", (*own, "mounts", path)) for path in host.mounts}
    for key, path in draft.data.directories().items() if draft.data else ():
        yield from _beside(directories, ("data", key), path)
        directories[path] = ("a data set", ("data", key))
    for path in host.tmpfs:
        yield from _beside(directories, (*own, "tmpfs", path), path)
        directories[path] = ("a tmpfs", (*own, "tmpfs", path))
    for path, (_, loc) in directories.items():
        others = {other: what for other, what in directories.items() if other != path}
        if loc[-2] == "mounts" and (other := _around(others, path)):
            yield _within(loc, path, others[other][0], other)
    files: dict[str, Loc] = {path: ("files", path) for path in draft.files}
    files |= {path: (*own, "files", path) for path in host.files}
    parts = {**draft.files, **host.files}
    plain = {path: None for path, part in parts.items() if part and part.content is not None}
    for path, loc in files.items():
        if other := _around(directories, path):
            yield _within(loc, path, directories[other][0], other)
        elif other := _around(dict.fromkeys(plain.keys() - {path}), path):
            yield _within(loc, path, "a file", other)


def _beside(directories: dict[str, tuple[str, Loc]], loc: Loc, path: str) -> Iterator[Finding]:
    if other := _around(directories, path):
        yield _within(loc, path, directories[other][0], other)


def _around(places: dict[str, tuple[str, Loc]] | dict[str, None], path: str) -> str | None:
    """The place that a path is, or lies in."""
    here = PurePosixPath(path)
    return next((str(item) for item in (here, *here.parents) if str(item) in places), None)


def _within(loc: Loc, path: str, what: str, other: str) -> Finding:
    where = "is" if path == other else "lies in"
    return Finding(loc, f"the path {where} {what}, {other}", found=shown(path),
                   allowed="a place of its own", at_key=True)  # fmt: skip
