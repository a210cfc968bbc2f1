"""What a process of a host finds of its user's: the Python environment, and who it is."""

from __future__ import annotations

import grp
import os
import pwd
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fedtest.engine.netns.tree import HOME
from fedtest.engine.netns.usable import PATH
from fedtest.errors import EngineError

if TYPE_CHECKING:
    from fedtest.engine.netns.node.python import NodePython

_KEPT = ("LANG", "LC_ALL", "LC_CTYPE", "TZ", "PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH")
_LIKE_THE_IMAGE = {
    # As in the node image, so that a scenario finds the same.
    "PYTHONUNBUFFERED": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}
_PLAIN = (1000, 1000)


def variables(uid: int, python: NodePython) -> dict[str, str]:
    """A process's environment, before what its scenario says. `python`: what the host runs."""
    env = {name: os.environ[name] for name in _KEPT if name in os.environ}
    if not python.own:
        env.pop("VIRTUAL_ENV", None)
        env |= {"VIRTUAL_ENV": python.prefix} if python.prefix else {}
    paths = [item for item in env.get("PYTHONPATH", "").split(os.pathsep) if item]
    if further := [*paths, *python.path]:
        env["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(further))
    name = {0: "root", _PLAIN[0]: "fedtest"}.get(uid, str(uid))
    return {
        **env,
        **_LIKE_THE_IMAGE,
        **_torch(python),
        "PATH": _path(python),
        "HOME": {0: "/root", _PLAIN[0]: HOME}.get(uid, "/tmp"),  # noqa: S108 - the host's own
        "USER": name,
        "LOGNAME": name,
    }


def _torch(python: NodePython) -> dict[str, str]:
    """Return what init_process_group must be told of the torch there.

    Debian's is built without libuv, which is asked for by default. In the node
    image all stores are seen to (images/node); here nothing is put into torch.
    """
    version = python.versions.get("torch", "")
    return {"USE_LIBUV": "0"} if version.endswith("+debian") else {}


def _path(python: NodePython) -> str:
    """The host's Python comes first, and ours not at all if it is another one."""
    ours = str(Path(sys.executable).parent)
    rest = [item for item in PATH.split(os.pathsep) if python.own or item != ours]
    return os.pathsep.join(dict.fromkeys([python.directory, *rest]))


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
