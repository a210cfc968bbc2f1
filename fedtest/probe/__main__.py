"""`python -m fedtest.probe REQUEST`: JSON in, JSON out on standard output.

`{"root": DIR, "files": [PATH], "reach": [[ADDRESS, PORT, SECONDS]], "stacks": BOOL,
"facts": [PATH], "whole": [PATH], "sessions": [ID] or null}`; every key but `root` may be left out.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from fedtest.probe.facts import facts
from fedtest.probe.files import look, whole
from fedtest.probe.reach import reach_all
from fedtest.probe.stacks import stacks

if TYPE_CHECKING:
    from collections.abc import Mapping


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked for, under the same keys."""
    told: dict[str, Any] = {"files": [look(request["root"], path) for path in request["files"]]}
    told["facts"] = [facts(request["root"], path) for path in request["facts"]]
    told["whole"] = whole(request["root"], request["whole"])
    told["reach"] = reach_all(request["reach"])
    told["stacks"] = stacks(request["sessions"]) if request["stacks"] else ""
    return told


if __name__ == "__main__":
    json.dump(answer(json.loads(sys.argv[1])), sys.stdout)
