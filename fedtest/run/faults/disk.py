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

_TRY = f"""
if printf x 2>/dev/null > {_TRIAL}; then echo room; else echo full; fi
rm -f {_TRIAL}
"""


def fill(world: World, spec: FillFault) -> str:
    """Write until nothing more can be written."""
    script = f"head -c {_MOST} /dev/zero > {_FULL} 2>/dev/null || true\n{_TRY}"
    if _run(world, spec, script) != "full":
        _run(world, spec, f"rm -f {_FULL}")
        raise NotAsPlanned(
            f"host {spec.host}: {spec.path} has room for more than {_MOST} bytes; give it a "
            "file system of its own: tmpfs"
        )
    return f"host {spec.host}: no byte more can be written to {spec.path}"


def empty(world: World, spec: FillFault) -> str:
    """Give the room back."""
    if spec.host in world.off:
        return "the host is off"
    if _run(world, spec, f"rm -f {_FULL}\n{_TRY}") != "room":
        raise NotAsPlanned(f"host {spec.host}: nothing can be written to {spec.path} yet")
    return f"host {spec.host}: {spec.path} can be written to"


def _run(world: World, spec: FillFault, script: str) -> str:
    whole = f"cd {shlex.quote(spec.path)} || exit 1\n{script}"
    told = world.engine.condition(world.run, {spec.host: whole}, DEADLINE, inside=True)
    return told[spec.host].strip()
