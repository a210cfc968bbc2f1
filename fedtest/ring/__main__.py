"""`python -m fedtest.ring`: options in, exit status out."""

import os
import signal
import sys
from collections.abc import Sequence

from fedtest.ring.errors import RingError
from fedtest.ring.options import parse


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one rank. 0 trained, 1 failed with one line on standard error; 2 by SystemExit."""
    options = parse(arguments)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Python would see Ctrl-C only after the transfer it waits in.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        from fedtest.ring.train import run  # noqa: PLC0415 - torch: after wrong options
    except ModuleNotFoundError as error:
        return _fail(f"{error}; the trainer needs torch and torchvision")
    try:
        run(options)
    except RingError as error:
        return _fail(f"rank {options.rank}: {error}")
    return 0


def _fail(message: str) -> int:
    print(f"fedtest.ring: {message}", file=sys.stderr, flush=True)  # noqa: T201
    return 1


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    # Taking torch apart costs 0.7 s of a core, and has nothing left to do.
    os._exit(status)
