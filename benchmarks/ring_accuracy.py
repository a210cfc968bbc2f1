"""What fedtest.ring reaches on MNIST by world size and seed: after an epoch, and within five.

    python benchmarks/ring_accuracy.py [--worlds 1 2 4] [--seeds 1 2 3]

Here, over loopback, with this environment's torch; MNIST from `fedtest data mnist`.
A training of five epochs is 100 s of a core, whatever the world size.
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from report import report

GOALS = {1: 0.98, 5: 0.99}  # epochs: of the test images, at least


def trained(world: int, seed: int, epochs: int, images: str) -> list[float]:
    """The accuracy after each epoch, as rank 0 tells it."""
    with socket.create_server(("127.0.0.1", 0)) as any_port:
        port = any_port.getsockname()[1]
    with tempfile.TemporaryDirectory() as directory:
        command = [
            *(sys.executable, "-m", "fedtest.ring", "--init-method", f"tcp://127.0.0.1:{port}"),
            *("--world-size", str(world), "--gloo_socket_ifname", "lo", "--data", images),
            *("--seed", str(seed), "--epoch", str(epochs), "--checkpoint-dir", directory),
        ]
        ranks = [
            subprocess.Popen([*command, "--rank", str(rank)], stdout=subprocess.PIPE, text=True)
            for rank in range(world)
        ]
        said = [rank.communicate()[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        sys.exit("\n".join(said))
    return [
        float(found)
        for found in re.findall(r"^epoch=\d+ test_accuracy=(\S+)", said[0], re.MULTILINE)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--worlds", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    given = parser.parse_args()
    command = [sys.executable, "-m", "fedtest", "data", "mnist"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    images = str(Path(told.split()[-1]))
    rows, found, met = [], [], True
    for world in given.worlds:
        for seed in given.seeds:
            for epochs, goal in GOALS.items():
                accuracies = trained(world, seed, epochs, images)
                met &= accuracies[-1] >= goal
                found.append({"world": world, "seed": seed, "accuracies": accuracies})
                shown = " ".join(f"{accuracy:.4f}" for accuracy in accuracies)
                rows.append([str(world), str(seed), str(epochs), shown, f"at least {goal}"])
                print(json.dumps(found[-1]), file=sys.stderr, flush=True)
    columns = ["ranks", "seed", "epochs", "after each epoch", "goal"]
    report("ring-accuracy", columns, rows, {"found": found})
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
