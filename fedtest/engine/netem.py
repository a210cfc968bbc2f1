"""Whether a kernel has netem: asked by using it, in a network namespace of its own."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess

_TRY = "tc qdisc add dev lo root netem delay 1ms"


def has_netem(kernel: str) -> bool | None:
    """For an engine's `kernel` release; None where it cannot be told from here."""
    if platform.release() != kernel or not shutil.which("unshare") or not shutil.which("tc"):
        return None
    # Outside root a user namespace gives the right to make a network namespace.
    flags = ["--net"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--net"]
    try:
        result = subprocess.run(
            ["unshare", *flags, "sh", "-c", _TRY], capture_output=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if b"peration not permitted" in result.stderr:
        return None
    return result.returncode == 0
