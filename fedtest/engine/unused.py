"""What hosts were made from and no run needs any more, on each engine, removed when asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.errors import EngineUnavailable, InvalidError

if TYPE_CHECKING:
    from collections.abc import Callable


def remove_images(
    engine: str, progress: Callable[[str], None], stuck: Callable[[InvalidError], None]
) -> list[str]:
    """Remove superseded node images and all node environments; what was removed, in words.

    `engine`: whose; `auto`: both engines'. What cannot be is told to `stuck`.
    """
    removers = {"netns": _environments, "docker": _images}
    removed: list[str] = []
    for name, remover in removers.items():
        if engine in {name, "auto"}:
            try:
                removed += remover(progress)
            except InvalidError as error:
                # That there is no engine was said by who looked for runs.
                if not isinstance(error, EngineUnavailable):
                    stuck(error)
    return removed


def _environments(progress: Callable[[str], None]) -> list[str]:
    from fedtest.engine.netns.node.environment import remove  # noqa: PLC0415 - seldom wanted

    return [f"{item.place}, {item.size / 1e9:.1f} GB" for item in remove(progress)]


def _images(progress: Callable[[str], None]) -> list[str]:
    del progress
    from fedtest.engine.docker.provide import (  # noqa: PLC0415 - it is slow
        remove_superseded_node_images,
    )

    return remove_superseded_node_images()
