"""Pulling an image, with an end: the SDK itself would wait for a registry forever."""

from __future__ import annotations

import queue
import threading
import time
from typing import TYPE_CHECKING, Any

from docker.errors import APIError, DockerException
from requests.exceptions import RequestException

from fedtest.engine.docker.client import explanation
from fedtest.errors import ImageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fedtest.engine.docker.client import DockerClient

FIRST_ANSWER = 30.0
"""Seconds until the registry must have answered; where none can be reached, no more is lost."""

SILENCE = 120.0
"""Seconds the registry may be silent after that."""

TOLD = 5.0
"""Seconds between two lines of progress."""


_REMEDY = (
    "The engine has no image of this name. Build it there (`docker build -t NAME DIR`), "
    "or have fedtest build it (`build: DIR` in the scenario)."
)


def pull(client: DockerClient, name: str, progress: Callable[[str], None]) -> None:
    """Pull the image `name`. ImageError with the engine's words if it cannot be had.

    Runs in a thread of its own, which is left behind when the registry does
    not answer: the engine itself gives up sooner or later.
    """
    progress(f"pulling {name}")
    messages: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    reference = name if "@" in name or ":" in name.rpartition("/")[2] else f"{name}:latest"

    def work() -> None:
        try:
            for message in client.api.pull(reference, stream=True, decode=True):
                messages.put(message)
        except APIError as error:
            messages.put({"error": explanation(error)})
        except (DockerException, RequestException) as error:
            messages.put({"error": str(error)})
        messages.put(None)

    threading.Thread(target=work, name=f"pull {name}", daemon=True).start()
    told = time.monotonic()
    for message in _until_end(messages, name):
        if "error" in message:
            raise ImageError(
                f"{name} could not be pulled: {str(message['error']).strip()}", remedy=_REMEDY
            )
        if time.monotonic() - told > TOLD:
            told = time.monotonic()
            parts = (name, message.get("id"), message.get("status"), message.get("progress"))
            progress("pulling " + " ".join(str(part) for part in parts if part))


def _until_end(
    messages: queue.SimpleQueue[dict[str, Any] | None], name: str
) -> Iterator[dict[str, Any]]:
    patience = FIRST_ANSWER
    while True:
        try:
            message = messages.get(timeout=patience)
        except queue.Empty:
            raise ImageError(
                f"{name} could not be pulled: the registry was silent for {patience:.0f} s",
                remedy=_REMEDY,
            ) from None
        if message is None:
            return
        yield message
        patience = SILENCE
