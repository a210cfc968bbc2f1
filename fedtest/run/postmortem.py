"""What is saved of processes that hang, before they are ended: they cannot be asked later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.engine.examine import Examination
from fedtest.errors import InvalidError

if TYPE_CHECKING:
    from fedtest.engine.base import Engine, RunTag
    from fedtest.run.artifacts import RunDirectory
    from fedtest.run.evidence import Evidence

_DEADLINE = 60.0
STACKS = "hosts/{host}.stacks.txt"


def save(engine: Engine, run: RunTag, evidence: Evidence, directory: RunDirectory) -> list[str]:
    """Of each host: what its processes do, its interfaces and sockets; the ends of all logs.

    Returns what could not be had and why. That is no reason to end the run
    otherwise: it has failed already.
    """
    missing = []
    directory.text("tails.txt", _tails(evidence))
    hosts = list(dict.fromkeys(key.host for key in evidence.processes))
    try:
        for host, found in engine.observe(run, hosts, _DEADLINE).items():
            directory.snapshot("overdue", host, found)
    except (InvalidError, ValueError) as error:
        missing.append(f"interfaces and sockets: {error}")
    wanted = dict.fromkeys(hosts, Examination(stacks=True))
    try:
        for host, examined in engine.examine(run, wanted, _DEADLINE).items():
            directory.text(STACKS.format(host=host), examined.stacks)
    except InvalidError as error:
        missing.append(f"what processes were doing: {error}")
    return missing


def _tails(evidence: Evidence) -> str:
    lines = []
    for key, state in evidence.processes.items():
        how = "still running" if state.ended is None else f"ended with {state.status}"
        lines += [f"==> {key}, {how} <==", *(state.log.last or ["(it printed nothing)"]), ""]
    return "\n".join(lines)
