"""What examples/ring asks pip and conda for: what its code imports, as the extra `node` does."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "ring"
DISTRIBUTIONS = {"PIL": "pillow"}  # where a module is called otherwise
CONDA = {"pytorch-cpu": "torch"}  # conda-forge's name -> pip's


def asked(lines: list[str]) -> dict[str, str | None]:
    """Name -> least version."""
    found = {}
    for line in lines:
        match = re.fullmatch(r"([\w-]+)(?:>=([0-9.]+))?", line)
        assert match is not None, line
        found[CONDA.get(match[1], match[1])] = match[2]
    return found


def by_pip() -> dict[str, str | None]:
    text = (EXAMPLE / "requirements.txt").read_text(encoding="utf-8")
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    return asked([line for line in lines if line])


def by_conda() -> tuple[str, dict[str, str | None]]:
    """The version of Python, and the rest."""
    content = YAML(typ="safe").load(EXAMPLE / "environment.yaml")
    python, *others = content["dependencies"]
    assert python.startswith("python=")
    return python.removeprefix("python="), asked(others)


def imported() -> set[str]:
    """The modules of others that train.py imports, with all of fedtest that it needs."""
    found = set()
    left = [EXAMPLE / "train.py", *(ROOT / "fedtest" / "ring").rglob("*.py")]
    seen = set()
    while left:
        path = left.pop()
        if path in seen:
            continue
        seen.add(path)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [item.name for item in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [str(node.module), *(f"{node.module}.{item.name}" for item in node.names)]
            for name in names:
                place = ROOT.joinpath(*name.split("."))
                if name.startswith("fedtest"):
                    places = (place.with_suffix(".py"), place / "__init__.py")
                    left += [each for each in places if each.is_file()]
                else:
                    found.add(name.split(".")[0])
    return found - sys.stdlib_module_names


def test_all_that_the_ring_imports_is_asked_for() -> None:
    needed = {DISTRIBUTIONS.get(name, name) for name in imported()}
    assert {"torch", "torchvision"} <= needed
    assert needed <= by_pip().keys()


def test_pip_and_conda_are_asked_for_the_same() -> None:
    assert by_conda()[1] == by_pip()


def test_the_versions_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extra = asked(project["optional-dependencies"]["node"])
    pip = by_pip()
    assert {name: pip[name] for name in extra} == extra
    assert project["requires-python"] == f">={by_conda()[0]}"
