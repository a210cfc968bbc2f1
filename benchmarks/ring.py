"""The exchanges of fedtest.ring beside Gloo's all_reduce, a tutorial's ring and DDP.

    python benchmarks/ring.py [--rounds N] [--engine docker|netns] [--congestion bbr]

All-reduces and trainings: ranks on one host over loopback, in turns. Links: four
hosts with 100 Mbit/s on each interface, and what one TCP stream gets there in the
same run. TCP's congestion control is reno, which every kernel has and lets every
host choose; how BBR, some kernels' default, fares is another run.
Seven rounds take about six minutes on two cores that do nothing else.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from report import median, report

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "ring_rank.py"
MARK = "ring-benchmark "
GOALS = {"100 MB": 1.05, "1 KB": 1.5}  # of Gloo's time, at most, for chunked
COPIES = 1.01  # of the values, at most: one, and what is counted in whole pages
OF_THE_BOUND = 0.95  # on links, at least
DEADLINE = 1800  # seconds for a run


def measure(scenario: dict[str, Any], host: str, process: str, engine: list[str]) -> dict[str, Any]:
    """Run a scenario; the numbers of one process."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / f"{scenario['name']}.yaml"
        file.write_text(json.dumps(scenario), encoding="utf-8")
        command = [sys.executable, "-m", "fedtest", "run", str(file), *engine]
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stdout[-4000:] + done.stderr)
        log = Path(directory) / "runs" / "latest" / "logs" / f"{host}.{process}.log"
        return numbers(log.read_text(encoding="utf-8"))


def numbers(text: str) -> dict[str, Any]:
    [line] = [line for line in text.splitlines() if line.startswith(MARK)]
    found: dict[str, Any] = json.loads(line.removeprefix(MARK))
    return found


def on_one_host(what: list[str], engine: list[str], congestion: str) -> dict[str, Any]:
    scenario = {
        "fedtest": 1,
        "name": "ring-benchmark",
        "deadline": f"{DEADLINE}s",
        "sysctls": {"net.ipv4.tcp_congestion_control": congestion},
        "networks": {"data": {}},
        "hosts": {"a": {"nics": {"data": "eth0"}}},
        "processes": {
            "ranks": {"hosts": ["a"], "run": ["python", "-c", SCRIPT.read_text("utf-8"), *what]}
        },
        "checks": [{"exit": {"process": "ranks", "code": 0}}],
    }
    return measure(scenario, "a", "ranks", engine)


def on_links(rounds: int, engine: list[str], congestion: str) -> dict[str, Any]:
    names = {"a": "eth0", "b": "enps1", "c": "ens3f0", "d": "ib0"}
    scenario = {
        "fedtest": 1,
        "name": "ring-links",
        "deadline": f"{DEADLINE}s",
        "sysctls": {"net.ipv4.tcp_congestion_control": congestion},
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
    return measure(scenario, "a", "rank", engine)


Row = list[str]
Goal = tuple[str, float, bool]


def of_loopback(worlds: dict[str, Any]) -> tuple[list[Row], list[Goal]]:
    rows: list[Row] = []
    goals: list[Goal] = []
    for world, found in worlds.items():
        for size, by in found["times"].items():
            gloo = median(by["gloo"])
            for name, times in by.items():
                ratio = median(times) / gloo
                rows.append([f"{world} ranks, {size}", name, _ms(times), f"{ratio:.2f} of gloo"])
                if name == "chunked" and size in GOALS:
                    goal = f"{world} ranks, {size}: chunked at most {GOALS[size]} of gloo"
                    goals.append((goal, ratio, ratio <= GOALS[size]))
        for name, copies in found["memory"].items():
            rows.append([f"{world} ranks, memory", name, f"{copies:.2f} copies", ""])
            if name != "tutorial":
                goals.append((f"{world} ranks: {name} at most one copy", copies, copies <= COPIES))
    return rows, goals


def of_trainings(worlds: dict[str, Any]) -> tuple[list[Row], list[Goal]]:
    rows: list[Row] = []
    goals: list[Goal] = []
    for world, by in worlds.items():
        speeds = {name: median(found) for name, found in by.items()}
        ddp = speeds["DDP"]
        for name, speed in speeds.items():
            told = [f"{speed:.0f} samples/s", f"{speed / ddp:.2f} of DDP"]
            rows.append([f"{world} ranks, training", name, *told])
        best = max(speed for name, speed in speeds.items() if name != "DDP") / ddp
        goals.append((f"{world} ranks: the best exchange trains at least as DDP", best, best >= 1))
    return rows, goals


def of_links(found: dict[str, Any]) -> tuple[list[Row], list[Goal]]:
    size, ranks, goodput = found["bytes"], found["ranks"], median(found["goodput"])
    rows = [["100 Mbit/s, one stream", "TCP", f"{8e-6 * goodput:.1f} Mbit/s", ""]]
    goals: list[Goal] = []
    for name, times in found["times"].items():
        sent = 2 * (ranks - 1) * size / (1 if name == "two-ring" else ranks)
        reached = sent / goodput / median(times)
        rows.append(["100 Mbit/s, 10 MB", name, _ms(times), f"{reached:.3f} of its bound"])
        if name == "chunked":
            goal = f"{ranks} ranks, 100 Mbit/s: chunked at least {OF_THE_BOUND} of its bound"
            goals.append((goal, reached, reached >= OF_THE_BOUND))
    return rows, goals


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--congestion", default="reno")
    parser.add_argument("--only", choices=("loopback", "train", "link"))
    parser.add_argument("--engine", choices=("docker", "netns"))
    given = parser.parse_args()
    engine = ["--engine", given.engine] if given.engine else []
    rounds = ["--rounds", str(given.rounds)]
    parts = {
        "loopback": lambda: on_one_host(
            ["loopback", "--worlds", "2", "4", "8", *rounds], engine, given.congestion
        ),
        "train": lambda: on_one_host(
            ["train", "--worlds", "1", "2", "4", *rounds], engine, given.congestion
        ),
        "link": lambda: on_links(given.rounds, engine, given.congestion),
    }
    told = {"loopback": of_loopback, "train": of_trainings, "link": of_links}
    rows: list[Row] = []
    goals: list[Goal] = []
    raw: dict[str, Any] = {"congestion": given.congestion}
    for part, run in parts.items():
        if given.only not in (None, part):
            continue
        print(f"{part} ...", file=sys.stderr, flush=True)
        began = time.monotonic()
        raw[part] = run()
        raw[part]["seconds"] = round(time.monotonic() - began)
        more, reached = told[part](raw[part]["found"])
        rows += more
        goals += reached
    rows += [[goal, "", f"{value:.2f}", "met" if met else "not met"] for goal, value, met in goals]
    # A part by itself does not take the place of the whole.
    other = () if given.congestion == "reno" else (given.congestion,)
    title = "-".join(("ring", *other, *filter(None, [given.only])))
    report(title, ["case", "by", "median", ""], rows, raw)
    return 0 if all(met for *_, met in goals) else 1


def _ms(times: list[float]) -> str:
    return f"{1000 * median(times):.2f} ms"


if __name__ == "__main__":
    sys.exit(main())
