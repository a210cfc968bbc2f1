"""Where fedtest keeps what it has fetched or made for this user, to have it again."""

from __future__ import annotations

import os
from pathlib import Path


def directory() -> Path:
    """The directory `fedtest` in the user's cache, there or not."""
    cache = os.environ.get("XDG_CACHE_HOME") or ""
    # The base directory specification: a relative one is to be ignored.
    base = Path(cache) if Path(cache).is_absolute() else Path.home() / ".cache"
    return base / "fedtest"
