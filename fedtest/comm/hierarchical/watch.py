"""Noticing that the process that started this one has ended, or wants this one to end."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from multiprocessing import connection, parent_process
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection


OTHER_ENDED = b"other"
"""What the parent says through the lifeline when the other side has ended."""


def watch(
    lifeline: Connection | None,
    gone: Callable[[], float],
    other_ended: Callable[[], float | None],
) -> None:
    """Call `gone` when the parent has ended or has closed its end of `lifeline`.

    `other_ended` is called when it says so. Both return how many seconds this
    process has left until it is ended, so that no orphan stays; None: it goes on.
    """
    parent = parent_process()
    signs: list[Any] = [] if lifeline is None else [lifeline]
    if parent is not None and parent.pid is not None:
        # Its sentinel alone would not do: processes that it forks hold the other end, too.
        signs.append(parent.sentinel)
        try:
            signs.append(os.pidfd_open(parent.pid))
        except ProcessLookupError:
            signs = [_ended()]
        except OSError:  # a kernel or a sandbox without it
            pass
    if not signs:
        return

    def run() -> None:
        ready = connection.wait(signs)
        seconds = None
        while seconds is None and ready == [lifeline] and _says(lifeline, OTHER_ENDED):
            seconds = other_ended()
            ready = connection.wait(signs) if seconds is None else []
        if seconds is None:
            seconds = gone()
        threading.Event().wait(seconds)
        with suppress(OSError):
            os.write(2, b"fedtest.comm: a side of a middle server did not end in time\n")
        os._exit(1)

    threading.Thread(target=run, name="fedtest.comm parent", daemon=True).start()


def _says(lifeline: Any, what: bytes) -> bool:
    try:
        return bool(lifeline.recv_bytes() == what)
    except (EOFError, OSError):
        return False


def _ended() -> Connection:
    """Something that is ready at once."""
    ready, other = connection.Pipe(duplex=False)
    other.close()
    return ready
