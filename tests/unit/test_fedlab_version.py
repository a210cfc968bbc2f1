"""FedLab, with which interoperation is shown, is the same with Docker and without."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_one_version_is_asked_for() -> None:
    asked = [
        re.findall(r"^fedlab==[0-9.]+", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
        for file in ("images/peers/fedlab/requirements.txt", "scenarios/fedlab/requirements.txt")
    ]
    assert len(asked[0]) == 1
    assert asked[0] == asked[1]
