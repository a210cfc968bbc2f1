"""One build by the engine's classic builder, told line by line."""

from __future__ import annotations

import re
import time
from collections import deque
from contextlib import closing
from typing import TYPE_CHECKING, Any

import requests

from fedtest.engine.docker.client import engine_errors
from fedtest.errors import ImageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fedtest.engine.docker.client import DockerClient
    from fedtest.engine.docker.context import Context

SILENCE = 600
"""Seconds a build may say nothing: unpacking torch on a slow disk is silent for long."""

DEADLINE = 3600.0
"""Seconds for a whole build, which may download gigabytes over a slow line."""

TAIL = 40
"""Lines of a failed build's log that its error shows."""

HEARTBEAT = 5.0
"""Seconds after which a long step tells again where it is."""

_STEP = re.compile(r"Step (\d+)/(\d+) : (.*)")
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_WIDTH = 100


class BuildLog:
    """Reads the builder's messages: what to tell, what went wrong, what came out."""

    def __init__(self, progress: Callable[[str], None], clock: Callable[[], float]) -> None:
        self._progress = progress
        self._clock = clock
        self._step = ""
        self._since = self._told = clock()
        self._rest = ""
        self._pending_error = ""
        self.tail: deque[str] = deque(maxlen=TAIL)
        self.image: str | None = None

    def feed(self, message: Mapping[str, Any]) -> None:
        """One decoded message of the builder."""
        if "error" in message:
            self._flush()
            self._pending_error = str(message["error"]).strip()
        if "aux" in message and isinstance(message["aux"], dict) and "ID" in message["aux"]:
            self.image = str(message["aux"]["ID"])
        # A message may hold several lines, and a line may come in several messages.
        *lines, self._rest = (self._rest + str(message.get("stream", ""))).split("\n")
        for line in lines:
            self._line(line)

    @property
    def error(self) -> str | None:
        """The builder's own words on why it failed, or None."""
        return self._pending_error or None

    def failure(self, what: str, reason: str) -> ImageError:
        """The error for this build, with the end of its log."""
        self._flush()
        shown = "\n".join(f"  {line}" for line in self.tail)
        return ImageError(
            f"building {what}: {reason}" + (f"\nThe build said last:\n{shown}" if shown else "")
        )

    def _flush(self) -> None:
        if self._rest:
            self._line(self._rest)
            self._rest = ""

    def _line(self, raw: str) -> None:
        # A carriage return overwrites: what stands last is what one would see.
        line = _COLOUR.sub("", raw.rstrip("\r").rpartition("\r")[2]).rstrip()
        if not line:
            return
        self.tail.append(line)
        now = self._clock()
        if found := _STEP.fullmatch(line):
            number, total, instruction = found.groups()
            self._step = f"step {number}/{total}"
            self._since = self._told = now
            self._progress(_short(f"{self._step}: {instruction}"))
        elif now - self._told >= HEARTBEAT:
            self._told = now
            self._progress(_short(f"{self._step}, {now - self._since:.0f} s: {line.strip()}"))


def _short(text: str) -> str:
    text = re.sub(r"\s+", " ", text)
    return text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."


def build(
    client: DockerClient,
    context: Context,
    what: str,
    progress: Callable[[str], None],
    *,
    tag: str | None = None,
    args: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> str:
    """Build `what` from `context`; the image's id. Nothing is left of a failed build.

    ImageError with the end of the log if it fails, is silent for too long or
    takes too long. Leaving early (an exception, Ctrl-C) makes the engine stop it.
    """
    log = BuildLog(progress, time.monotonic)
    end = time.monotonic() + DEADLINE
    with engine_errors(f"building {what}"):
        output = client.api.build(
            fileobj=context.file,
            custom_context=True,
            dockerfile=context.dockerfile,
            tag=tag,
            buildargs=dict(args or {}),
            labels=dict(labels or {}),
            rm=True,
            forcerm=True,
            decode=True,
            timeout=SILENCE,
        )
        with closing(output):
            try:
                for message in output:
                    log.feed(message)
                    if time.monotonic() > end:
                        raise log.failure(what, f"not done after {DEADLINE:.0f} s")
            except requests.exceptions.RequestException as error:
                if "timed out" not in str(error):
                    raise
                raise log.failure(what, f"silent for {SILENCE} s") from error
    if log.error or log.image is None:
        raise log.failure(what, log.error or "the engine ended the build without an image")
    return log.image
