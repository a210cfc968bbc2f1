"""A file system without room."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from fedtest.errors import NotAsPlanned
from fedtest.run.faults.world import DEADLINE

if TYPE_CHECKING:
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


def fill(world: World, spec: FillFault) -> str:
    """Write until nothing more can be written for want of space."""
    script = f"""said=$({{ head -c {_MOST} /dev/zero > {_FULL}; }} 2>&1) || :
case "$said" in ""|*"{_NO_SPACE}"*) ;; *) echo "$said"; rm -f {_FULL}; exit 0;; esac
{_TRY}"""
    said = _run(world, spec, script)
    if said == "room":
        _run(world, spec, f"rm -f {_FULL}")
        raise NotAsPlanned(
            f"host {spec.host}: {spec.path} has room for more than {_MOST} bytes; give it a "
            "file system of its own: tmpfs"
        )
    if _NO_SPACE not in said:
        raise NotAsPlanned(f"host {spec.host}: {spec.path} cannot be filled: {said}")
    return f"host {spec.host}: no byte more can be written to {spec.path}"


def still_full(spec: FillFault) -> str:
    """Another fault has filled it, too, and lasts for longer."""
    return f"host {spec.host}: another fault still fills {spec.path}"


def empty(world: World, spec: FillFault) -> str:
    """Give the room back."""
    if spec.host in world.off:
        return "the host is off"
    said = _run(world, spec, f"rm -f {_FULL}\n{_TRY}")
    if said != "room":
        raise NotAsPlanned(f"host {spec.host}: nothing can be written to {spec.path} yet: {said}")
    return f"host {spec.host}: {spec.path} can be written to"


def _run(world: World, spec: FillFault, script: str) -> str:
    whole = f"export LC_ALL=C\ncd {shlex.quote(spec.path)} || exit 1\n{script}"
    told = world.engine.condition(world.run, {spec.host: whole}, DEADLINE, inside=True)
    return told[spec.host].strip()
