"""Hosts without Docker run the Python that is meant, wherever it lies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from conftest import left_behind

if TYPE_CHECKING:
    from conftest import CommandLine

pytestmark = pytest.mark.netns

TELL = """
import sys
from fedtest.values import report
report("prefix", sys.prefix)
report("who", __import__("os").getuid())
"""
SCENARIO = f"""
fedtest: 1
name: python
networks: {{lan: {{}}}}
hosts: {{a: {{nics: {{lan: eth0}}, files: {{/opt/tell.py: {{content: {json.dumps(TELL)}}}}}}}}}
preload: [json]
processes:
  warm: {{hosts: [a], run: python /opt/tell.py, deadline: 60s}}
  cold: {{hosts: [a], run: "python3 /opt/tell.py && true", deadline: 60s}}
checks:
  - exit: {{process: warm, code: 0}}
  - exit: {{process: cold, code: 0}}
  - value: {{process: warm, name: prefix, each: "== PREFIX"}}
  - value: {{process: cold, name: prefix, each: "== PREFIX"}}
  - value: {{process: warm, name: who, each: "== 1000"}}
"""


def environment(place: Path, *, ours: bool) -> Path:
    """A virtual environment's interpreter; `ours`: what we have can be imported in it, too."""
    subprocess.run([sys.executable, "-I", "-m", "venv", "--without-pip", place], check=True)
    if ours:
        (site,) = place.glob("lib/python*/site-packages")
        paths = [str(Path(__file__).parents[2]), *(item for item in sys.path if item)]
        (site / "ours.pth").write_text("\n".join(paths), encoding="utf-8")
    return place / "bin" / "python"


def run(fedtest: CommandLine, python: str, *words: str, prefix: Path) -> list[str]:
    """The run's process, by this interpreter; cold starts that it tells of."""
    file = fedtest.scenario("python", SCENARIO.replace("PREFIX", str(prefix)))
    command = [python, "-m", "fedtest", "run", "--engine", "netns", *words, file]
    env = {name: value for name, value in os.environ.items() if name != "FEDTEST_PYTHON"}
    done = subprocess.run(
        command, cwd=fedtest.directory, env=env, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (run_id,) = fedtest.run_ids()
    assert left_behind(run_id) == []
    return [line for line in done.stdout.splitlines() if "starts cold" in line]


def test_one_in_a_directory_that_is_closed_to_others(fedtest: CommandLine, tmp_path: Path) -> None:
    """As tox makes its own."""
    place = tmp_path / "closed"
    python = environment(place, ours=True)
    place.chmod(0o700)
    (place / "bin").chmod(0o700)
    (told,) = run(fedtest, str(python), prefix=place)
    assert "cold on a starts cold: the shell has more to do" in told


def test_another_is_run_with_our_package_and_none_of_our_packages(
    fedtest: CommandLine, tmp_path: Path
) -> None:
    python = environment(tmp_path / "other", ours=False)
    (told,) = run(fedtest, sys.executable, "--python", str(python), prefix=tmp_path / "other")
    assert "cold on a starts cold: the shell has more to do" in told
    versions = json.loads((fedtest.runs / "latest/versions.json").read_text(encoding="utf-8"))
    assert versions["images"]["this machine"] == {"python": sys.version.split()[0]}


def test_one_that_a_plain_user_cannot_read_makes_the_run_invalid(
    fedtest: CommandLine, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("without root there is one user only, who can")
    python = environment(tmp_path / "other", ours=False)
    python.unlink()
    program = Path(sys.executable).resolve()
    python.write_bytes(program.read_bytes())
    python.chmod(0o700)
    file = fedtest.scenario("python", SCENARIO.replace("PREFIX", "x"))
    done = fedtest("run", file, "--python", str(python))
    assert done.code == 3, done.out + done.err
    (problem,) = done.result["problems"]
    assert f"a host's plain user cannot read {python}" in json.dumps(problem)
    assert "chmod -R go+rX" in json.dumps(problem)
