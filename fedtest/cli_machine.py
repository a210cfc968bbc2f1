"""The commands that see to what runs need of a machine: `engine`, `data`, `image`, `clean`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.cli_tell import complain, note
from fedtest.errors import EngineUnavailable, ExitCode, InvalidError, UsageError

if TYPE_CHECKING:
    import argparse
    from pathlib import Path


def engine(arguments: argparse.Namespace) -> int:
    """Tell of the engine and of the tools of hosts without Docker."""
    from fedtest.engine.choose import open_engine
    from fedtest.links.mechanism import mechanism

    try:
        engine = open_engine(arguments.engine)
    except EngineUnavailable:
        _tools(arguments)
        raise
    try:
        info = engine.info()
    finally:
        engine.close()
    known = {True: "yes", False: "no", None: "not known from here"}
    rows = {
        "engine": f"{info.kind} {info.version}" + (f", {engine.chosen}" if engine.chosen else ""),
        "API version": info.api,
        "interface names": info.naming,
        "netem": known[info.netem],
        "links by": "netem, if the kernel has it"
        if info.netem is None
        else mechanism(netem=info.netem).value,
        "kernel": info.kernel,
        **info.details,
    }
    for name, value in rows.items():
        print(f"{name + ':':<17}{value}")
    _tools(arguments)
    return ExitCode.PASSED


def _tools(arguments: argparse.Namespace) -> None:
    """Print where the tools are that change hosts' networks, and what goes without which."""
    if arguments.engine == "docker":
        print(f"{'tools:':<17}those of the node image; of this machine none is needed")
        return
    from fedtest.engine.netns.needs import rows

    print("tools of hosts without Docker:")
    for name, value in rows():
        print(f"  {name + ':':<16}{value}")


def engine_ensure(arguments: argparse.Namespace) -> int:
    """Have an engine that answers, and tools."""
    from fedtest.engine.docker.ensure import ensure
    from fedtest.engine.netns.needs import ensure_tools

    lacking: InvalidError | None = None  # Without tools of hosts an engine does.
    if arguments.engine != "docker":
        try:
            print(ensure_tools(note, allowed=arguments.install))
        except InvalidError as error:
            if arguments.engine == "netns":
                raise
            lacking = error
    try:
        if arguments.engine != "netns":
            print(ensure(note, install=arguments.install))
    finally:
        if lacking:
            complain(lacking)
    return ExitCode.INVALID if lacking and arguments.install else ExitCode.PASSED


def data(arguments: argparse.Namespace) -> int:
    """Fetch a data set."""
    from fedtest.data.mnist import provision

    if not arguments.volume:
        print(provision(note).root)
        return ExitCode.PASSED
    from fedtest.engine.docker.provide import data_volume

    print(data_volume(arguments.name, note))
    return ExitCode.PASSED


def image(arguments: argparse.Namespace) -> int:
    """Have what hosts are made from."""

    file: Path | None = arguments.requirements
    if arguments.engine == "docker":
        from fedtest.engine.docker.provide import node_image_tag

        if file is not None:
            raise UsageError(
                "--requirements is for --engine netns",
                remedy="With Docker a scenario's `build:` says what an image has.",
            )
        print(node_image_tag(note))
        return ExitCode.PASSED
    from fedtest.engine.netns.node.environment import provide

    try:
        further = "" if file is None else file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {file}: {error}") from error
    print(provide(note, further).executable)
    return ExitCode.PASSED


def clean(arguments: argparse.Namespace) -> int:
    """Remove what dead runs left."""
    from fedtest.engine.unused import remove_images

    if odd := [name for name in arguments.runs if not name.isalnum()]:
        raise UsageError(
            f"not a run's id: {odd[0]!r}",
            remedy="The name of a run's directory ends with it: runs/<time>-<scenario>-<id>.",
        )
    removed: dict[str, int] = {}
    stuck: list[InvalidError] = []
    for name in ("docker", "netns") if arguments.engine == "auto" else (arguments.engine,):
        try:
            _clean_one(name, arguments, removed)
        except InvalidError as error:  # What is stuck there is in nobody's way elsewhere.
            stuck.append(error)
    images = remove_images(arguments.engine, note, stuck.append) if arguments.images else []
    for item in images:
        print(f"removed {item}")
    for run_id, count in removed.items():
        print(f"run {run_id}: removed {count} hosts and networks")
    for first in stuck[:-1]:
        complain(first)
    if stuck:
        raise stuck[-1]
    if not removed and not images:
        print("nothing to remove")
    return ExitCode.PASSED


def _clean_one(name: str, arguments: argparse.Namespace, removed: dict[str, int]) -> None:
    from fedtest.engine.choose import docker_is_chosen, open_engine

    try:
        engine = open_engine(name)
    except EngineUnavailable as error:
        if arguments.engine != "auto" or (name == "docker" and docker_is_chosen()):
            raise
        note(f"not looked at: {error.message}")
        return
    try:
        for run_id in arguments.runs:
            removed[run_id] = removed.get(run_id, 0) + engine.destroy(run_id, 120.0)
        for run_id, count in engine.sweep(120.0).items():
            removed[run_id] = removed.get(run_id, 0) + count
    finally:
        engine.close()
