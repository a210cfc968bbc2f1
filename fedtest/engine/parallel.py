"""The same thing for many hosts at once."""

from __future__ import annotations

from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, TypeVar

from fedtest.errors import DeadlineError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_K = TypeVar("_K")
_V = TypeVar("_V")


class Workers:
    """A few threads that live as long as their engine, and so do their connections."""

    def __init__(self, count: int = 8) -> None:
        self._pool = ThreadPoolExecutor(max_workers=count, thread_name_prefix="fedtest")

    def each(
        self, function: Callable[[_K], _V], items: Iterable[_K], *, doing: str, deadline: float
    ) -> dict[_K, _V]:
        """`function(item)` for each item; the results by item, in their order.

        The first error is raised, and nothing more is begun. Whatever happens,
        no call is still under way when this returns or raises, so what the
        calls made can be found and removed. DeadlineError names the items not
        done after `deadline` seconds. `function` must bound itself.
        """
        futures: dict[_K, Future[_V]] = {}
        try:
            for item in items:
                futures[item] = self._pool.submit(function, item)
            done, waiting = wait(futures.values(), timeout=deadline, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
            if waiting:
                missing = [str(item) for item, future in futures.items() if future in waiting]
                raise DeadlineError(f"{doing}: not done after {deadline:g} s: {', '.join(missing)}")
            return {item: future.result() for item, future in futures.items()}
        finally:
            wait([future for future in futures.values() if not future.cancel()])

    def close(self) -> None:
        """Let the threads go."""
        self._pool.shutdown(wait=True, cancel_futures=True)
