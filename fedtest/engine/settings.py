"""Which files of a host tell what the kernel really holds it to, whatever the engine.

The engine's own account of it is no proof: what a kernel cannot do is left out
with a warning at best.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedtest.plan import HostPlan

CGROUP = "/sys/fs/cgroup"

# Control groups of version 2, and of version 1.
CPU = (f"{CGROUP}/cpu.max",)
CPU_1 = (f"{CGROUP}/cpu/cpu.cfs_quota_us", f"{CGROUP}/cpu/cpu.cfs_period_us")
MEMORY = (f"{CGROUP}/memory.max", f"{CGROUP}/memory.swap.max")
MEMORY_1 = (
    f"{CGROUP}/memory/memory.limit_in_bytes",
    f"{CGROUP}/memory/memory.memsw.limit_in_bytes",
)
PIDS = (f"{CGROUP}/pids.max",)
PIDS_1 = (f"{CGROUP}/pids/pids.max",)
SWAPS = "/proc/swaps"


def setting_files(host: HostPlan) -> tuple[str, ...]:
    """What a host tells of itself beside what every host does."""
    wanted: tuple[str, ...] = ()
    if host.limits.cpus is not None:
        wanted += CPU + CPU_1
    if host.limits.memory is not None:
        wanted += (*MEMORY, *MEMORY_1, SWAPS)
    if host.limits.pids is not None:
        wanted += PIDS + PIDS_1
    return wanted + tuple(sysctl_file(name) for name, _ in host.sysctls)


def sysctl_file(name: str) -> str:
    """Where the kernel shows a setting."""
    return f"/proc/sys/{name.replace('.', '/')}"
