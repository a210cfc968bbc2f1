"""How a run grows with its hosts: time until they are up, work and are gone, and memory.

Whole runs of the command line, each in a process of its own, with 2, 8, 32 and
64 hosts on one network, each with a process, all looked at while they run.

    python benchmarks/scale.py

Memory is the most that the runner's process had at once (VmHWM). How something
grows is the slope of its time over the number of hosts, both as logarithms,
from one size to the next: 1 is linear, more is worse, and medians move it by a
few hundredths. A run has a part that does not grow, which makes the first
slopes small, so what a further host costs in each step is told beside it.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from report import median, report

from fedtest.engine.docker.engine import DockerEngine

SIZES = [2, 8, 32, 64]
GOAL_MB = 150
LINEAR = 1.05  # the order of growth, with what medians vary by
SPANS = {"up": "hosts up", "first": "first process", "down": "tear-down", "whole": "whole run"}

# The runner as a user starts it, which tells at its end what it took.
RUNNER = """
import re, sys
from fedtest.cli import main
code = main(sys.argv[1:])
peak = re.search(r"VmHWM:\\s*([0-9]+) kB", open("/proc/self/status").read())[1]
print("VmHWM", peak, file=sys.stderr)
sys.exit(code)
"""


def scenario(hosts: int) -> str:
    """Each host tells when its process ran, and stays a while to be looked at."""
    names = [f"h{number}" for number in range(hosts)]
    nics = "\n".join(f"  {name}: {{nics: {{data: eth0}}}}" for name in names)
    return f"""
fedtest: 1
name: scale
deadline: 300s
networks: {{data: {{}}}}
hosts:
{nics}
groups: {{all: {{members: [{", ".join(names)}]}}}}
processes:
  p: {{hosts: all, run: date +%s.%N; sleep 15}}
checks:
  - exit: {{process: p, code: 0}}
  - log: {{process: p, match: "^[0-9.]+$"}}
  - bytes: {{group: all, network: data, direction: tx, max: 1GB}}
    always: true
"""


def measured(hosts: int) -> dict[str, float]:
    """One run: seconds of each span, and megabytes of the runner."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "scale.yaml"
        file.write_text(scenario(hosts), encoding="utf-8")
        began = time.time()
        command = [sys.executable, "-c", RUNNER, "run", file.name, "--quiet"]
        done = subprocess.run(
            command, cwd=directory, capture_output=True, text=True, timeout=1800, check=False
        )
        ended = time.time()
        if done.returncode:
            sys.exit(f"{hosts} hosts: {done.stdout}{done.stderr}")
        run = Path(directory) / "runs" / "latest"
        lines = (run / "events.jsonl").read_text(encoding="utf-8").splitlines()
        events: list[dict[str, Any]] = [json.loads(line) for line in lines]
        at = {
            event["name"]: datetime.fromisoformat(event["time"]).timestamp()
            for event in events
            if event["kind"] == "stage"
        }
        told = [
            float(log.read_text(encoding="utf-8").split()[0]) for log in (run / "logs").iterdir()
        ]
        return {
            "up": at["processes"] - began,
            "first": min(told) - began,
            "last": max(told) - began,
            "down": ended - at["clean-up"],
            "whole": ended - began,
            "memory": int(done.stderr.rpartition("VmHWM")[2]) / 1000,
        }


def grows(seconds: dict[int, float]) -> tuple[list[float], list[float]]:
    """From each size to the next: the order of growth, and what a further host cost."""
    orders, costs = [], []
    for fewer, more in pairwise(sorted(seconds)):
        orders.append(math.log(seconds[more] / seconds[fewer]) / math.log(more / fewer))
        costs.append((seconds[more] - seconds[fewer]) / (more - fewer))
    return orders, costs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()

    engine = DockerEngine()
    info = engine.info()
    engine.close()
    measured(SIZES[0])  # The image is there and caches are warm afterwards.
    found: dict[int, list[dict[str, float]]] = {size: [] for size in SIZES}
    for _ in range(arguments.rounds):
        for size in SIZES:
            found[size].append(measured(size))
    medians = {
        size: {key: median([one[key] for one in runs]) for key in runs[0]}
        for size, runs in found.items()
    }
    rows = [
        [str(size), *(f"{by[key]:.2f}" for key in SPANS), f"{by['memory']:.0f}"]
        for size, by in medians.items()
    ]
    orders = {}
    for key, title in SPANS.items():
        orders[key], costs = grows({size: by[key] for size, by in medians.items()})
        word = "at most linear" if max(orders[key]) <= LINEAR else "MORE THAN LINEAR"
        slopes = ", ".join(f"{order:.2f}" for order in orders[key])
        told = ", ".join(f"{cost * 1000:.0f}" for cost in costs)
        print(f"{title}: {word}; order of growth {slopes}; a further host cost {told} ms")
    most = max(one["memory"] for one in found[SIZES[-1]])
    within = most <= GOAL_MB
    word = "met" if within else "NOT met"
    print(f"memory at {SIZES[-1]} hosts: {most:.0f} MB (goal {GOAL_MB}, {word})")
    met = within and all(max(found) <= LINEAR for found in orders.values())
    columns = ["hosts", *(f"{title} s" for title in SPANS.values()), "runner MB"]
    numbers = {
        "engine": f"{info.kind} {info.version}",
        "runs": found,
        "medians": medians,
        "orders": orders,
        "met": met,
    }
    report("scale", columns, rows, numbers)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
