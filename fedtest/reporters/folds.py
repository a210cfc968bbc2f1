"""Parts of the output that a CI system folds: a group of GitHub, a section of GitLab.

Forms: GitHub's workflow commands (`::group::`), GitLab's custom collapsible sections.
"""

from __future__ import annotations

import re
import secrets
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_NO_NAME = re.compile(r"[^a-z0-9_.-]+")


class Folds:
    """No folding: a part begins with its name, and its end says nothing of its own."""

    def begin(self) -> str:
        """Return what comes before all other output."""
        return ""

    def open(self, name: str) -> str:
        """Return the line or lines that begin the part `name`; parts are not nested."""
        return f"{name} ...\n"

    def close(self) -> str:
        """Return what ends the part that is open."""
        return ""

    def end(self) -> str:
        """Return what comes after all other output."""
        return ""


class GitHubGroups(Folds):
    """GitHub obeys commands in all that a step prints, so whatever hosts print would be obeyed.

    That is stopped but for our own groups, by a token that no host can know.
    """

    def __init__(self) -> None:
        self._token = secrets.token_hex(16)

    def begin(self) -> str:
        return f"::stop-commands::{self._token}\n"

    def open(self, name: str) -> str:
        return f"::{self._token}::\n::group::{name}\n{self.begin()}"

    def close(self) -> str:
        return f"::{self._token}::\n::endgroup::\n{self.begin()}"

    def end(self) -> str:
        return f"::{self._token}::\n"


class GitLabSections(Folds):
    """Named by a number drawn at random and the part: a job may print several runs, and no name
    may come twice.

    No host can open or close a section: what it prints is shown without control characters.
    """

    def __init__(self) -> None:
        self._prefix = f"fedtest_{secrets.token_hex(4)}"
        self._name = ""

    def open(self, name: str) -> str:
        self._name = f"{self._prefix}_{_NO_NAME.sub('_', name.lower())}"
        return f"{self._mark('start')}[collapsed=true]\r\x1b[0K{name} ...\n"

    def close(self) -> str:
        return f"{self._mark('end')}\r\x1b[0K\n"

    def _mark(self, which: str) -> str:
        return f"\x1b[0Ksection_{which}:{int(time.time())}:{self._name}"


def folds(env: Mapping[str, str]) -> Folds:
    """Return how the CI system whose variables are in `env` folds; no folding if there is none."""
    if env.get("GITHUB_ACTIONS") == "true":
        return GitHubGroups()
    if env.get("GITLAB_CI") == "true":
        return GitLabSections()
    return Folds()
