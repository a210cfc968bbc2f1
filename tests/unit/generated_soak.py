"""Sends many generated scenarios through, on all processors; prints how many, and what came of it.

    python tests/unit/generated_soak.py --examples 100000

Each example follows from its number: `--first N --examples 1` does one again.
Here a number decides rather than hypothesis, whose book-keeping would be half
of the time; `test_scenario_fuzz` has the same examples made smaller by it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

from generated_choices import Random
from generated_through import MEGABYTES, Through, peak_megabytes

_PIECE = 500


class Told(NamedTuple):
    """What came of some examples: counts, failures by number, seconds of the slowest."""

    outcomes: dict[str, int]
    failures: dict[int, str]
    slowest: float
    megabytes: float


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def piece(first: int, count: int) -> Told:
    """Examples one after the other; what fails does not keep the rest."""
    through = Through()
    failures: dict[int, str] = {}
    for number in range(first, first + count):
        try:
            through.one(Random(number))
        except Exception:  # noqa: BLE001 - whatever it is, it is told of
            failures[number] = traceback.format_exc(limit=-4)[-4000:]
    through.close()
    return Told(through.outcomes, failures, through.slowest, peak_megabytes())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--examples", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()

    began = time.monotonic()
    end = arguments.first + arguments.examples
    starts = range(arguments.first, end, _PIECE)
    counts = [min(_PIECE, end - start) for start in starts]
    outcomes: Counter[str] = Counter()
    failures: dict[int, str] = {}
    slowest = megabytes = 0.0
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for done, told in enumerate(pool.map(piece, starts, counts), start=1):
            outcomes.update(told.outcomes)
            failures |= told.failures
            slowest, megabytes = max(slowest, told.slowest), max(megabytes, told.megabytes)
            for number, text in told.failures.items():
                say(f"example {number}:\n{text}")
            if done % 20 == 0:
                say(f"{sum(outcomes.values())} after {time.monotonic() - began:.0f} s")
    for outcome, count in sorted(outcomes.items()):
        say(f"{outcome:<20}{count:>8}")
    say(f"{'examples':<20}{arguments.examples:>8}")
    say(f"{'failures':<20}{len(failures):>8}")
    say(f"in {time.monotonic() - began:.0f} s; the slowest took {slowest:.2f} s of a processor, "
          f"a process had at most {megabytes:.0f} MB")  # fmt: skip
    return 1 if failures or megabytes > MEGABYTES else 0


if __name__ == "__main__":
    sys.exit(main())
