"""Packages between two ranks: fedtest.comm, FedLab, and bare dist.send of the same bytes.

    python benchmarks/comm.py [--rounds N]

runs two ranks on one host over loopback, then on two hosts of the testbed, on
the image with FedLab (images/peers/fedlab). All three peers are in one run and
in turns, each over a group of its own. The bare peer knows all sizes
beforehand: it allocates, and receives header, slices and content. Beside them,
for one tensor: bare into memory that is kept, and, in eight times as many rounds,
ours with and without its heartbeat.
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

MARK = "comm-benchmark "  # what the line of comm_rank.py with its numbers begins with
GOALS = {  # of the peer's time, at most
    ("100 MB, 1 tensor", "bare"): 1 / 0.95,
    ("100 MB, 62 tensors", "bare"): 1 / 0.85,
    ("100 MB, 1 tensor", "fedlab"): 1 / 3.5,
    ("100 MB, 161 tensors", "fedlab"): 1 / 30,
    ("1 KB message", "bare"): 1 / 0.9,
    ("1 KB message", "fedlab"): 1 / 1.3,
    ("100 MB, many rounds", "no heartbeat"): 1 / 0.99,
}
QUARTILE = {"100 MB, many rounds"}
"""Cases where less is to be told apart than a median's noise; and noise only ever adds."""
MEMORY = {  # of the payload, at most, beyond what was there: sender, receiver
    "100 MB, 1 tensor": (0.02, 1.1),
    "100 MB, 62 tensors": (1.1, 1.1),
    "100 MB, 161 tensors": (1.1, 1.1),
}
WAYS = {"loopback": ("a", "a"), "two hosts": ("a", "b")}  # where the ranks are
DEADLINE = 1800  # seconds for a run


def scenario(way: str, rounds: int) -> dict[str, Any]:
    """The two ranks as a scenario."""
    where = WAYS[way]
    script = (ROOT / "benchmarks" / "comm_rank.py").read_text(encoding="utf-8")
    host, interface = (
        ("127.0.0.1", "lo")
        if way == "loopback"
        else ("${{ pair.master }}", "${{ nics.data.name }}")
    )
    return {
        "fedtest": 1,
        "name": "comm-benchmark",
        "deadline": f"{DEADLINE}s",
        "build": str(ROOT / "images" / "peers" / "fedlab"),
        "networks": {"data": {}},
        "hosts": {"a": {"nics": {"data": "eth0"}}, "b": {"nics": {"data": "enps1"}}},
        "groups": {"pair": {"members": ["a", "b"], "network": "data"}},
        "processes": {
            f"rank{rank}": {
                "hosts": [where[rank]],
                "run": [
                    *("python", "-c", script, "--host", host, "--port", "23456"),
                    *("--rank", str(rank), "--rounds", str(rounds)),
                ],
                "env": {"GLOO_SOCKET_IFNAME": interface},
            }
            for rank in (0, 1)
        },
        "checks": [{"exit": {"process": f"rank{rank}", "code": 0}} for rank in (0, 1)],
    }


def measure(way: str, rounds: int) -> list[dict[str, Any]]:
    """The numbers of both ranks."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "comm-benchmark.yaml"
        file.write_text(json.dumps(scenario(way, rounds)), encoding="utf-8")
        command = [sys.executable, "-m", "fedtest", "run", str(file)]
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stdout[-4000:] + done.stderr)
        logs = Path(directory) / "runs" / "latest" / "logs"
        return [
            json.loads(line.removeprefix(MARK))
            for rank in (0, 1)
            for line in (logs / f"{WAYS[way][rank]}.rank{rank}.log").read_text().splitlines()
            if line.startswith(MARK)
        ]


def middle(case: str, found: list[float]) -> float:
    return sorted(found)[len(found) // 4] if case in QUARTILE else median(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    rows = []
    numbers: dict[str, Any] = {}
    met = True
    for way in WAYS:
        sender, receiver = measure(way, arguments.rounds)
        times = sender["times"]
        medians = {
            case: {p: middle(case, found) for p, found in by.items()} for case, by in times.items()
        }
        memory = {"sender": sender["memory"], "receiver": receiver["memory"]}
        for case, most in MEMORY.items():
            used = [side[case]["fedtest"] for side in memory.values()]
            met &= all(found <= goal for found, goal in zip(used, most, strict=True))
        numbers[way] = {"times": times, "medians": medians, "memory": memory}
        numbers["torch"] = sender["torch"]
        for case, by in medians.items():
            for peer, seconds in by.items():
                ratio = by["fedtest"] / seconds
                goal = GOALS.get((case, peer))
                met &= goal is None or ratio <= goal
                took = f"{seconds * 1e6:.0f} us" if seconds < 0.01 else f"{seconds * 1e3:.1f} ms"
                text = f"{ratio:.3f}" + ("" if goal is None else f" (goal {goal:.3f})")
                used = [
                    f"{side[case][peer]:.2f}" if case in side else "" for side in memory.values()
                ]
                rows.append([way, case, peer, took, "" if peer == "fedtest" else text, *used])
    columns = ["", "", "peer", "median", "fedtest / peer", "sender's memory", "receiver's memory"]
    report("comm", columns, rows, {**numbers, "met": met})
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
