"""Faults of processes and of whole hosts, done and confirmed."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

from fedtest.errors import DeadlineError, NotAsPlanned
from fedtest.run.faults.world import DEADLINE

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping

    from fedtest.engine.base import ProcessKey
    from fedtest.engine.snapshot import ProcessFacts, Snapshot
    from fedtest.run.faults.world import World

_WAIT = 20.0
_POLL = 0.02


def kill(world: World, pids: Mapping[ProcessKey, int | None], number: int) -> str:
    """Signal processes that must be there; with SIGKILL, until they are gone."""
    running = _running(world, pids)
    there = world.engine.signal(world.run, running, number)
    if number != signal.SIGKILL:
        if missed := [str(key) for key in running if key not in there]:
            raise NotAsPlanned(f"the signal found nobody: {', '.join(missed)}")
        return f"sent to {_listed(running)}"
    _until(world, running, "is gone", lambda facts: not facts)
    return f"{_listed(running)} gone"


def halt(world: World, pids: Mapping[ProcessKey, int | None]) -> str:
    """Stop processes, until all of them stand still."""
    running = _running(world, pids)
    world.engine.signal(world.run, running, signal.SIGSTOP)
    _until(world, running, "stands still", _stand_still)
    return f"{_listed(running)} stopped"


def go_on(
    world: World,
    pids: Mapping[ProcessKey, int | None],
    held: Container[tuple[ProcessKey, int | None]] = (),
) -> str:
    """Let processes go on, until none of them stands still; those that have ended are fine.

    Those that are `held` go on when the fault ends that outlasts this one.
    """
    kept = [str(item[0]) for item in pids.items() if item in held]
    there = {
        key: pid
        for key, pid in pids.items()
        if pid is not None and key.host not in world.off and (key, pid) not in held
    }
    world.engine.signal(world.run, there, signal.SIGCONT)
    _until(world, there, "goes on", lambda facts: all(item.state not in "Tt" for item in facts))
    found = [f"{_listed(there)} going on"] if there else []
    found += [f"another fault still stops {', '.join(kept)}"] if kept else []
    return "; ".join(found) or "nothing is left of it"


def pause(world: World, hosts: tuple[str, ...]) -> str:
    """Whole hosts stand still."""
    world.paused |= set(hosts)  # First, so that nobody waits for a look into one.
    world.engine.power(world.run, dict.fromkeys(hosts, "paused"), DEADLINE)
    return f"standing still: {', '.join(hosts)}"


def resume(world: World, hosts: tuple[str, ...], held: Container[str] = ()) -> str:
    """They go on, but for those that are `held`: another fault outlasts this one."""
    kept = [host for host in hosts if host in held]
    there = [host for host in hosts if host in world.paused and host not in held]
    gone = [host for host in hosts if host not in world.paused]
    world.engine.power(world.run, dict.fromkeys(there, "on"), DEADLINE)
    world.paused -= set(there)
    found = [f"going on: {', '.join(there)}"] if there else []
    found += [f"another fault still stops {', '.join(kept)}"] if kept else []
    found += [f"ended before, when it was switched off: {', '.join(gone)}"] if gone else []
    return "; ".join(found)


def switch_off(world: World, hosts: tuple[str, ...]) -> dict[str, Snapshot]:
    """Take the power from hosts; what each was like just before.

    Interfaces have the names of the plan there: those that faults have given them end with it.
    """
    looked = world.engine.observe(world.run, hosts, DEADLINE)
    last = {name: world.under_planned_names(name, item) for name, item in looked.items()}
    world.off |= set(hosts)
    world.engine.power(world.run, dict.fromkeys(hosts, "off"), DEADLINE)
    world.paused -= set(hosts)
    return last


def _running(world: World, pids: Mapping[ProcessKey, int | None]) -> dict[ProcessKey, int]:
    """All of them, or NotAsPlanned with those that are not there."""
    looked = world.engine.observe(world.run, {key.host for key in pids}, DEADLINE)
    found = {
        key: pid for key, pid in pids.items() if pid is not None and _facts(looked[key.host], pid)
    }
    if missing := [str(key) for key in pids if key not in found]:
        raise NotAsPlanned(f"not running at that moment: {', '.join(missing)}")
    return found


def _until(
    world: World,
    pids: Mapping[ProcessKey, int],
    what: str,
    holds: Callable[[list[ProcessFacts]], bool],
) -> None:
    """Look until it holds for every process. DeadlineError naming those for which it does not."""
    end = time.monotonic() + _WAIT
    waiting = dict(pids)
    while waiting:
        looked = world.engine.observe(world.run, {key.host for key in waiting}, DEADLINE)
        waiting = {
            key: pid for key, pid in waiting.items() if not holds(_facts(looked[key.host], pid))
        }
        if waiting and time.monotonic() > end:
            names = ", ".join(map(str, waiting))
            raise DeadlineError(f"after {_WAIT:g} s it is not so that each {what}: {names}")
        if waiting:
            time.sleep(_POLL)


def _stand_still(facts: list[ProcessFacts]) -> bool:
    """Of what has just ended that is not so.

    Who waits in the kernel, perhaps for a child that stands still, stops before he runs on.
    """
    return any(item.state in "Tt" for item in facts) and all(item.state in "TtD" for item in facts)


def _facts(looked: Snapshot, pid: int) -> list[ProcessFacts]:
    """The processes that a signal to `pid` reaches."""
    return [item for at, item in looked.processes.items() if pid in {at, item.group}]


def _listed(pids: Mapping[ProcessKey, int]) -> str:
    return ", ".join(map(str, pids))
