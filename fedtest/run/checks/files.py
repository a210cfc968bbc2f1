"""`files`: a file of each host, looked at from beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.run.checks.finding import Finding, by_host
from fedtest.run.checks.traffic import hosts_of, size
from fedtest.scenario.patterns import compiled

if TYPE_CHECKING:
    from fedtest.engine.examine import FileFacts
    from fedtest.run.evidence import Evidence
    from fedtest.scenario.checks.files import FilesCheck

_SHOWN = 10


def check_files(check: FilesCheck, evidence: Evidence) -> Finding:
    """Passes when the file is on each host as it should be."""
    found: dict[str, str] = {}
    details: list[str] = []
    passed = True
    for host in hosts_of(check, evidence):
        facts = evidence.examined[host].files[check.path]
        found[host] = _told(facts)
        wrong = _wrong(check, facts)
        passed &= not wrong
        details += [f"{host}: {line}" for line in wrong]
        if wrong and facts.content and check.match is not None:
            lines = facts.content[:2000].decode("utf-8", "replace").splitlines()
            details += ["its beginning:", *(f"    {line}" for line in lines[:_SHOWN])]
    return Finding(passed and bool(found), _expected(check), by_host(found), details)


def _expected(check: FilesCheck) -> str:
    if not check.exists:
        return f"there is no file {check.path}"
    parts = []
    if check.min is not None:
        parts.append(f"at least {size(check.min)}")
    if check.max is not None:
        parts.append(f"at most {size(check.max)}")
    if check.match is not None:
        parts.append(f"matches {check.match!r}")
    if check.sha256 is not None:
        parts.append(f"SHA-256 {check.sha256[:12]}...")
    return f"there is a file {check.path}{': ' if parts else ''}{', '.join(parts)}"


def _told(facts: FileFacts) -> str:
    if facts.error:
        return facts.error
    if facts.kind == "file":
        return size(facts.size)
    return {None: "nothing", "directory": "a directory"}.get(facts.kind, "no regular file")


def _wrong(check: FilesCheck, facts: FileFacts) -> list[str]:
    if facts.error:
        return [f"it could not be looked at: {facts.error}"]
    there = facts.kind == "file"
    if not there or not check.exists:
        return [] if there == check.exists else [f"found {_told(facts)}"]
    wrong = []
    if check.min is not None and facts.size < check.min:
        wrong.append(f"it has {facts.size} bytes, fewer than {check.min}")
    if check.max is not None and facts.size > check.max:
        wrong.append(f"it has {facts.size} bytes, more than {check.max}")
    if check.sha256 is not None and facts.sha256 != check.sha256:
        wrong.append(f"its SHA-256 is {facts.sha256 or 'not known, because it is so large'}")
    text = facts.content.decode("utf-8", "replace")
    if check.match is not None and compiled(check.match).search(text) is None:
        searched = f"the first {size(len(facts.content))} of " if len(text) < facts.size else ""
        wrong.append(f"nothing in {searched}it matches")
    return wrong
