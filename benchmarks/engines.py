"""How long a whole run takes on each engine: N ranks, one all-reduce over Gloo, the end.

Each rank is on a host of its own, with one interface of a name that was asked
for. The same scenario file on every engine, in turns; seconds from command to
verdict, and what the stages took of them.

    python benchmarks/engines.py [--ways warm cold docker plain] [--sizes 4 16 64 256] [--rounds N]
        [--minutes M]

The interpreter that runs it needs torch, but for Docker. `plain` is not fedtest but
the least that so many ranks take: engines_plain.py. All but warm ones are left out
above 64. `--rounds` are at most so many; after the first no run is begun that would
end after M minutes. Results are written after each run, so what was measured is
there if it is interrupted. For Docker `fedtest image` builds the node image first
where it is missing; if that fails, Docker is left out. `import` is one import of
torch by itself, in turns with the runs: a warm run waits for one of them, a cold one
for N. Memory is told by the ranks of one more run, which is not timed, while all of
them are there.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from report import median, report, save

WAYS = {
    "warm": ["--engine", "netns"],
    "cold": ["--engine", "netns", "--cold"],
    "docker": ["--engine", "docker"],
    "plain": [],
}
PLAIN = Path(__file__).with_name("engines_plain.py")
SIZES = [4, 16, 64, 256]
MOST = 64
"""Ranks of all but warm ones: more would only take long."""
LIMITED = {"cold", "docker", "plain"}
STAGES = ("engine", "images and data", "hosts", "processes", "checks", "clean-up")
TIMEOUT = 1800
WHOLE_64, FURTHER_MS, FASTER, BEYOND_IMPORT, MEGABYTES = 6.0, 40.0, 10.0, 1.0, 25.0
BESIDE_PLAIN = 6 / 4.6  # the goal, beside what the script took where the goal was set

RANK = """
import sys
import torch
import torch.distributed as dist

master, port, rank, size = sys.argv[1:]
dist.init_process_group(
    "gloo", init_method=f"tcp://{master}:{port}", rank=int(rank), world_size=int(size)
)
total = torch.ones(1000)
dist.all_reduce(total)
MEMORY
dist.destroy_process_group()
print("sum", int(total[0]))
"""
MEMORY = """
facts = dict(line.split(":") for line in open("/proc/self/smaps_rollup").readlines()[1:])
print("kB", *facts["Pss"].split()[:1])
dist.barrier()
"""


def scenario(ranks: int, *, memory: bool = False) -> str:
    """As JSON, which is YAML. `memory`: ranks tell what they have."""
    names = [f"h{number}" for number in range(ranks)]
    program = RANK.replace("MEMORY", MEMORY if memory else "")
    host = {"nics": {"data": "enps1"}, "files": {"/home/fedtest/rank.py": {"content": program}}}
    arguments = [f"${{{{ all.{item} }}}}" for item in ("master", "port", "rank", "size")]
    process = {
        "hosts": "all",
        "run": ["python", "/home/fedtest/rank.py", *arguments],
        "env": {"GLOO_SOCKET_IFNAME": "${{ nics.data.name }}"},
    }
    return json.dumps(
        {
            "fedtest": 1,
            "name": "engines",
            "deadline": "900s",
            "preload": ["torch", "torch.distributed"],
            "networks": {"data": {}},
            "hosts": dict.fromkeys(names, host),
            "groups": {"all": {"members": names, "network": "data"}},
            "processes": {"rank": process},
            "checks": [
                {"exit": {"process": "rank", "code": 0}},
                {"log": {"process": "rank", "match": f"^sum {ranks}$"}},
            ],
        }
    )


def measured(way: str, ranks: int, *, memory: bool = False) -> dict[str, float]:
    """One run: seconds in all, and of each stage; or megabytes of a rank, the median."""
    if way == "plain":
        return plain(ranks)
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "engines.yaml"
        file.write_text(scenario(ranks, memory=memory), encoding="utf-8")
        command = [sys.executable, "-m", "fedtest", "run", file.name, "--quiet", *WAYS[way]]
        # This fedtest, from there, too; what depends on the directory would start cold.
        env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
        began = time.perf_counter()
        try:
            done = subprocess.run(
                command,
                cwd=directory,
                env=env,
                capture_output=True,
                text=True,
                timeout=TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(f"{ranks} ranks, {way}: not done after {TIMEOUT} s") from error
        whole = time.perf_counter() - began
        if done.returncode:
            raise RuntimeError(f"{ranks} ranks, {way}: {done.stdout}{done.stderr}")
        text = (Path(directory) / "runs" / "latest" / "result.json").read_text(encoding="utf-8")
        result: dict[str, Any] = json.loads(text)
        stages = {stage["name"]: stage["seconds"] for stage in result["stages"]}
        if memory:
            logs = (Path(directory) / "runs" / "latest" / "logs").iterdir()
            told = [
                re.search(r"^kB ([0-9]+)$", log.read_text("utf-8"), re.MULTILINE) for log in logs
            ]
            return {"MB": median([int(match[1]) / 1000 for match in told if match])}
        return {"whole": whole, **stages}


def plain(ranks: int) -> dict[str, float]:
    began = time.perf_counter()
    command = [sys.executable, str(PLAIN), str(ranks)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    whole = time.perf_counter() - began
    if done.returncode:
        raise RuntimeError(f"{ranks} ranks, plain: {done.stdout}{done.stderr}")
    parts = json.loads(done.stdout)
    hosts = parts["networks"] + parts["import"]  # as in a run, where one is beside the other
    return {"whole": whole, "hosts": hosts, "processes": parts["ranks"]}


def one_import() -> float:
    began = time.perf_counter()
    command = [sys.executable, "-c", "import torch, torch.distributed"]
    subprocess.run(command, check=True, timeout=TIMEOUT)
    return time.perf_counter() - began


Medians = dict[str, dict[int, dict[str, float]]]


def goals(
    found: Medians, importing: float, memory: dict[int, float]
) -> dict[str, tuple[float, str, bool]]:
    """What there is to hold: value, goal in words, whether it is met."""
    warm = {size: by["whole"] for size, by in found.get("warm", {}).items()}
    docker = {size: by["whole"] for size, by in found.get("docker", {}).items()}
    least = {size: by["whole"] for size, by in found.get("plain", {}).items()}
    told = {}
    if 64 in warm:
        told["64 ranks warm, s"] = (warm[64], f"<= {WHOLE_64:g}", warm[64] <= WHOLE_64)
    if 64 in warm and 64 in least:
        beside = warm[64] / least[64]
        told["64 ranks warm / plain"] = (beside, f"<= {BESIDE_PLAIN:g}", beside <= BESIDE_PLAIN)
    if 16 in warm and 64 in warm:
        further = (warm[64] - warm[16]) / 48 * 1000
        told["each further host, ms"] = (further, f"<= {FURTHER_MS:g}", further <= FURTHER_MS)
    if 64 in warm and 64 in docker:
        faster = docker[64] / warm[64]
        told["Docker / warm at 64"] = (faster, f">= {FASTER:g}", faster >= FASTER)
    if 4 in warm:
        beyond = warm[4] - importing
        goal = f"<= {BEYOND_IMPORT:g}"
        told["4 ranks warm beyond one import, s"] = (beyond, goal, beyond <= BEYOND_IMPORT)
    for size, each in memory.items():
        told[f"a rank of {size} warm, MB"] = (each, f"<= {MEGABYTES:g}", each <= MEGABYTES)
    return told


class Found:
    """What was measured so far; after each run it is in the file of results."""

    def __init__(self) -> None:
        self.imports: list[float] = []
        self.runs: dict[str, dict[int, list[dict[str, float]]]] = {}
        self.memory: dict[int, float] = {}
        self.failed: list[str] = []

    def medians(self) -> Medians:
        return {
            way: {
                size: {key: median([one[key] for one in several]) for key in several[0]}
                for size, several in by.items()
            }
            for way, by in self.runs.items()
        }

    def goals(self) -> dict[str, tuple[float, str, bool]]:
        return goals(self.medians(), median(self.imports), self.memory) if self.imports else {}

    def numbers(self, *, complete: bool) -> dict[str, Any]:
        told = self.goals()
        return {
            "complete": complete,
            "load": os.getloadavg()[0],
            "imports": self.imports,
            "runs": self.runs,
            "medians": self.medians(),
            "megabytes": self.memory,
            "failed": self.failed,
            "goals": {what: {"value": item[0], "goal": item[1]} for what, item in told.items()},
            "met": complete and not self.failed and all(item[2] for item in told.values()),
        }

    def turn(self, way: str, size: int) -> None:
        """One run. That it fails is told at the end, too, and the others go on."""
        try:
            one = measured(way, size)
        except RuntimeError as error:
            self.failed.append(str(error))
            print(error, flush=True)
            return
        self.runs.setdefault(way, {}).setdefault(size, []).append(one)
        print(f"{size} ranks, {way}: {one['whole']:.2f} s", flush=True)
        save("engines", self.numbers(complete=False))


def make_ready(ways: list[str]) -> list[str]:
    """The ways that there are: caches are warm afterwards, and the node image is there."""
    one_import()
    if "docker" in ways:
        made = subprocess.run([sys.executable, "-m", "fedtest", "image"], check=False)
        if made.returncode:
            print("Docker is left out, for there is no node image: `fedtest image` makes it")
            ways = [way for way in ways if way != "docker"]
    for way in ways:
        measured(way, 2)
    return ways


def measure(found: Found, turns: list[tuple[str, int]], rounds: int, end: float) -> None:
    """Each in its turn; but for the first round, none that would take too long."""
    took: dict[tuple[str, int], float] = {}
    for number in range(rounds):
        if number == 0 or time.monotonic() < end:
            found.imports.append(one_import())
        for turn in turns:
            began = time.monotonic()
            if number == 0 or began + took[turn] < end:
                found.turn(*turn)
                took[turn] = time.monotonic() - began
    if any(way == "warm" and size == MOST for way, size in turns):
        # Of few, each bears more of what they share.
        found.memory[MOST] = measured("warm", MOST, memory=True)["MB"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=10.0)
    arguments = parser.parse_args()

    end = time.monotonic() + 60 * arguments.minutes
    found = Found()
    complete = False
    turns: list[tuple[str, int]] = []
    try:
        ways = make_ready(arguments.ways)
        turns = [
            (way, size)
            for size in arguments.sizes
            for way in ways
            if way not in LIMITED or size <= MOST
        ]
        measure(found, turns, arguments.rounds, end)
        complete = True
    except KeyboardInterrupt:
        print("interrupted: this is what was measured so far")
    except RuntimeError as error:
        found.failed.append(str(error))
        print(error)
    if not found.runs:
        return 1
    medians = found.medians()
    rows = [
        [str(size), way, f"{by['whole']:.2f}", *(f"{by.get(name, 0):.2f}" for name in STAGES)]
        for way, size in turns
        if (by := medians.get(way, {}).get(size)) is not None
    ]
    print(f"one import of torch: {median(found.imports):.2f} s; load {os.getloadavg()[0]:.1f}")
    for what, (value, goal, met) in found.goals().items():
        print(f"{what}: {value:.2f} (goal {goal}, {'met' if met else 'NOT met'})")
    numbers = found.numbers(complete=complete)
    report("engines", ["ranks", "way", "whole s", *STAGES], rows, numbers)
    return 0 if numbers["met"] else 1


if __name__ == "__main__":
    sys.exit(main())
