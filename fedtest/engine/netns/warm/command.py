"""Which commands can start warm: `python [-u] -m MODULE ...` and `python [-u] FILE ...`.

Given as a list, or as a string for `/bin/sh -c` that is no more than plain words
and quotes, maybe with `VAR=value` before or `exec`. What a shell would have to
work on starts cold, as does every other way of calling Python.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SHELLS = ("/bin/sh", "sh")
_PYTHON = re.compile(r"python(3(\.[0-9]+)?)?")
_PIECE = r"""[A-Za-z0-9_@%+=:,./-]+|'[^']*'|"[^"$`\\]*\""""
_WORD = re.compile(rf"(?:{_PIECE})+")
_QUOTED = re.compile(r"""'([^']*)'|"([^"]*)\"""")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?==)")


@dataclass(frozen=True, slots=True)
class Cold:
    """A command that cannot start warm, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class PythonCommand:
    """A command that can: either `module` or `file` is given.

    `argv` is as it would be executed; `env` is the whole environment, with what
    stood before the command; `shell`: a shell would have set PWD.
    """

    interpreter: str
    argv: tuple[str, ...]
    module: str | None
    file: str | None
    args: tuple[str, ...]
    env: Mapping[str, str]
    shell: bool

    @property
    def unbuffered(self) -> bool:
        """Whether standard output and errors are, by option or environment."""
        options = self.argv[1 : len(self.argv) - len(self.args) - 1]
        return "-u" in options or bool(self.env.get("PYTHONUNBUFFERED"))


def recognise(argv: Sequence[str], env: Mapping[str, str], cwd: str) -> PythonCommand | Cold:
    """What the command is, run in directory `cwd` with the whole environment `env`."""
    if len(argv) == 3 and argv[0] in _SHELLS and argv[1] == "-c":
        words = _words(argv[2])
        if words is None:
            return Cold("the shell has more to do than to start one command")
        raw, plain = words
        assigned = {}
        while raw and (match := _ASSIGNMENT.match(raw[0])):
            assigned[match[0]] = plain[0][match.end() + 1 :]
            raw, plain = raw[1:], plain[1:]
        if plain[:1] == ["exec"]:
            if assigned:
                return Cold("an assignment before `exec` means different things to shells")
            plain = plain[1:]
        if "PATH" in assigned:
            return Cold("it sets PATH, which may find another interpreter")
        return _python(plain, {**env, **assigned}, cwd, by_shell=True)
    return _python(argv, env, cwd, by_shell=False)


def _words(text: str) -> tuple[list[str], list[str]] | None:
    """The words as written and without quotes; None where there is more than words."""
    raw = []
    position, text = 0, text.strip(" \t\n")
    while position < len(text):
        match = _WORD.match(text, position)
        if match is None:
            return None
        raw.append(match[0])
        blank = re.compile(r"[ \t]+|$").match(text, match.end())
        if blank is None:
            return None
        position = blank.end()
    return raw, [_QUOTED.sub(lambda found: found[1] or found[2] or "", word) for word in raw]


def _python(
    argv: Sequence[str], env: Mapping[str, str], cwd: str, *, by_shell: bool
) -> PythonCommand | Cold:
    if not argv or not _PYTHON.fullmatch(PurePosixPath(argv[0]).name):
        return Cold("it is no Python interpreter that is called")
    interpreter = _find(argv[0], env, cwd)
    if interpreter is None:
        return Cold(f"there is no {argv[0]} in PATH")
    first = 1
    while argv[first : first + 1] == ["-u"] or argv[first : first + 1] == ("-u",):
        first += 1
    if len(argv) == first or argv[first] == "-":
        return Cold("the program comes from standard input")
    what, module = argv[first], None
    if what == "-m" and len(argv) > first + 1:
        first += 1
        module = argv[first]
    elif what == "-c":
        return Cold("the program is in the command (`-c`); only `-m MODULE` and FILE start warm")
    elif what.startswith("-"):
        return Cold(f"the interpreter's option {what} acts at start-up")
    return PythonCommand(
        interpreter=interpreter,
        argv=tuple(argv),
        module=module,
        file=None if module is not None else what,
        args=tuple(argv[first + 1 :]),
        env=dict(env),
        shell=by_shell,
    )


def _find(word: str, env: Mapping[str, str], cwd: str) -> str | None:
    """The interpreter's path, links not followed: a virtual environment's is a link."""
    if "/" in word:
        return str(PurePosixPath(cwd, word))
    found = shutil.which(word, path=env.get("PATH", ""))
    return found if found is not None and found.startswith("/") else None
