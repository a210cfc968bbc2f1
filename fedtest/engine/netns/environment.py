"""What a process of a host finds of its user's: the Python environment, and who it is."""

from __future__ import annotations

import grp
import os
import pwd
import sys
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import fedtest
from fedtest.engine.netns.tree import HOME
from fedtest.engine.netns.usable import PATH
from fedtest.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEPT = ("LANG", "LC_ALL", "LC_CTYPE", "TZ", "PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH")
_LIKE_THE_IMAGE = {
    # As in the node image, so that a scenario finds the same.
    "USE_LIBUV": "0",
    "PYTHONUNBUFFERED": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}
_PLAIN = (1000, 1000)


@cache
def needed() -> list[str]:
    """What of the machine a host must see for this Python environment to work in it."""
    package = Path(fedtest.__file__).resolve().parent
    found = {
        sys.prefix,
        sys.base_prefix,
        sys.exec_prefix,
        str(Path(sys.executable).parent),
        str(Path(sys.executable).resolve().parent),
        str(package),
        # `-m` puts the working directory first; only what was asked for counts.
        *(path for path in sys.path if path and path != os.getcwd()),
        *(path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path),
    }
    if package.parent.name not in {"site-packages", "dist-packages"}:
        found.add(str(package.parent))
    return sorted(path for path in found if os.path.isabs(path) and path != "/")


def variables(uid: int) -> dict[str, str]:
    """A process's environment, before what its scenario says."""
    env = {name: os.environ[name] for name in _KEPT if name in os.environ}
    package = Path(fedtest.__file__).resolve().parent.parent
    if package.name not in {"site-packages", "dist-packages"}:
        paths = [item for item in env.get("PYTHONPATH", "").split(os.pathsep) if item]
        env["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([*paths, str(package)]))
    name = {0: "root", _PLAIN[0]: "fedtest"}.get(uid, str(uid))
    return {
        **env,
        **_LIKE_THE_IMAGE,
        "PATH": PATH,
        "HOME": {0: "/root", _PLAIN[0]: HOME}.get(uid, "/tmp"),  # noqa: S108 - the host's own
        "USER": name,
        "LOGNAME": name,
    }


def ids(user: str) -> tuple[int, int, list[int]]:
    """The numbers of `user` or `user:group`, by this machine's lists; and further groups."""
    name, _, its_group = user.partition(":")
    if user == "fedtest":
        return (*_PLAIN, [])
    try:
        known = pwd.getpwuid(int(name)) if name.isdigit() else pwd.getpwnam(name)
    except KeyError as error:
        if not name.isdigit():
            raise EngineError(
                f"no user is called {name} on this machine",
                remedy="Hosts without Docker know this machine's users; a number needs no entry.",
            ) from error
        uid, gid, groups = int(name), int(name) if not its_group else 0, list[int]()
    else:
        uid, gid = known.pw_uid, known.pw_gid
        groups = [] if name.isdigit() else os.getgrouplist(known.pw_name, gid)
    if its_group:
        try:
            gid = int(its_group) if its_group.isdigit() else grp.getgrnam(its_group).gr_gid
        except KeyError as error:
            raise EngineError(f"no group is called {its_group} on this machine") from error
    return uid, gid, groups


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
