"""Noticing that the process that started this one has ended, or wants this one to end."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager, suppress
from multiprocessing import connection, parent_process
from typing import TYPE_CHECKING, Any

from fedtest.comm.hierarchical.signs import EVERY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection


OTHER_ENDED = b"other"
"""What the parent says through the lifeline when the other side has ended."""


def watch(
    lifeline: Connection | None,
    gone: Callable[[], float],
    other_ended: Callable[[], float | None],
    say: Callable[[], object],
) -> None:
    """Call `gone` when the parent has ended or has closed its end of `lifeline`.

    `other_ended` is called when it says so. Both return how many seconds this
    process has left until it is ended, so that no orphan stays; None: it goes on.
    Until then `say` is called every second: this process is there.
    """
    signs: list[Any] = [*parent_gone(), *([] if lifeline is None else [lifeline])]
    if not signs:
        return

    def run() -> None:
        seconds = None
        while seconds is None:
            say()
            ready = connection.wait(signs, EVERY)
            if ready == [lifeline] and _says(lifeline, OTHER_ENDED):
                seconds = other_ended()
            elif ready:
                seconds = gone()
        threading.Event().wait(seconds)
        with suppress(OSError):
            os.write(2, b"fedtest.comm: a side of a middle server did not end in time\n")
        os._exit(1)

    threading.Thread(target=run, name="fedtest.comm parent", daemon=True).start()


def parent_gone() -> list[Any]:
    """What becomes ready when the process that started this one has ended, for `wait`."""
    parent = parent_process()
    if parent is None or parent.pid is None:
        return []
    # Its sentinel alone would not do: processes that it forks hold the other end, too.
    signs: list[Any] = [parent.sentinel]
    try:
        signs.append(os.pidfd_open(parent.pid))
    except ProcessLookupError:
        return [_ended()]
    except OSError:  # a kernel or a sandbox without it
        pass
    return signs


@contextmanager
def interrupts_later() -> Iterator[None]:
    """Ctrl-C waits until a process has been started, which inherits that it has to wait.

    Right after a fork Python runs what others have registered for it, logging
    for one. A KeyboardInterrupt there is printed and forgotten, and may leave
    logging's lock taken for good.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def interrupts_now() -> None:
    """Ctrl-C need not wait any more, in a process that was started so."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


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
