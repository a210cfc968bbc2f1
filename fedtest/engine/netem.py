"""Whether a kernel has netem: asked by using it, in a network namespace of its own."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess

_TRY = ["qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"]


def has_netem(kernel: str) -> bool | None:
    """For an engine's `kernel` release; None where it cannot be told from here."""
    # Where a user's PATH has root's directories not, the programs are there all the same.
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin"
    unshare, tc = (shutil.which(name, path=path) for name in ("unshare", "tc"))
    if platform.release() != kernel or unshare is None or tc is None:
        return None
    # Outside root a user namespace gives the right to make a network namespace.
    flags = ["--net"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--net"]
    try:
        result = subprocess.run(
            [unshare, *flags, tc, *_TRY], capture_output=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if b"peration not permitted" in result.stderr:
        return None
    return result.returncode == 0
