"""The command line. Imports neither torch nor anything that does.

Every option is accepted with dashes and with underscores (`--world-size`,
`--world_size`). What is wrong with a value is said by argparse: usage and one
line on standard error, exit status 2.
"""

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

MOUNTED = Path("/data")  # where a testbed mounts the data: used if MNIST is there
LONGEST_INTERFACE = 15  # bytes of a Linux interface name, IFNAMSIZ less its zero
LONGEST_TIMEOUT = 86_400  # seconds: a day


@dataclass(frozen=True)
class Options:
    """What one rank was asked to do; checked."""

    init_method: str  # tcp://HOST:PORT of rank 0
    rank: int  # 0 to world_size - 1
    world_size: int  # at least 1
    gloo_socket_ifname: str | None  # None: Gloo looks up the host's own name
    epoch: int  # how many, at least 1
    batch_size: int  # images a rank takes per step, at most
    lr: float  # the peak of the schedule
    seed: int  # of the parameters, the shards and their order; the same on all ranks
    data: Path  # holds MNIST/raw/
    timeout: float  # seconds


def parse(arguments: Sequence[str] | None = None) -> Options:
    """The options in `arguments` (default: the command line); SystemExit(2) if wrong."""
    parser = _parser()
    found = parser.parse_args(arguments)
    if found.rank >= found.world_size:
        parser.error(
            f"--rank {found.rank} is not below --world-size {found.world_size}: "
            f"ranks are 0 to {found.world_size - 1}"
        )
    if found.data is None:
        found.data = MOUNTED if (MOUNTED / "MNIST" / "raw").is_dir() else Path("data")
    return Options(**vars(found))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m fedtest.ring",
        description="Train a CNN on MNIST on several servers; gradients are averaged over "
        "two rings of send and recv. Start one on each server, with its own rank.",
        epilog="Exit status: 0 trained, 1 a peer, the network or the data failed (one line "
        "says which), 2 wrong options, 130 interrupted.",
        allow_abbrev=False,
    )

    # fmt: off
    def add(name: str, **keywords: object) -> None:
        bare = name.removeprefix("--")
        spellings = (name, "--" + bare.replace("-", "_"), "--" + bare.replace("_", "-"))
        parser.add_argument(*dict.fromkeys(spellings), **keywords)  # type: ignore[arg-type]

    add("--init-method", type=_address, required=True, metavar="tcp://HOST:PORT",
        help="where rank 0 listens: its address on the network to use, and a free port there")
    add("--rank", type=_whole(0), required=True, metavar="R",
        help="this server's position in the ring, from 0")
    add("--world-size", type=_whole(1), required=True, metavar="N",
        help="how many servers there are")
    add("--gloo_socket_ifname", type=_interface, metavar="IF",
        help="this server's network interface to use, as `ip -br address` names it "
        "(default: GLOO_SOCKET_IFNAME, else the one its own name resolves to)")
    add("--epoch", type=_whole(1), default=1, metavar="N",
        help="how many times to go through the training images (default: %(default)s)")
    add("--batch-size", type=_whole(1), default=32, metavar="N",
        help="images per step and rank (default: %(default)s)")
    add("--lr", type=_positive, default=0.05, metavar="X",
        help="learning rate: the peak, after a short rise and before a straight fall "
        "(default: %(default)s)")
    add("--seed", type=_whole(0), default=1, metavar="N",
        help="of parameters, shards and order; the same on all ranks (default: %(default)s)")
    add("--data", type=Path, metavar="DIR",
        help="holds MNIST/raw/, downloaded if it is not there "
        f"(default: {MOUNTED} if MNIST is in it, else ./data)")
    add("--timeout", type=_seconds, default=60.0, metavar="SECONDS",
        help="how long to wait for a peer, to join and in each transfer (default: %(default)s)")
    # fmt: on
    return parser


def _address(text: str) -> str:
    match = re.fullmatch(r"tcp://(?:\[[0-9A-Fa-f:.%\w]+\]|[^\s:/?\[\]]+):([0-9]{1,5})", text)
    if match is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not tcp://HOST:PORT, for example tcp://192.168.0.1:23456"
        )
    if not 1 <= int(match[1]) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r}: a port is 1 to 65535")
    return text


def _interface(text: str) -> str:
    # Names that do not exist here are Gloo's to refuse, these could exist nowhere;
    # a comma would make Gloo take them for several interfaces.
    if not 1 <= len(text) <= LONGEST_INTERFACE or re.search(r"[\s/:,]", text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an interface name (1 to {LONGEST_INTERFACE} characters, "
            "no blank, slash, colon or comma)"
        )
    return text


def _whole(low: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) < low:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low} up")
        return int(text)

    return convert


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return number


def _seconds(text: str) -> float:
    number = _positive(text)
    if not 0.001 <= number <= LONGEST_TIMEOUT:  # Gloo counts milliseconds
        raise argparse.ArgumentTypeError(f"{text!r} is not 0.001 to {LONGEST_TIMEOUT} seconds")
    return number
