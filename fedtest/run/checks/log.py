"""`log`: lines that were looked for while they were printed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fedtest.run.checks.finding import Finding, by_host
from fedtest.run.checks.moments import describe, first, happened
from fedtest.run.checks.needs import lookings

if TYPE_CHECKING:
    from fedtest.run.evidence import Evidence, ProcessState
    from fedtest.run.watch import LogWatch
    from fedtest.scenario.checks.log import LogCheck

_LAST = 10


def check_log(check: LogCheck, evidence: Evidence) -> Finding:
    """Passes when it holds for the lines of every instance of the process."""
    states = evidence.of_process(check.process, check.host)
    expected = _expected(check)
    since = None
    if check.since is not None:
        since = first(happened(check.since, evidence))
        if since is None:
            return Finding(
                passed=False,
                expected=expected,
                found="nothing to count from",
                details=[f"it did not happen that {describe(check.since)}"],
            )
    passed = bool(states)
    found: dict[str, str] = {}
    details: list[str] = []
    for host, state in states.items():
        began = state.started or 0.0  # Without a start there are no lines either.
        start = (began if check.within is not None else 0.0) if since is None else since
        end = math.inf if check.within is None else start + check.within
        judge = _in_order if check.order is not None else _counted
        holds, found[host], more = judge(check, state, start, end)
        passed &= holds
        details += [line if line.startswith("  ") else f"{host}: {line}" for line in more]
    return Finding(passed, expected, by_host(found), details)


def _expected(check: LogCheck) -> str:
    stream = f" on {check.stream}" if check.stream else ""
    if check.absent is not None:
        text = f"no line of {check.process}{stream} has {check.absent!r}"
    elif check.order is not None:
        text = f"{check.process} prints{stream}, in this order: {', '.join(check.order)}"
    else:
        text = f"{check.process} prints{stream} {check.match!r}"
        where = [f"{name} {comparison}" for name, comparison in check.where.items()]
        text += f" with {' and '.join(where)}" if where else ""
        text += f", lines: {check.count}" if check.count is not None else ""
    if check.within is not None:
        text += f" within {check.within:g} s"
    if check.since is not None:
        text += f" after {describe(check.since)}"
    return text


def _counted(
    check: LogCheck, state: ProcessState, start: float, end: float
) -> tuple[bool, str, list[str]]:
    watch = state.watches[lookings(check)[0]]
    whole = check.within is None and check.since is None
    count = watch.count if whole else watch.within(start, end)
    if check.absent is not None:
        holds = count == 0
    else:
        holds = count >= 1 if check.count is None else check.count.holds(count)
    text = f"{count} {'line' if count == 1 else 'lines'}" if count else "no line"
    if check.where and watch.matched == 0:
        text += ", and none that matches"  # So what `where` says was never put to the test.
    details: list[str] = []
    if not whole and watch.incomplete:
        holds = False
        details.append("there are more such lines than fedtest remembers the times of")
    if holds:
        return True, text, []
    if not whole and watch.count > count:
        details += [f"{_after(item.at, start)}: {item.line}" for item in watch.examples]
    if watch.missed and not count:
        details += [f"a line matches, but has {_groups(item)}" for item in watch.missed]
    if count and watch.examples:
        details += [f"the first of {count}:", *watch.examples[0].shown()]
    elif not watch.count:
        details += _end_of_log(state)
    return False, text, details


def _in_order(
    check: LogCheck, state: ProcessState, start: float, end: float
) -> tuple[bool, str, list[str]]:
    watches = [state.watches[looking] for looking in lookings(check)]
    number = 0
    for done, watch in enumerate(watches):
        following = watch.next(number, start, end)
        if following is None:
            return False, f"{done} of {len(watches)}", _stuck(watches, done, state)
        number = following
    return True, f"all {len(watches)}", []


def _stuck(watches: list[LogWatch], done: int, state: ProcessState) -> list[str]:
    after = f" after {watches[done - 1].looking.text!r}" if done else ""
    there = watches[done].count
    earlier = f", though {there} elsewhere" if there else ""
    return [f"no line matches {watches[done].looking.text!r}{after}{earlier}", *_end_of_log(state)]


def _end_of_log(state: ProcessState) -> list[str]:
    lines = state.log.last[-_LAST:]
    return (
        ["the end of its log:", *(f"    {line}" for line in lines)]
        if lines
        else ["it printed nothing"]
    )


def _groups(groups: dict[str, str | None]) -> str:
    return ", ".join(
        f"{name} = {'nothing' if text is None else text[:60]}" for name, text in groups.items()
    )


def _after(at: float, start: float) -> str:
    return f"{at - start:.1f} s after" if at >= start else f"{start - at:.1f} s too early"
