"""Each kind of fault, applied and healed, and each time measured."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from fedtest.errors import NotAsPlanned
from fedtest.run.faults import machines, passages
from fedtest.run.faults.conditions import measure_change
from fedtest.run.faults.disk import Disks
from fedtest.run.faults.step import Done, needed, within
from fedtest.scenario.faults import (
    BlockFault,
    CutFault,
    FillFault,
    InterfaceFault,
    KillFault,
    LinkFault,
    PartitionFault,
    PauseFault,
    ResolveFault,
    RestartFault,
    StopFault,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from fedtest.engine.base import ProcessKey
    from fedtest.engine.snapshot import Snapshot
    from fedtest.run.faults.step import Step
    from fedtest.run.faults.world import World

Change = PartitionFault | CutFault | BlockFault | LinkFault | InterfaceFault | ResolveFault
_CHANGES = (PartitionFault, CutFault, BlockFault, LinkFault, InterfaceFault, ResolveFault)
"""Faults that are another plan for the hosts."""


class Actions:
    """What can be done to the world. `clock` gives seconds of the run."""

    def __init__(self, world: World, clock: Callable[[], float]) -> None:
        self._world = world
        self._clock = clock
        self._disks = Disks(world)
        self._last: dict[str, Snapshot] = {}
        self._holding: list[Step] = []
        """Pauses in effect, which others may outlast."""

    @property
    def away(self) -> frozenset[str]:
        """Hosts that cannot be looked into."""
        return self._world.off | self._world.paused

    def apply(self, step: Step) -> Done:
        """Bring the fault into effect and confirm it. NotAsPlanned, EngineError, DeadlineError."""
        self._world.be_on(needed(step.fault, step.turn))
        self._world.stand_still(within(step.fault, step.turn, self._world.base))
        spec = step.fault.spec
        if isinstance(spec, _CHANGES):
            return self._change(step, spec)
        match spec:
            case KillFault():
                found = machines.kill(self._world, step.pids, signal.Signals[spec.signal])
            case PauseFault() if spec.process is not None:
                found = machines.halt(self._world, step.pids)
            case PauseFault():
                found = machines.pause(self._world, step.turn.hosts)
            case RestartFault() if spec.process is not None:
                found = machines.kill(self._world, step.pids, signal.SIGKILL)
            case RestartFault():
                self._switch_off(step)
                return self._switch_on(step)
            case StopFault():
                found = self._switch_off(step)
            case FillFault():
                found = self._disks.fill(step.fault, spec)
            case _:
                raise AssertionError(f"no application of a fault of kind {step.fault.kind}")
        if isinstance(spec, PauseFault):
            self._holding.append(step)
        return Done(step, self._clock(), found)

    def heal(self, step: Step) -> Done:
        """End the fault and confirm that it is over. The same errors."""
        world, spec = self._world, step.fault.spec
        world.stand_still(within(step.fault, step.turn, world.base))
        self._holding = [item for item in self._holding if item.fault is not step.fault]
        match spec:
            case PauseFault() if spec.process is not None:
                found = machines.go_on(world, step.pids, self._held_pids())
            case PauseFault():
                found = machines.resume(world, step.turn.hosts, self._held_hosts())
            case StopFault():
                return self._switch_on(step)
            case FillFault():
                found = self._disks.empty(step.fault, spec)
            case _:
                world.remove(spec)
                at = self._clock()
                if isinstance(spec, (PartitionFault, CutFault, BlockFault)):
                    return Done(step, at, passages.measure(world, spec, over=True))
                return Done(step, at, "read back")
        return Done(step, self._clock(), found)

    def _held_pids(self) -> set[tuple[ProcessKey, int | None]]:
        """Processes that other faults keep standing still."""
        return {pid for item in self._holding for pid in item.pids.items() if not _whole(item)}

    def _held_hosts(self) -> set[str]:
        """Hosts that other faults keep standing still."""
        return {host for item in self._holding for host in item.turn.hosts if _whole(item)}

    def _change(self, step: Step, spec: Change) -> Done:
        before = self._world.now
        self._world.add(spec)
        at = self._clock()
        match spec:
            case PartitionFault() | CutFault() | BlockFault():
                return Done(step, at, passages.measure(self._world, spec))
            case LinkFault():
                return Done(step, at, measure_change(self._world, spec, before))
        return Done(step, at, "read back")

    def _switch_off(self, step: Step) -> str:
        self._last |= machines.switch_off(self._world, step.turn.hosts)
        return f"off: {', '.join(step.turn.hosts)}"

    def _switch_on(self, step: Step) -> Done:
        hosts = {name: (self._last[name], self._world.switch_on(name)) for name in step.turn.hosts}
        if same := [name for name, (last, fresh) in hosts.items() if fresh.born == last.born]:
            raise NotAsPlanned(f"on all the time, never off: {', '.join(same)}")
        return Done(step, self._clock(), f"on again: {', '.join(hosts)}", hosts=hosts)


def _whole(step: Step) -> bool:
    """Whether it is a pause of whole hosts."""
    return isinstance(step.fault.spec, PauseFault) and step.fault.spec.process is None
