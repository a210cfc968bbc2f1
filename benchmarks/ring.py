"""The exchanges of fedtest.ring beside Gloo's all_reduce, a tutorial's ring and DDP.

    python benchmarks/ring.py [--rounds N] [--here]

All-reduces and trainings: ranks on one host over loopback, in turns. Links: four
hosts with 100 Mbit/s on each interface, and what one TCP stream gets there in the
same run. `--here`: what is on one host runs in this environment, not in the testbed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from report import median, report

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "ring_rank.py"
MARK = "ring-benchmark "
GOALS = {"100 MB": 1.05, "1 KB": 1.5}  # of Gloo's time, at most, for chunked
OF_THE_BOUND = 0.95  # on links, at least
DEADLINE = 1800  # seconds for a run


def measure(scenario: dict[str, Any], host: str, process: str) -> dict[str, Any]:
    """Run a scenario; the numbers of one process."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / f"{scenario['name']}.yaml"
        file.write_text(json.dumps(scenario), encoding="utf-8")
        command = [sys.executable, "-m", "fedtest", "run", str(file)]
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stdout[-4000:] + done.stderr)
        log = Path(directory) / "runs" / "latest" / "logs" / f"{host}.{process}.log"
        return numbers(log.read_text(encoding="utf-8"))


def numbers(text: str) -> dict[str, Any]:
    [line] = [line for line in text.splitlines() if line.startswith(MARK)]
    found: dict[str, Any] = json.loads(line.removeprefix(MARK))
    return found


def on_one_host(what: list[str], *, here: bool) -> dict[str, Any]:
    if here:
        command = [sys.executable, str(SCRIPT), *what]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stderr)
        return numbers(done.stdout)
    scenario = {
        "fedtest": 1,
        "name": "ring-benchmark",
        "deadline": f"{DEADLINE}s",
        "networks": {"data": {}},
        "hosts": {"a": {"nics": {"data": "eth0"}}},
        "processes": {
            "ranks": {"hosts": ["a"], "run": ["python", "-c", SCRIPT.read_text("utf-8"), *what]}
        },
        "checks": [{"exit": {"process": "ranks", "code": 0}}],
    }
    return measure(scenario, "a", "ranks")


def on_links(rounds: int) -> dict[str, Any]:
    names = {"a": "eth0", "b": "enps1", "c": "ens3f0", "d": "ib0"}
    scenario = {
        "fedtest": 1,
        "name": "ring-links",
        "deadline": f"{DEADLINE}s",
        "networks": {"data": {"link": {"rate": "100mbit"}}},
        "hosts": {host: {"nics": {"data": name}} for host, name in names.items()},
        "groups": {"ring": {"members": list(names), "network": "data"}},
        "processes": {
            "rank": {
                "hosts": "ring",
                "run": [
                    *("python", "-c", SCRIPT.read_text("utf-8"), "link"),
                    *("--host", "${{ ring.master }}", "--port", "${{ ring.port }}"),
                    *("--rank", "${{ ring.rank }}", "--world-size", "${{ ring.size }}"),
                    *("--interface", "${{ nics.data.name }}", "--address", "${{ nics.data.ip }}"),
                    *("--rounds", str(rounds)),
                ],
            }
        },
        "checks": [{"exit": {"process": "rank", "code": 0}}],
    }
    return measure(scenario, "a", "rank")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--here", action="store_true")
    parser.add_argument("--only", choices=("loopback", "train", "link"))
    given = parser.parse_args()
    rounds = ["--rounds", str(given.rounds)]
    rows: list[list[str]] = []
    raw: dict[str, Any] = {}
    met = True
    if given.only in (None, "loopback"):
        raw["loopback"] = on_one_host(
            ["loopback", "--worlds", "2", "4", "8", *rounds], here=given.here
        )
        for world, found in raw["loopback"]["found"].items():
            for size, by in found["times"].items():
                gloo = median(by["gloo"])
                for name, times in by.items():
                    ratio, goal = median(times) / gloo, GOALS.get(size, 0.0)
                    if name == "chunked" and goal:
                        met &= ratio <= goal
                    note = f"{ratio:.2f}" + (
                        f" (goal {goal})" if name == "chunked" and goal else ""
                    )
                    rows.append([f"{world} ranks, {size}", name, _ms(times), note])
            for name, used in found["memory"].items():
                rows.append([f"{world} ranks, memory", name, f"{used:.2f} copies", ""])
                met &= name == "tutorial" or used <= 1.0
    if given.only in (None, "train"):
        raw["train"] = on_one_host(["train", "--worlds", "1", "2", "4", *rounds], here=given.here)
        for world, by in raw["train"]["found"].items():
            ddp = median(by["DDP"])
            best = max(median(speeds) for name, speeds in by.items() if name != "DDP")
            met &= best >= ddp
            rows += [
                [
                    f"{world} ranks, training",
                    name,
                    f"{median(speeds):.0f} samples/s",
                    f"{median(speeds) / ddp:.2f} of DDP",
                ]
                for name, speeds in by.items()
            ]
    if given.only in (None, "link"):
        raw["link"] = on_links(given.rounds)
        found = raw["link"]["found"]
        size, ranks, goodput = found["bytes"], found["ranks"], median(found["goodput"])
        rows.append(["100 Mbit/s, one stream", "TCP", f"{8e-6 * goodput:.1f} Mbit/s", ""])
        for name, times in found["times"].items():
            share = 1 if name == "two-ring" else 1 / ranks
            reached = 2 * (ranks - 1) * share * size / goodput / median(times)
            if name == "chunked":
                met &= reached >= OF_THE_BOUND
            rows.append(["100 Mbit/s, 10 MB", name, _ms(times), f"{reached:.3f} of its bound"])
    report("ring", ["case", "by", "median", ""], rows, raw)
    return 0 if met else 1


def _ms(times: list[float]) -> str:
    return f"{1000 * median(times):.2f} ms"


if __name__ == "__main__":
    sys.exit(main())
