"""A Python environment as hosts run it: what it has, and what of the machine it is made of."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import site
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fedtest
from fedtest import cache as user_cache
from fedtest.errors import PythonError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

OLDEST = (3, 11)
MODULES = ("torch", "torchvision")
VARIABLE = "FEDTEST_PYTHON"
_ANSWER = 60.0
_PACKAGE = Path(fedtest.__file__).resolve().parent
_OURS = "/fedtest/__init__.py"
_INSTALLED = {"site-packages", "dist-packages"}

# Any Python is to understand it, so as to tell how old it is.
_TELL = """
import sys
told = {"version": list(sys.version_info[:3])}
if sys.version_info >= (3, 11):
    import os
    from importlib import metadata, util
    specs = [util.find_spec(name) for name in ("torch", "torchvision")]
    told["modules"] = {item.name: item.origin for item in specs if item and item.origin}
    told["prefixes"] = [sys.prefix, sys.base_prefix, sys.exec_prefix]
    told["library"] = os.__file__
    told["path"] = [item for item in sys.path if item.startswith("/")]
    told["versions"] = {
        item.metadata["Name"]: item.version for item in metadata.distributions()
        if item.metadata["Name"]
    }
import json
print("")
print(json.dumps(told))
"""


@dataclass(frozen=True, slots=True)
class NodePython:
    """An interpreter and its packages.

    `directory` has it under the names `python` and `python3`, and goes first in
    PATH. `prefix`: its virtual environment, or empty. `path`: further entries of
    PYTHONPATH. `shown`: what of the machine a host must see. `files`: what a
    process must be able to read, first of all the interpreter itself. `modules`:
    which of torch and torchvision it has. `versions`: of all its packages.
    """

    executable: str
    directory: str
    prefix: str
    path: tuple[str, ...]
    shown: tuple[str, ...]
    files: tuple[str, ...]
    modules: frozenset[str]
    versions: Mapping[str, str] = field(hash=False)

    @property
    def own(self) -> bool:
        """Whether it is the one that runs fedtest."""
        return self.executable == sys.executable

    def text(self) -> str:
        """As JSON."""
        names = self.__slots__
        told = {name: getattr(self, name) for name in names}
        return json.dumps({**told, "modules": sorted(self.modules)}, indent=1)


def from_text(text: str) -> NodePython:
    """From what `text` gave. ValueError, TypeError, LookupError."""
    told: dict[str, Any] = json.loads(text)
    for name in ("path", "shown", "files"):
        told[name] = tuple(told[name])
    return NodePython(**{**told, "modules": frozenset(told["modules"])})


@cache
def own() -> NodePython:
    """The environment that fedtest itself is installed in."""
    # `-m` puts the working directory first; only what was asked for counts.
    asked = [item for item in os.environ.get("PYTHONPATH", "").split(os.pathsep) if item]
    paths = [item for item in sys.path if item and (item != os.getcwd() or item in asked)]
    specs = {name: _spec(name) for name in MODULES}
    modules = {name: origin for name, origin in specs.items() if origin}
    further = [] if _PACKAGE.parent.name in _INSTALLED else [str(_PACKAGE.parent)]
    # The user's own packages are found by HOME, which is another one in a host.
    with suppress(AttributeError):
        if (users := site.getusersitepackages()) in paths:
            further.append(users)
    return _made(
        sys.executable,
        {
            "prefixes": [sys.prefix, sys.base_prefix, sys.exec_prefix],
            "library": os.__file__,
            "path": [*paths, *asked, *further],
            "modules": modules,
        },
        tuple(further),
        versions(),
    )


def of(executable: str) -> NodePython:
    """What the interpreter at this path, or of this name in PATH, tells of itself. PythonError."""
    found = shutil.which(executable)
    if found is None:
        what = "is no program" if os.path.exists(executable) else "is not there"
        raise PythonError(
            f"the Python for hosts, {executable}, {what}",
            remedy=f"Name an interpreter by --python or {VARIABLE}, or leave both out.",
        )
    path = os.path.abspath(found)
    if path == sys.executable:
        return own()
    told = _told(path)
    version = ".".join(map(str, told["version"]))
    if tuple(told["version"]) < OLDEST:
        raise PythonError(
            f"{path} is Python {version}; hosts need {'.'.join(map(str, OLDEST))} or later",
            remedy=f"Name another by --python or {VARIABLE}, or leave both out.",
        )
    return _made(
        path, told, (_side(),), {"python": version, **dict(sorted(told["versions"].items()))}
    )


def _told(path: str) -> dict[str, Any]:
    """Without the user's own packages: a host's user has another home."""
    try:
        done = subprocess.run(
            [path, "-s", "-c", _TELL],
            cwd="/", capture_output=True, text=True, errors="replace", timeout=_ANSWER, check=False,
        )  # fmt: skip
        told: dict[str, Any] = json.loads(done.stdout.strip().rpartition("\n")[2])
        list(told["version"])
    except subprocess.TimeoutExpired as error:
        raise PythonError(f"{path} did not tell of itself within {_ANSWER:g} s") from error
    except OSError as error:
        raise PythonError(f"{path} cannot be run: {error.strerror}") from error
    except (ValueError, TypeError, LookupError) as error:
        last = (done.stderr.strip() or done.stdout.strip()).rpartition("\n")[2][:300]
        raise PythonError(
            f"{path} is no Python interpreter: asked for its version it says: "
            f"{last or f'nothing (status {done.returncode})'}"
        ) from error
    return told


def _made(
    executable: str, told: Mapping[str, Any], path: tuple[str, ...], every: Mapping[str, str]
) -> NodePython:
    real = os.path.realpath(executable)
    directory = _directory(executable)
    shown = {
        *told["prefixes"], *told["path"], *path, directory, os.path.dirname(executable),
        os.path.dirname(real), str(_PACKAGE), *_own_prefixes(),
    }  # fmt: skip
    prefix = told["prefixes"][0]
    return NodePython(
        executable=executable,
        directory=directory,
        prefix=prefix if prefix != told["prefixes"][1] else "",
        path=path,
        shown=tuple(sorted(item for item in shown if os.path.isabs(item) and item != "/")),
        files=(
            real, told["library"], str(_PACKAGE / "__init__.py"), *told["modules"].values()
        ),
        modules=frozenset(told["modules"]),
        versions=every,
    )  # fmt: skip


def _own_prefixes() -> list[str]:
    """Who looks into a host does so with the interpreter that runs fedtest."""
    asked = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    paths = [item for item in sys.path if item and item != os.getcwd()]
    return [sys.prefix, sys.base_prefix, sys.exec_prefix, *paths, *filter(None, asked)]


def _spec(name: str) -> str | None:
    """The file of a package that is installed; a directory of that name is none."""
    with suppress(ImportError, ValueError):
        found = importlib.util.find_spec(name)
        return found.origin if found and found.origin else None
    return None


def _directory(executable: str) -> str:
    """A directory where the interpreter is called `python`: its own, or one of links to it."""
    beside = os.path.dirname(executable)
    with suppress(OSError):
        if os.path.samefile(f"{beside}/python", executable):
            return beside
    return _links(f"bin-{_name(executable)}", {"python": executable, "python3": executable})


def _side() -> str:
    """A directory that has the package fedtest, and nothing of what is installed beside it."""
    return _links(f"side-{_name(str(_PACKAGE))}", {"fedtest": str(_PACKAGE)})


def _links(name: str, links: Mapping[str, str]) -> str:
    """A directory in the cache with these links, and no others."""
    place = user_cache.directory() / "node" / name
    try:
        place.mkdir(mode=0o755, parents=True, exist_ok=True)
        for link, target in links.items():
            if not os.path.lexists(place / link):
                new = place / f".{link}.{os.getpid()}"
                new.symlink_to(target)
                new.replace(place / link)
    except OSError as error:
        raise PythonError(
            f"no place for links to Python: {error}",
            remedy="Set XDG_CACHE_HOME to a directory that can be written.",
        ) from error
    return str(place)


def _name(path: str) -> str:
    return hashlib.sha256(path.encode()).hexdigest()[:12]


def versions() -> Mapping[str, str]:
    """Of Python and of every package in this environment."""
    found = dict(filter(None, map(_name_and_version, metadata.distributions())))
    return {"python": sys.version.split()[0], **dict(sorted(found.items()))}


def _name_and_version(item: metadata.Distribution) -> tuple[str, str] | None:
    """From the head of what it says of itself: to take apart all of it takes 2 ms a package."""
    # Where these are is the format's, and what stands last is a file by itself.
    text = next(filter(None, map(item.read_text, ("METADATA", "PKG-INFO", ""))), "")
    head = text.partition("\n\n")[0]
    said = dict(line.partition(": ")[::2] for line in head.splitlines() if line[:1] in ("N", "V"))
    return (said["Name"], said["Version"]) if {"Name", "Version"} <= said.keys() else None


def with_place(python: NodePython) -> NodePython:
    """With this fedtest's own side, whichever fedtest it was that wrote it down."""
    own_side = _side()
    shown = sorted({*python.shown, own_side, str(_PACKAGE), *_own_prefixes()})
    files = [file for file in python.files if not file.endswith(_OURS)]
    return replace(
        python, path=(own_side,), shown=tuple(shown), files=(*files, str(_PACKAGE / "__init__.py"))
    )


def unreachable(python: NodePython) -> str | None:
    """A file of it that a host's plain user cannot read, or None.

    A directory that is closed is opened by the host's own tree, from one that
    is shown downwards; not so one within what is open.
    """
    for number, file in enumerate(python.files):
        try:
            mode = os.stat(file).st_mode
        except OSError:
            return file
        wanted = 0o005 if number == 0 else 0o004
        if mode & wanted != wanted:
            return file
        if (inner := _closed_within(file, python.shown)) is not None:
            return inner
    return None


def _closed_within(file: str, shown: Collection[str]) -> str | None:
    """The first directory on the way there that stays closed."""
    tops = [top for top in shown if file.startswith(f"{top}/")]
    top = min(tops, key=len, default="/")
    opened = top != "/"
    for directory in [item for item in reversed(Path(file).parents) if item.is_relative_to(top)]:
        closed = not directory.stat().st_mode & 0o001
        if closed and not opened:
            return str(directory)
        opened = opened and closed
    return None
