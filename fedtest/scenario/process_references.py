"""What processes wait for, and whether it can ever be."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedtest.scenario.moment_references import of_moment
from fedtest.scenario.problems import Finding, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fedtest.scenario.draft import Draft
    from fedtest.scenario.problems import Loc
    from fedtest.scenario.processes import Condition


def findings(draft: Draft) -> Iterator[Finding]:
    """What is wrong between processes."""
    wrong: list[Finding] = []
    for _, loc, condition in _conditions(draft):
        wrong += _references(draft, loc, condition)
        wrong += _of_services(draft, loc, condition)
    yield from wrong
    if not wrong:  # Else it is not clear who waits for whom.
        yield from _in_circles(draft)
    yield from _only_services(draft)


def _conditions(draft: Draft) -> Iterator[tuple[str, Loc, Condition]]:
    for name, process in draft.processes.items():
        loc: Loc = ("processes", name, "after")
        if process is None:
            continue
        if not isinstance(process.after, tuple):
            yield name, loc, process.after
            continue
        for at, condition in enumerate(process.after):
            yield name, (*loc, at), condition


def _references(draft: Draft, loc: Loc, condition: Condition) -> Iterator[Finding]:
    if condition.port is not None and _is_taken(draft, condition):
        return  # That is there before any process is.
    yield from of_moment(draft, loc, condition)


def _is_taken(draft: Draft, condition: Condition) -> bool:
    host = draft.hosts.get(condition.host or "")
    return host is not None and condition.port in {item.port for item in host.ports_in_use}


def _of_services(draft: Draft, loc: Loc, condition: Condition) -> Iterator[Finding]:
    """A service is asked to end when nobody waits any more."""
    if condition.state not in {"exited", "succeeded"}:
        return
    for name in _about(draft, condition):
        process = draft.processes.get(name)
        if process is not None and process.service:
            message = f"{name} is a service: it ends only after everything else"
            allowed = "a line or a value of it, state: started, or a port"
            yield Finding((*loc, "state"), message, found=shown(condition.state), allowed=allowed)


def _about(draft: Draft, condition: Condition) -> list[str]:
    """The processes that a condition is about."""
    if condition.process is not None:
        return [condition.process]
    return [name for name in draft.processes if condition.host in (draft.hosts_of(name) or ())]


def _in_circles(draft: Draft) -> Iterator[Finding]:
    """Processes that wait, through others or not, for themselves.

    What can start is found step by step; what is left waits for what is left.
    """
    conditions = [
        _waiting(draft, name, loc, condition)
        for name, loc, condition in _conditions(draft)
        if condition.port is None or not _is_taken(draft, condition)
    ]
    can_start = _can_start(draft, conditions)
    blocked: dict[str, tuple[Loc, str]] = {}
    for item in conditions:
        if item.name not in can_start and item.missing > 0:
            lacking = next(name for name in item.about if name not in can_start)
            blocked.setdefault(item.name, (item.loc, lacking))
    told: set[str] = set()
    for name in blocked:
        circle = _circle(name, blocked)
        if told.isdisjoint(circle):
            first, *others = circle
            steps = zip(circle, [*others, first], strict=True)
            ways = ", ".join(f"{one} starts only after {other}" for one, other in steps)
            message = f"{first} waits for itself: {ways}"
            yield Finding(blocked[first][0], message, allowed="an order in which all can start")
        told.update(circle)


@dataclass
class _Waiting:
    """A process, those that a condition of it is about, and how many of them it still lacks."""

    name: str
    loc: Loc
    about: list[str]
    missing: int


def _waiting(draft: Draft, name: str, loc: Loc, condition: Condition) -> _Waiting:
    about = _about(draft, condition)
    any_will_do = condition.process is None and condition.state is None
    return _Waiting(name, loc, about, min(len(about), 1) if any_will_do else len(about))


def _can_start(draft: Draft, conditions: list[_Waiting]) -> set[str]:
    # Where there is nobody to wait for, that is the problem, and it is told as such.
    left = Counter(item.name for item in conditions if item.missing)
    interested: dict[str, list[_Waiting]] = defaultdict(list)
    for item in conditions:
        for name in item.about:
            interested[name].append(item)
    # Of one that is wrong, or not there, nothing can be said.
    fresh = [name for name, process in draft.processes.items() if process is None or not left[name]]
    fresh += interested.keys() - draft.processes.keys()
    can_start: set[str] = set(fresh)
    while fresh:
        for item in interested[fresh.pop()]:
            item.missing -= 1
            if item.missing == 0:
                left[item.name] -= 1
                if not left[item.name]:
                    can_start.add(item.name)
                    fresh.append(item.name)
    return can_start


def _circle(name: str, blocked: dict[str, tuple[Loc, str]]) -> list[str]:
    """The circle that one comes to, who follows from each to the first it lacks."""
    way: list[str] = []
    while name not in way:
        way.append(name)
        name = blocked[name][1]
    return way[way.index(name) :]


def _only_services(draft: Draft) -> Iterator[Finding]:
    """Nothing would ever end, and at their start they would be asked to."""
    known_ones = list(draft.processes.values())
    if known_ones and all(item is not None and item.service for item in known_ones):
        name = next(iter(draft.processes))
        message = "every process is a service, and services end after all others"
        allowed = "at least one process that ends by itself"
        yield Finding(("processes", name, "service"), message, found="true", allowed=allowed)
