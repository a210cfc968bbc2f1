"""What hosts are given of the machine, and what cannot be had without Docker."""

from __future__ import annotations

import shutil
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedtest.engine.parcel import archive, entries, owner_ids
from fedtest.errors import DataError, ImageError, InvalidError, NotAsPlanned
from fedtest.local_files import is_directory
from fedtest.plan import ImagePlan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fedtest.engine.examine import Examined
    from fedtest.plan import HostPlan, Plan

_DOCKER = "Run it with --engine docker."


def refuse_what_needs_docker(plan: Plan) -> None:
    """ImageError for hosts from an image, InvalidError for networks with a way out."""
    for host in plan.hosts:
        if host.image != ImagePlan() and not host.image_optional:
            what = f"image {host.image.name}" if host.image.name else "an image that is built"
            raise ImageError(
                f"host {host.name} is from {what}; hosts without Docker are from no image, "
                "they see this machine's files",
                remedy=f"{_DOCKER} Or, where this environment has what the image brings, say "
                "`image_optional: true` beside it, and bring by `files:` what it copies.",
            )
    for network in plan.networks:
        if not network.internal:
            raise InvalidError(
                f"network {network.name} is to have a way out (`internal: false`); without "
                "Docker none has, since nothing is added to the machine's own network",
                remedy=_DOCKER,
            )


def given(place: Path, host: HostPlan, data: Mapping[str, str]) -> dict[str, Any]:
    """What of a host's plan its keeper is told. `place`: the run's directory. NotAsPlanned."""
    for mount in host.mounts:
        if not is_directory(mount.source):
            raise NotAsPlanned(
                f"host {host.name}: mounts: {mount.path}: this machine does not see a directory "
                f"{mount.source}",
                remedy="`files` copies what must be there.",
            )
    wanted = {
        "cpus": host.limits.cpus,
        "memory": host.limits.memory,
        "pids": host.limits.pids,
    }
    return {
        "shown": [
            *((path, data[name], False) for name, path in host.data),
            *((mount.path, mount.source, mount.write) for mount in host.mounts),
        ],
        "small": [(item.path, item.size) for item in host.tmpfs],
        "limits": {name: value for name, value in wanted.items() if value is not None},
        # The machine itself may forward, for its containers, and a host would, too.
        "sysctls": [("net.ipv4.ip_forward", "0"), *host.sysctls],
        "parcel": _parcel(place, host),
    }


def _parcel(place: Path, host: HostPlan) -> str:
    """The tar file of a host's files, below the run's directory; empty if it has none."""
    if not host.files:
        return ""
    name = f"parcels/{host.name}.tar"
    (place / name).parent.mkdir(exist_ok=True)
    with archive(entries(host.files), _owners(host)) as packed, (place / name).open("wb") as file:
        shutil.copyfileobj(packed, file)
    return name


def as_their_owners_see(place: Path, host: str, found: Examined) -> Examined:
    """Facts of files where there is one user only, who is each owner that was asked for."""
    try:
        with tarfile.open(place / f"parcels/{host}.tar") as tar:
            owners = {f"/{item.name}": (item.uid, item.gid) for item in tar}
    except FileNotFoundError:
        return found
    facts = {
        path: replace(fact, uid=owners[path][0], gid=owners[path][1])
        if path in owners and (fact.uid, fact.gid) == (0, 0)
        else fact
        for path, fact in found.facts.items()
    }
    return replace(found, facts=facts)


def _owners(host: HostPlan) -> Callable[[str], tuple[int, int]]:
    """Names are those of this machine."""
    lists = [Path(f"/etc/{name}") for name in ("passwd", "group")]
    passwd, group = (path.read_text(encoding="utf-8", errors="replace") for path in lists)

    def ids(owner: str) -> tuple[int, int]:
        try:
            return owner_ids(owner, passwd, group)
        except LookupError as error:
            raise NotAsPlanned(
                f"host {host.name}: files: owner {owner}: {error.args[0]} here",
                remedy="A number needs no entry: `owner: 1000:1000`.",
            ) from error

    return ids


def data_directory(name: str, progress: Callable[[str], None]) -> str:
    """The directory with the data set, provisioned once for this user. DataError."""
    if name != "mnist":
        raise DataError(f"no data set is called {name!r}; there is mnist")
    from fedtest.data import mnist  # noqa: PLC0415 - most runs have no data

    return str(mnist.provision(progress).root)
