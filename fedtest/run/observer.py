"""Who looks on while a run goes. Reporters implement it; all calls come from one thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedtest.engine.base import ProcessKey
    from fedtest.plan import Plan
    from fedtest.run.result import Result


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

    def line(self, key: ProcessKey, stream: str, text: str) -> None:
        """A process printed a line."""

    def exited(self, key: ProcessKey, status: int) -> None:
        """A process ended."""

    def finished(self, result: Result) -> None:
        """All is over and cleaned up."""
