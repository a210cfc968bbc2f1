"""A middle server against a direct connection and against FedLab's, at 100 MB and 1 KB.

    python benchmarks/forwarding.py [--rounds N]

runs a client and a top on one host of the testbed, over loopback, on the image
with FedLab (images/peers/fedlab): directly, with our Scheduler between them, and
with FedLab's. All three are in one run and measured in turns.
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

MARK = "forwarding-benchmark "  # what the line of forwarding_host.py begins with
LARGE, SMALL = "100 MB, throughput", "1 KB, there and back"
OF_DIRECT = 0.45  # of the throughput of a direct connection: it crosses twice
OF_FEDLAB = 2.0  # times its throughput
LATENCY = 0.5  # of the latency that it adds
DEADLINE = 900  # seconds for a run


def scenario(rounds: int) -> dict[str, Any]:
    script = (ROOT / "benchmarks" / "forwarding_host.py").read_text(encoding="utf-8")
    return {
        "fedtest": 1,
        "name": "forwarding-benchmark",
        "deadline": f"{DEADLINE}s",
        "build": str(ROOT / "images" / "peers" / "fedlab"),
        "networks": {"data": {}},
        "hosts": {"a": {"nics": {"data": "eth0"}}},
        "processes": {
            "all": {"hosts": ["a"], "run": ["python", "-c", script, "--rounds", str(rounds)]}
        },
        "checks": [{"exit": {"process": "all", "code": 0}}],
    }


def measure(rounds: int) -> dict[str, Any]:
    """The numbers of a run."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "forwarding-benchmark.yaml"
        file.write_text(json.dumps(scenario(rounds)), encoding="utf-8")
        command = [sys.executable, "-m", "fedtest", "run", str(file)]
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stdout[-4000:] + done.stderr)
        log = Path(directory) / "runs" / "latest" / "logs" / "a.all.log"
        for line in log.read_text(encoding="utf-8").splitlines():
            if line.startswith(MARK):
                found: dict[str, Any] = json.loads(line.removeprefix(MARK))
                return found
        sys.exit("the host has printed no numbers")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=5)
    numbers = measure(parser.parse_args().rounds)
    times = {
        case: {way: median(found) for way, found in by.items()}
        for case, by in numbers["times"].items()
    }
    rows = []
    for case, by in times.items():
        for way, seconds in by.items():
            took = f"{seconds * 1e6:.0f} us" if seconds < 0.01 else f"{seconds * 1e3:.1f} ms"
            rows.append([case, way, took, f"{by['direct'] / seconds:.3f}"])
    # One way of a message and its answer, less the one without anybody between.
    added = {way: (took - times[SMALL]["direct"]) / 2 for way, took in times[SMALL].items()}
    goals = {
        f"throughput at 100 MB, of direct (goal {OF_DIRECT:g})": (
            times[LARGE]["direct"] / times[LARGE]["fedtest"],
            lambda found: found >= OF_DIRECT,
        ),
        f"throughput at 100 MB, of FedLab's (goal {OF_FEDLAB:g})": (
            times[LARGE]["fedlab"] / times[LARGE]["fedtest"],
            lambda found: found >= OF_FEDLAB,
        ),
        f"added latency at 1 KB, of FedLab's (goal {LATENCY:g})": (
            added["fedtest"] / added["fedlab"],
            lambda found: found <= LATENCY,
        ),
    }
    met = True
    for goal, (found, holds) in goals.items():
        met &= holds(found)
        rows.append([goal, "", "", f"{found:.3f}{'' if holds(found) else ' missed'}"])
    columns = ["", "between", "median", "direct / it"]
    report("forwarding", columns, rows, {**numbers, "medians": times, "added": added, "met": met})
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
