"""What is saved of processes when a run fails: later, they cannot be asked any more."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fedtest.engine.examine import Examination
from fedtest.errors import InvalidError
from fedtest.run.result import Saved

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fedtest.engine.base import Engine, RunTag
    from fedtest.run.artifacts import RunDirectory
    from fedtest.run.evidence import Evidence

_DEADLINE = 60.0
STACKS = "hosts/{host}.stacks.txt"
TAILS = "tails.txt"


@dataclass
class Autopsy:
    """What was saved, and what could not be had and why."""

    saved: list[Saved] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def look(
    engine: Engine,
    run: RunTag,
    hosts: Iterable[str],
    directory: RunDirectory,
    moment: str,
    *,
    stacks: str = STACKS,
    when: str = "",
    deadline: float = _DEADLINE,
) -> Autopsy:
    """Of each host: what its processes do, its interfaces and sockets. `when` is for people.

    What could not be had is no reason to end the run otherwise: it has failed already.
    """
    found = Autopsy()
    hosts = list(hosts)
    wanted = dict.fromkeys(hosts, Examination(stacks=True))
    # What processes do comes first: it changes, and they may end.
    try:
        examined = engine.examine(run, wanted, deadline)
        for host, item in examined.items():
            directory.text(stacks.format(host=host), item.stacks)
        files = tuple(stacks.format(host=host) for host in examined)
        found.saved.append(Saved(f"what processes were doing{when}", files))
    except (InvalidError, ValueError) as error:
        found.missing.append(f"what processes were doing: {error}")
    try:
        snapshots = engine.observe(run, hosts, deadline)
        for host, snapshot in snapshots.items():
            directory.snapshot(moment, host, snapshot)
        files = tuple(f"hosts/{host}.{moment}.txt" for host in snapshots)
        found.saved.append(Saved(f"interfaces and sockets{when}", files))
    except (InvalidError, ValueError) as error:
        found.missing.append(f"interfaces and sockets: {error}")
    return found


def tails(evidence: Evidence, directory: RunDirectory) -> Saved:
    """The ends of all logs, in one file."""
    lines = []
    for key, state in evidence.processes.items():
        if state.ended is not None:
            how = f"ended with {state.status}"
        else:
            how = "never started" if state.started is None else "still running"
        lines += [f"==> {key}, {how} <==", *(state.log.last or ["(it printed nothing)"]), ""]
    directory.text(TAILS, "\n".join(lines))
    return Saved("the ends of all logs", (TAILS,))


def at_the_end(
    evidence: Evidence, directory: RunDirectory, saved: Sequence[Saved]
) -> tuple[Saved, ...]:
    """What there is of a failed run when nothing runs any more, beside what was saved before."""
    more = list(saved)
    if not any(TAILS in item.files for item in saved):
        more.append(tails(evidence, directory))
    seen = dict.fromkeys(key.host for key, state in evidence.processes.items() if state.sockets)
    if seen:
        files = tuple(f"hosts/{host}.sockets.json" for host in seen)
        more.append(Saved("sockets, as seen while processes ran", files))
    files = tuple(f"hosts/{host}.after.txt" for host in evidence.after)
    more.append(Saved("interfaces and sockets at the end", files))
    return tuple(more)
