"""`time` and `done`: how long it took, by when fedtest learned of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.run.checks.finding import Finding
from fedtest.run.checks.moments import describe, first, happened

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fedtest.run.evidence import Evidence
    from fedtest.scenario.checks.time import DoneCheck, TimeCheck


def check_time(check: TimeCheck, evidence: Evidence) -> Finding:
    """Passes when the last `to` is not later than the first `from` and `within`."""
    begin, end = describe(check.start), describe(check.to)
    expected = f"at most {check.within:g} s from when {begin} to when {end}"
    start = first(happened(check.start, evidence))
    if start is None:
        return Finding(False, expected, "it never began", [f"it did not happen that {begin}"])
    times = happened(check.to, evidence, start)
    never = [name for name, at in times.items() if at is None]
    if never or not times:
        details = [f"it did not happen that {end}: {name}" for name in never]
        earlier = happened(check.to, evidence)
        details += [
            f"{name}: it did {start - at:.1f} s before"
            for name in never
            if (at := earlier[name]) is not None
        ]
        return Finding(False, expected, f"it never ended, from {start:.1f} s on", details)
    return _judge(expected, check.within, start, times)


def check_done(check: DoneCheck, evidence: Evidence) -> Finding:
    """Passes when every process that ends by itself has ended by then."""
    expected = f"everything is done in {check.within:g} s"
    own = {str(key): item for key, item in evidence.processes.items() if not item.plan.service}
    if not own or any(state.ended is None for state in own.values()):
        details = [
            f"{name} {'never started' if state.started is None else 'did not end'}"
            for name, state in own.items()
            if state.ended is None
        ]
        return Finding(False, expected, "not everything ended", details)
    start = min(item.started for item in evidence.processes.values() if item.started is not None)
    times = {name: state.ended for name, state in own.items()}
    return _judge(expected, check.within, start, times)


def _judge(
    expected: str, within: float, start: float, times: Mapping[str, float | None]
) -> Finding:
    took = {name: at - start for name, at in times.items() if at is not None}
    late = {name: seconds for name, seconds in took.items() if seconds > within}
    details = [f"{name}: {seconds:.2f} s" for name, seconds in late.items()]
    return Finding(not late, expected, f"{max(took.values()):.2f} s", details)
