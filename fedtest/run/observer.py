"""Who looks on while a run goes. Reporters implement it; all calls come from one thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, ParamSpec

from fedtest.errors import Interrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fedtest.engine.base import ProcessKey
    from fedtest.plan import Plan
    from fedtest.run.result import Result


_P = ParamSpec("_P")


class Observer:
    """Does nothing at each occasion; a reporter overrides what it shows."""

    def run_started(self, scenario: str, run_id: str, directory: str) -> None:
        """The run has an id and a directory."""

    def stage_started(self, name: str) -> None:
        """A stage began."""

    def stage_progress(self, text: str) -> None:
        """Something worth a line happened within the stage."""

    def stage_ended(self, name: str, seconds: float, *, failed: bool) -> None:
        """A stage is over."""

    def planned(self, plan: Plan) -> None:
        """Everything is concrete now."""

    def started(self, key: ProcessKey) -> None:
        """A process was started, for the first time or again."""

    def line(self, key: ProcessKey, stream: str, text: str) -> None:
        """A process printed a line."""

    def still_running(self, keys: Sequence[ProcessKey]) -> None:
        """Another minute has gone by, and these processes run."""

    def exited(self, key: ProcessKey, status: int) -> None:
        """A process ended."""

    def finished(self, result: Result) -> None:
        """All is over and cleaned up."""


class Tolerant(Observer):
    """Hands on to another until that fails, then keeps still: a run must not end
    half cleaned up because nobody reads its output any more. `error` has the failure.
    """

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self.error: Exception | None = None

    def run_started(self, scenario: str, run_id: str, directory: str) -> None:
        self._tell(self.observer.run_started, scenario, run_id, directory)

    def stage_started(self, name: str) -> None:
        self._tell(self.observer.stage_started, name)

    def stage_progress(self, text: str) -> None:
        self._tell(self.observer.stage_progress, text)

    def stage_ended(self, name: str, seconds: float, *, failed: bool) -> None:
        self._tell(self.observer.stage_ended, name, seconds, failed=failed)

    def planned(self, plan: Plan) -> None:
        self._tell(self.observer.planned, plan)

    def started(self, key: ProcessKey) -> None:
        self._tell(self.observer.started, key)

    def line(self, key: ProcessKey, stream: str, text: str) -> None:
        self._tell(self.observer.line, key, stream, text)

    def still_running(self, keys: Sequence[ProcessKey]) -> None:
        self._tell(self.observer.still_running, keys)

    def exited(self, key: ProcessKey, status: int) -> None:
        self._tell(self.observer.exited, key, status)

    def _tell(self, function: Callable[_P, None], *args: _P.args, **kwargs: _P.kwargs) -> None:
        if self.error is not None:
            return
        try:
            function(*args, **kwargs)
        except Interrupted:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the run goes on
            self.error = error
