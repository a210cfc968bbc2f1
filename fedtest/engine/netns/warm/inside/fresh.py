"""What a fresh interpreter has of its own, and a forked one would share: streams, seeds, ids."""

from __future__ import annotations

import io
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from fedtest.engine.netns.warm.inside import kernel

if TYPE_CHECKING:
    from typing import TextIO


def streams(*, unbuffered: bool) -> None:
    """`sys.stdin` and the others anew: the same objects, since handlers of logs may have them."""
    _stream(sys.__stdin__, 0, unbuffered=unbuffered)
    _stream(sys.__stdout__, 1, unbuffered=unbuffered)
    _stream(sys.__stderr__, 2, unbuffered=unbuffered)
    if unbuffered:
        kernel.unbuffer_c()


def _stream(stream: TextIO | None, fd: int, *, unbuffered: bool) -> None:
    """As CPython's `create_stdio` makes it."""
    if not isinstance(stream, io.TextIOWrapper):
        return  # It was closed when this interpreter started.
    writes = fd > 0
    mode = "wb" if writes else "rb"
    buffer = open(fd, mode, 0 if unbuffered and writes else -1, closefd=False)  # noqa: SIM115
    raw: Any = getattr(buffer, "raw", buffer)
    raw.name = f"<{('stdin', 'stdout', 'stderr')[fd]}>"
    by_line = not unbuffered and (raw.isatty() or fd == 2)
    # A second time, on purpose.
    again: Any = stream
    again.__init__(buffer, stream.encoding, stream.errors, "\n", by_line, unbuffered)
    again.mode = mode[0]


def randomness() -> None:
    """New seeds; Python's own `random` has one since the fork.

    The seed of `hash()` cannot change: it is built into every dictionary there is.
    """
    if numpy := _imported("numpy.random"):
        numpy.seed()
    if torch := _imported("torch"):
        torch.default_generator.seed()
    if process := _imported("multiprocessing.process"):
        authkey = process.AuthenticationString(os.urandom(32))
        process.current_process()._config["authkey"] = authkey  # noqa: SLF001
    if tempfile := _imported("tempfile"):
        # It is told apart by its process's id, which another PID namespace may have, too.
        tempfile._name_sequence = None  # noqa: SLF001
        tempfile.tempdir = None


def _imported(name: str) -> Any:
    """A module if it is there; what is looked at may be its own business."""
    return sys.modules.get(name)


def modules() -> None:
    """What modules of the standard library noted of the process that imported them."""
    if process := _imported("multiprocessing.process"):
        process.ORIGINAL_DIR = os.getcwd()
    main = threading.main_thread()
    if hasattr(main, "_set_native_id"):
        main._set_native_id()  # noqa: SLF001
