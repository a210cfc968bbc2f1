"""The same thing for many hosts at once."""

from __future__ import annotations

from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, TypeVar

from fedtest.errors import DeadlineError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_K = TypeVar("_K")
_V = TypeVar("_V")

WORKERS = 8


def each(
    function: Callable[[_K], _V], items: Iterable[_K], *, doing: str, deadline: float
) -> dict[_K, _V]:
    """`function(item)` for each item, in threads; the results by item, in their order.

    The first error is raised, and nothing more is begun. Whatever happens, no
    call is still under way when this returns or raises, so what the calls made
    can be found and removed. DeadlineError names the items not done after
    `deadline` seconds. `function` must bound itself.
    """
    pool = ThreadPoolExecutor(max_workers=WORKERS, thread_name_prefix="fedtest")
    futures: dict[_K, Future[_V]] = {}
    try:
        for item in items:
            futures[item] = pool.submit(function, item)
        done, waiting = wait(futures.values(), timeout=deadline, return_when=FIRST_EXCEPTION)
        for future in done:
            future.result()
        if waiting:
            missing = ", ".join(str(item) for item, future in futures.items() if future in waiting)
            raise DeadlineError(f"{doing}: not done after {deadline:g} s: {missing}")
        return {item: future.result() for item, future in futures.items()}
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
