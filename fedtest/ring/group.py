"""Becoming a member of the process group, and leaving it."""

import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from torch import distributed as dist

from fedtest.ring.errors import JoinError, one_line
from fedtest.ring.options import Options

INTERFACE = "GLOO_SOCKET_IFNAME"  # read by torch when the group is made


@contextmanager
def joined(options: Options) -> Iterator[None]:
    """The process group of `options`, over Gloo, for as long as the block lasts.

    `options.timeout` bounds each wait inside: for rank 0's store, for peers,
    and later for every transfer. Raises JoinError with torch's own text.
    Some waits in torch have no bound of their own (rank 0's port held by a
    program that accepts and stays silent) or five times the one asked for (a
    peer that disagrees on the world size): after twice the timeout this
    process says so and ends with status 1, for nothing can interrupt them.
    """
    if options.gloo_socket_ifname is not None:
        os.environ[INTERFACE] = options.gloo_socket_ifname
    overdue = threading.Timer(2 * options.timeout, _end, (options,))
    overdue.daemon = True
    overdue.start()
    try:
        _join(options)
    except (RuntimeError, ValueError, OSError) as error:
        raise JoinError(f"{_where(options)}: {one_line(error)}{_hint(options)}") from error
    finally:
        overdue.cancel()
    try:
        yield
    finally:
        dist.destroy_process_group()


def _join(options: Options) -> None:
    try:
        _initialise(options)
    except RuntimeError as error:
        # Debian builds torch without libuv, yet rank 0's store asks for it by
        # default and is refused before it listens: ask for the other one.
        if "without libuv" not in str(error) or "USE_LIBUV" in os.environ:
            raise
        os.environ["USE_LIBUV"] = "0"
        _initialise(options)


def _initialise(options: Options) -> None:
    dist.init_process_group(
        "gloo",
        init_method=options.init_method,
        rank=options.rank,
        world_size=options.world_size,
        timeout=timedelta(seconds=options.timeout),
    )


def interface() -> str | None:
    """The name Gloo was given, by option or environment; None if it chooses."""
    return os.environ.get(INTERFACE) or None


def _where(options: Options) -> str:
    me = f"rank {options.rank} of {options.world_size}"
    return f"joining as {me} at {options.init_method} over {interface() or 'any interface'}"


def _hint(options: Options) -> str:
    name = interface()
    here = [entry for _, entry in socket.if_nameindex()]
    if name is not None and not set(name.split(",")) <= set(here):
        return f"; this machine has no interface {name!r}, it has {', '.join(here)}"
    if options.rank == 0:
        return "; is the port free here, and were all ranks started with the same world size?"
    return "; does rank 0 run, can it be reached there, and do all ranks agree on the world size?"


def _end(options: Options) -> None:
    said = f"{_where(options)}: not joined after {2 * options.timeout:g} s{_hint(options)}"
    print(f"fedtest.ring: {said}", file=sys.stderr, flush=True)  # noqa: T201
    os._exit(1)
