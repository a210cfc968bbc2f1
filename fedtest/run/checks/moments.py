"""When the moments were that checks speak of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.run.watch import Looking
from fedtest.scenario.moments import FaultMoment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fedtest.engine.base import ProcessKey
    from fedtest.run.evidence import Evidence, ProcessState
    from fedtest.scenario.moments import Moment


def states_of(moment: Moment, evidence: Evidence) -> dict[ProcessKey, ProcessState]:
    """The processes that a moment is of."""
    return {
        key: state
        for key, state in evidence.processes.items()
        if moment.process in (None, key.process) and moment.host in (None, key.host)
    }


def looking_for(moment: Moment) -> Looking:
    """The line that a moment is about."""
    return Looking(moment.log or "")


def happened(
    moment: Moment | FaultMoment, evidence: Evidence, start: float = 0.0
) -> dict[str, float | None]:
    """When it first was, at `start` or later.

    By host, by process for all those of a host, or by fault.
    """
    if isinstance(moment, FaultMoment):
        state_of = evidence.faults.get(moment.fault)
        return {moment.fault: None if state_of is None else state_of.first(moment.state, start)}
    found: dict[str, float | None] = {}
    for key, state in states_of(moment, evidence).items():
        label = key.host if moment.process is not None else key.process
        found[label] = first_of(moment, state, start)
    if moment.process is None and moment.state is None:
        # A line of some process on the host: who else runs there says nothing of it.
        earliest = first(found)
        return {moment.host or "": earliest}
    return found


def first_of(moment: Moment, state: ProcessState, start: float = 0.0) -> float | None:
    """When it first was of one process, at `start` or later."""
    if moment.log is not None:
        return state.watches[looking_for(moment)].first(start)
    if moment.value is not None and moment.is_ is not None:
        return state.reached[moment.value, moment.is_].first(start)
    if moment.value is not None:
        return state.histories[moment.value].first(start)
    return state.first(moment.state or "", start)


def first(times: Mapping[str, float | None]) -> float | None:
    """The earliest of those that were."""
    return min((at for at in times.values() if at is not None), default=None)


def describe(moment: Moment | FaultMoment) -> str:
    """A moment in words."""
    if isinstance(moment, FaultMoment):
        return f"fault {moment.fault} is {moment.state}"
    whose = moment.process or "any process"
    where = f" on {moment.host}" if moment.host is not None else ""
    if moment.log is not None:
        return f"{whose}{where} prints {moment.log!r}"
    if moment.value is not None:
        what = "" if moment.is_ is None else f" {moment.is_}"
        return f"{whose}{where} reports {moment.value}{what}"
    verb = {"started": "starts", "succeeded": "ends with 0"}.get(moment.state or "", "ends")
    return f"{moment.process or 'every process'}{where} {verb}"
