"""What Python processes may find imported already when they start."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedtest.plan import ProcessPlan

BUNDLED_IMPORTS = ("torch", "torchvision")
_BUNDLED = re.compile(r"\bfedtest\.(?:comm|ring)\b")


def bundled(processes: tuple[ProcessPlan, ...]) -> tuple[str, ...]:
    """What the bundled trainer and library import, if a process says that it runs them."""
    words = (word for process in processes for word in process.argv)
    return BUNDLED_IMPORTS if any(map(_BUNDLED.search, words)) else ()
