"""When faults come and go: watches for their moments, and gives orders."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from fedtest.run.clockwork import NEVER, Follower
from fedtest.run.fault_state import FaultState
from fedtest.run.faults.occasions import came, described
from fedtest.run.faults.step import Done, Step, within
from fedtest.run.result import Problem, Verdict
from fedtest.scenario.faults import AT_ONCE, KillFault, PauseFault, RestartFault, StopFault

if TYPE_CHECKING:
    from collections.abc import Callable

    from fedtest.engine.base import ProcessKey
    from fedtest.plan_faults import FaultPlan, Turn
    from fedtest.run.events import EventLog, Item
    from fedtest.run.evidence import Evidence
    from fedtest.run.faults.hands import Hands

Phase = Literal["waiting", "due", "applying", "active", "healing", "starting", "over", "failed"]


@dataclass
class _Course:
    """How far a fault has come.

    `at`: when it is due or is to be healed. `returning`: processes that it has
    ended and that are to start again.
    """

    plan: FaultPlan
    state: FaultState
    phase: Phase = "waiting"
    number: int = 0
    at: float = NEVER
    applied: float = 0.0
    pids: dict[ProcessKey, int | None] = field(default_factory=dict)
    returning: set[ProcessKey] = field(default_factory=set)

    @property
    def turn(self) -> Turn:
        return self.plan.turns[self.number]


class FaultDriver(Follower):
    """Owned by the runner's thread. `clock` gives seconds since the run began.

    `start_again` starts a process that has ended; `tell` is for people.
    """

    def __init__(  # noqa: PLR0917 - it is made in one place
        self,
        evidence: Evidence,
        hands: Hands,
        events: EventLog,
        start_again: Callable[[ProcessKey], None],
        tell: Callable[[str], None],
        clock: Callable[[], float],
    ) -> None:
        self._evidence = evidence
        self._hands = hands
        self._events = events
        self._start_again = start_again
        self._tell = tell
        self._clock = clock
        self._began: float | None = None
        self._finishing = False
        self.problems: list[Problem] = []
        self._courses = [
            _Course(plan, evidence.faults.setdefault(plan.id, FaultState()))
            for plan in evidence.plan.faults
        ]

    def taken(self, item: Item) -> None:
        if isinstance(item, Done):
            self._done(item)

    def wake(self, now: float) -> float:
        # The first time is when those processes have started that wait for nothing.
        self._began = now if self._began is None else self._began
        for course in self._courses:
            self._consider(course, now)
        return min((item.at for item in self._courses if not self._held(item)), default=NEVER)

    def returns(self, key: ProcessKey) -> bool:
        return any(key in course.returning for course in self._courses)

    @property
    def gives_up(self) -> bool:
        return any(course.phase == "failed" for course in self._courses)

    @property
    def busy(self) -> bool:
        return any(course.phase in {"applying", "healing"} for course in self._courses)

    @property
    def away(self) -> frozenset[str]:
        return self._hands.away

    def wind_up(self) -> None:
        """Whatever is in effect is healed, and nothing comes any more."""
        self._finishing = True
        for course in self._courses:
            course.returning.clear()
            if course.phase not in {"applying", "healing"}:
                course.at = NEVER
        self._heal_all()

    def close(self) -> None:
        self._hands.close()

    def judge(self) -> None:
        """What did not come to pass makes the run invalid."""
        self._hands.raise_defect()
        for course in self._courses:
            missing = len(course.plan.turns) - len(course.state.applied)
            if course.phase in {"active", "healing"}:
                self._fail(f"fault {course.plan.id}: was not healed in time")
            elif missing and not self.gives_up:
                self._fail(*_why(course, missing))

    def _done(self, done: Done) -> None:
        course = next(item for item in self._courses if item.plan is done.step.fault)
        action = "applied" if done.step.action == "apply" else "healed"
        if done.error is not None:
            course.phase, course.at = "failed", NEVER
            course.returning.clear()
            self._events.add("fault failed", fault=course.plan.id, error=str(done.error))
            text = f"fault {course.plan.id}: was not {action}: {done.error.message}"
            self._fail(text, done.error.remedy)
            self._heal_all()
            return
        for host, (last, fresh) in done.hosts.items():
            self._evidence.restarted(host, last, fresh)
        self._record(course, action, done.at, done.found)
        if action == "applied":
            course.applied, course.phase = done.at, "active"
            if course.turn.lasts is not None:
                # Measuring is part of its time.
                course.at = done.at + course.turn.lasts
            if course.plan.kind == "restart":
                course.phase = "starting"
            elif course.plan.kind in AT_ONCE:
                self._next(course)
        elif course.returning:
            course.phase = "starting"
        else:
            self._next(course)
        self._heal_all()

    def _heal_all(self) -> None:
        """If everything ends, what is in effect: paused hosts first, others lie within them."""
        while self._finishing:
            some = [it for it in self._courses if it.phase == "active" and not self._held(it)]
            if not some:
                return
            for course in some:
                self._order(course, "heal")

    def _held(self, course: _Course) -> bool:
        """Whether it must wait with being healed: for a host that another one has paused."""
        if course.phase != "active":
            return False
        hosts = within(course.plan, course.turn, self._evidence.plan)
        return any(
            isinstance(other.plan.spec, PauseFault)
            and other.plan.spec.process is None
            and other.phase in {"applying", "active"}
            and not hosts.isdisjoint(other.turn.hosts)
            for other in self._courses
        )

    def _record(self, course: _Course, action: str, at: float, found: str) -> None:
        times = course.state.applied if action == "applied" else course.state.healed
        times.append(round(at, 3))
        course.state.found.append(found)
        self._events.add(f"fault {action}", fault=course.plan.id, at=round(at, 3), found=found)
        self._tell(f"fault {course.plan.id} {action}: {found}")

    def _consider(self, course: _Course, now: float) -> None:
        if course.phase == "waiting" and not self._finishing:
            when = course.plan.when
            moment = self._began if when is None else came(when, self._evidence, 0.0, now)
            if moment is not None:
                course.phase, course.at = "due", moment + course.turn.after
        if course.phase == "due" and now >= course.at and not self._finishing:
            course.state.asked.append(round(course.at, 3))
            course.pids = self._pids(course)
            course.returning = self._returning(course)
            self._order(course, "apply")
        elif course.phase == "active":
            until = course.plan.until
            if until is not None and came(until, self._evidence, course.applied, now) is not None:
                course.at = now
            if now >= course.at and not self._held(course):
                self._order(course, "heal")
        elif course.phase == "starting":
            self._bring_back(course)

    def _bring_back(self, course: _Course) -> None:
        """Those whose end has been seen start again; when all have, the turn is over."""
        for key in sorted(course.returning):
            if self._evidence.processes[key].ended is not None:
                self._start_again(key)
                course.returning.discard(key)
        if not course.returning:
            back = self._returning(course)
            # When everything ends, those that were to start again do not.
            if course.plan.kind == "restart" and not (back and self._finishing):
                again = "started again" if back else "on again"
                self._record(course, "healed", self._clock(), again)
            self._next(course)

    def _order(self, course: _Course, action: Literal["apply", "heal"]) -> None:
        course.phase = "applying" if action == "apply" else "healing"
        course.at = NEVER
        self._events.add(f"fault: {action}", fault=course.plan.id, turn=course.number)
        self._hands.take(Step(course.plan, course.turn, action, course.pids))

    def _next(self, course: _Course) -> None:
        course.phase, course.at = "over", NEVER
        if course.number + 1 < len(course.plan.turns) and not self._finishing:
            course.number += 1
            course.phase, course.at = "due", course.applied + course.turn.after

    def _pids(self, course: _Course) -> dict[ProcessKey, int | None]:
        """The processes that the fault is about, with those of whole hosts."""
        spec = course.plan.spec
        if not isinstance(spec, (KillFault, PauseFault, RestartFault, StopFault)):
            return {}
        process = None if isinstance(spec, StopFault) else spec.process
        return {
            key: state.pid if state.running else None
            for key, state in self._evidence.processes.items()
            if key.host in course.turn.hosts and process in (None, key.process)
        }

    @staticmethod
    def _returning(course: _Course) -> set[ProcessKey]:
        spec = course.plan.spec
        lasts = course.turn.lasts is not None or course.plan.until is not None
        back = isinstance(spec, RestartFault) and (spec.process is not None or spec.start)
        back = back or (isinstance(spec, StopFault) and spec.start and lasts)
        return {key for key, pid in course.pids.items() if pid is not None} if back else set()

    def _fail(self, message: str, remedy: str = "") -> None:
        self.problems.append(Problem(Verdict.INVALID, message, remedy))


def _why(course: _Course, missing: int) -> tuple[str, str]:
    turns = len(course.plan.turns)
    what = f"fault {course.plan.id}: was never applied"
    if turns > missing:
        what = f"fault {course.plan.id}: was applied {turns - missing} of {turns} times"
    when = course.plan.when
    if course.phase == "waiting" and when is not None:
        return f"{what}: it did not happen that {described(when)}", ""
    return (
        f"{what}: everything had ended before its time",
        "Let processes run for longer, or the fault come sooner.",
    )
