"""FedLab, with which interoperation is shown, is the same with Docker and without."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_one_version_is_asked_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    image = (ROOT / "images/peers/fedlab/requirements.txt").read_text(encoding="utf-8")
    assert project["dependency-groups"]["interop"][:1] == re.findall(
        r"^fedlab==\S+", image, re.MULTILINE
    )
