"""`python -m fedtest.ring`: options in, exit status out."""

import os
import signal
import sys
from collections.abc import Sequence

from fedtest.ring.errors import JOINING, RingError
from fedtest.ring.options import parse
from fedtest.values import report


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one rank. 0 trained, else one line on standard error; 2 by SystemExit."""
    options = parse(arguments)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Python would see Ctrl-C only after the transfer it waits in.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        from fedtest.comm.errors import CommError  # noqa: PLC0415 - torch: after wrong options
        from fedtest.ring.train import run  # noqa: PLC0415
    except ModuleNotFoundError as error:
        return _fail(f"{error}; the trainer needs torch and torchvision, "
                     "which the extra `node` of fedtest brings", 1)  # fmt: skip
    try:
        run(options)
    except RingError as error:
        _report(error)
        return _fail(f"rank {options.rank}: {type(error).__name__}: {error}", error.status)
    except CommError as error:
        _report(error)
        return _fail(f"rank {options.rank}: {type(error).__name__}: {error}", JOINING)
    return 0


def _report(error: Exception) -> None:
    report("error", type(error).__name__)
    for name in ("rank", "phase"):
        if hasattr(error, name):
            report(f"error_{name}", getattr(error, name))


def _fail(message: str, status: int) -> int:
    print(f"fedtest.ring: {message}", file=sys.stderr, flush=True)  # noqa: T201
    return status


def end(status: int) -> None:
    """Leave at once: taking torch apart costs 0.7 s of a core, and has nothing left to do."""
    sys.stdout.flush()
    os._exit(status)


if __name__ == "__main__":
    end(main())
