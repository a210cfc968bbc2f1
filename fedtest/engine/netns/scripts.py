"""Commands of our own in a host or beside it, waited for: their output, whole.

One that is not waited for any more is killed.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from typing import TYPE_CHECKING

from fedtest.engine.netns import channel
from fedtest.engine.netns.starter import begin
from fedtest.errors import DeadlineError, EngineError

if TYPE_CHECKING:
    from fedtest.engine.netns.channel import Message
    from fedtest.engine.netns.starter import HostPlace

_BLOCK = 1 << 16
_DRAIN = 0.2
_SAID = 2000


def finish(host: HostPlace, message: Message, what: str, end: float) -> tuple[int, bytes, bytes]:
    """Status, standard output and error. DeadlineError; EngineError if the host goes off."""
    pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(2)]
    said = {read: bytearray() for read, _ in pipes}
    try:
        try:
            tied = {**message, "tied": True}
            started = begin(host, tied, (pipes[0][1], pipes[1][1]), what, end)
        finally:
            for _, write in pipes:
                os.close(write)
        with started.channel:
            _read(started.channel.fileno(), said, what, end)
            try:
                started.channel.settimeout(max(end - time.monotonic(), 0.1))
                status = int(channel.receive(started.channel)[0]["status"])
            except (channel.Gone, OSError, LookupError) as error:
                raise EngineError(f"{what}: its host went off") from error
    finally:
        for descriptor in said:
            os.close(descriptor)
    out, errors = said.values()
    return status, bytes(out), bytes(errors)


def checked(host: HostPlace, message: Message, what: str, end: float) -> str:
    """What it prints. EngineError with its errors if it fails."""
    status, out, errors = finish(host, message, what, end)
    if status:
        said = (errors or out).decode("utf-8", "replace").strip()
        raise EngineError(f"{what}: {said[-_SAID:] or f'status {status}'}")
    return out.decode("utf-8", "replace")


def _read(ended: int, said: dict[int, bytearray], what: str, end: float) -> None:
    """Until both streams end; or, once the command has, until they are silent."""
    waiting = select.poll()
    for descriptor in (ended, *said):
        waiting.register(descriptor, select.POLLIN | select.POLLHUP)
    left = set(said)
    over = False
    while left:
        patience = end - time.monotonic()
        if patience <= 0:
            raise DeadlineError(f"{what} did not end in time")
        ready = waiting.poll((_DRAIN if over else patience) * 1000)
        if over and not ready:
            break
        for descriptor, _ in ready:
            if descriptor == ended:
                over = True
                waiting.unregister(ended)
                continue
            data = os.read(descriptor, _BLOCK)
            if data:
                said[descriptor] += data
            else:
                left.discard(descriptor)
                with contextlib.suppress(KeyError):
                    waiting.unregister(descriptor)
