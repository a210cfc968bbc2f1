"""File systems without room."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, NamedTuple

from fedtest.errors import NotAsPlanned
from fedtest.run.faults.world import DEADLINE

if TYPE_CHECKING:
    from fedtest.plan_faults import FaultPlan
    from fedtest.run.faults.world import World
    from fedtest.scenario.faults import FillFault

_MOST = 1 << 30
_FULL, _TRIAL = ".fedtest-full", ".fedtest-trial"

_NO_SPACE = "No space left on device"

_TRY = f"""
said=$({{ printf x | cat > {_TRIAL}; }} 2>&1) && said=room
rm -f {_TRIAL}
echo "$said"
"""


class Filled(NamedTuple):
    """A fault in effect. `device` is its file system's in the host, empty if not known."""

    fault: FaultPlan
    spec: FillFault
    device: str

    def shares(self, other: Filled) -> bool:
        """Whether they fill one file system, wherever on it their files are."""
        if self.spec.host != other.spec.host:
            return False
        return self.spec.path == other.spec.path or self.device == other.device != ""


class Disks:
    """The file systems of the hosts, and what fills them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._filled: list[Filled] = []
        self._over: list[Filled] = []
        """Faults that are over, whose files stay for the sake of others that are not."""

    def fill(self, fault: FaultPlan, spec: FillFault) -> str:
        """Write until nothing more can be written for want of space."""
        script = f"""echo "$(stat -c %d . 2> /dev/null)"
said=$({{ head -c {_MOST} /dev/zero > {_FULL}; }} 2>&1) || :
case "$said" in ""|*"{_NO_SPACE}"*) ;; *) echo "$said"; rm -f {_FULL}; exit 0;; esac
{_TRY}"""
        device, _, said = _run(self._world, spec, script).partition("\n")
        if said == "room":
            _run(self._world, spec, f"rm -f {_FULL}")
            raise NotAsPlanned(
                f"host {spec.host}: {spec.path} has room for more than {_MOST} bytes; give it a "
                "file system of its own: tmpfs"
            )
        if _NO_SPACE not in said:
            raise NotAsPlanned(f"host {spec.host}: {spec.path} cannot be filled: {said}")
        self._filled.append(Filled(fault, spec, device))
        return f"host {spec.host}: no byte more can be written to {spec.path}"

    def empty(self, fault: FaultPlan, spec: FillFault) -> str:
        """Give the room back, if no other fault has filled the same file system and lasts longer.

        What this one wrote may be all that takes the room of the other: it stays as long.
        """
        mine = [item for item in self._filled if item.fault is fault]
        self._filled = [item for item in self._filled if item.fault is not fault]
        if any(item.shares(other) for item in mine for other in self._filled):
            self._over += mine
            return f"host {spec.host}: another fault still fills {spec.path}"
        stayed = [item for item in self._over if any(item.shares(other) for other in mine)]
        self._over = [item for item in self._over if item not in stayed]
        if spec.host in self._world.off:
            return "the host is off"
        files = [_FULL, *(f"{item.spec.path}/{_FULL}" for item in stayed)]
        said = _run(self._world, spec, f"rm -f {shlex.join(files)}\n{_TRY}")
        if said != "room":
            raise NotAsPlanned(
                f"host {spec.host}: nothing can be written to {spec.path} yet: {said}"
            )
        return f"host {spec.host}: {spec.path} can be written to"


def _run(world: World, spec: FillFault, script: str) -> str:
    whole = f"export LC_ALL=C\ncd {shlex.quote(spec.path)} || exit 1\n{script}"
    told = world.engine.condition(world.run, {spec.host: whole}, DEADLINE, inside=True)
    return told[spec.host].rstrip()
