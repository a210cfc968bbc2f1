"""The command line. Imports neither torch nor anything that does.

Every option is accepted with dashes and with underscores (`--world-size`,
`--world_size`). What is wrong with a value is said by argparse: usage and one
line on standard error, exit status 2.
"""

import argparse
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

MOUNTED = Path("/data")  # where a testbed mounts the data: used if MNIST is there
LONGEST_INTERFACE = 15  # bytes of a Linux interface name, IFNAMSIZ less its zero
LONGEST_TIMEOUT = 86_400  # seconds: a day
LARGEST_SHIFT = 4  # pixels: what is drawn keeps that distance from the image's edges


CHECKPOINTS = Path("checkpoints")  # where they are written unless it is said
EXCHANGES = ("two-ring", "chunked", "gloo")
AUTOMATIC = "auto"  # the interface whose network holds the master


@dataclass(frozen=True)
class Options:
    """What one rank was asked to do; checked."""

    init_method: str  # tcp://HOST:PORT of rank 0
    rank: int  # 0 to world_size - 1
    world_size: int  # at least 1
    gloo_socket_ifname: str | None = None  # None: Gloo looks up the host's own name
    epoch: int = 1  # how many, at least 1
    batch_size: int = 32  # images a rank takes per step, at most
    lr: float = 0.03  # the peak of the schedule
    lr_decay: float | None = None  # None: straight to zero; else times this after each epoch
    shift: int = 1  # pixels by which training images are moved, at most
    seed: int = 1  # of the parameters, the shards and their order; the same on all ranks
    exchange: str = "two-ring"  # one of EXCHANGES
    overlap: bool = False  # exchange while the backward pass goes on
    data: Path = Path("data")  # holds MNIST/raw/
    model_path: Path | None = None  # parameters to start from
    checkpoint_dir: Path | None = None  # None: ./checkpoints, if that can be written
    checkpoint_every: int = 0  # steps; 0: at the end of each epoch only
    resume: bool = False
    log_file: Path | None = None
    timeout: float = 60.0  # seconds, for each transfer
    join_timeout: float = 300.0  # seconds

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of rank 0."""
        host, _, port = self.init_method.removeprefix("tcp://").rpartition(":")
        return host.strip("[]"), int(port)

    @property
    def recipe(self) -> dict[str, str]:
        """The options from which rates and images of each step follow, as they are given."""
        decay = "linear" if self.lr_decay is None else str(self.lr_decay)
        return {
            "lr": str(self.lr),
            "lr_decay": decay,
            "shift": str(self.shift),
            "epoch": str(self.epoch),
        }


def parse(
    arguments: Sequence[str] | None = None, environment: Mapping[str, str] = os.environ
) -> Options:
    """The options in `arguments` (default: the command line); SystemExit(2) if wrong.

    What is not given is taken from torchrun's variables, if they are there.
    """
    parser = _parser()
    found = parser.parse_args(arguments)
    _from_environment(found, environment, parser)
    if found.rank >= found.world_size:
        parser.error(
            f"--rank {found.rank} is not below --world-size {found.world_size}: "
            f"ranks are 0 to {found.world_size - 1}"
        )
    if found.overlap and found.exchange != "chunked":
        parser.error("--overlap is for --exchange chunked")
    if found.data is None:
        found.data = MOUNTED if (MOUNTED / "MNIST" / "raw").is_dir() else Path("data")
    if found.resume and found.model_path is not None:
        parser.error("--resume has its own model: not with --model_path")
    return Options(**vars(found))


def _from_environment(
    found: argparse.Namespace, environment: Mapping[str, str], parser: argparse.ArgumentParser
) -> None:
    """Take from torchrun's variables what was not given; an error names what is missing."""
    missing = []
    for name, option, kind in (
        ("rank", "--rank", _whole(0)),
        ("world_size", "--world-size", _whole(1)),
    ):
        if getattr(found, name) is None and name.upper() in environment:
            try:
                setattr(found, name, kind(environment[name.upper()]))
            except argparse.ArgumentTypeError as error:
                parser.error(f"{name.upper()}: {error}")
        if getattr(found, name) is None:
            missing.append(option)
    if found.init_method is None and {"MASTER_ADDR", "MASTER_PORT"} <= environment.keys():
        host = environment["MASTER_ADDR"]
        host = f"[{host}]" if ":" in host else host
        try:
            found.init_method = _address(f"tcp://{host}:{environment['MASTER_PORT']}")
        except argparse.ArgumentTypeError as error:
            parser.error(f"MASTER_ADDR and MASTER_PORT: {error}")
    if found.init_method is None:
        missing.insert(0, "--init-method")
    if missing:
        parser.error(f"the following arguments are required: {', '.join(missing)}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m fedtest.ring",
        description="Train a CNN on MNIST on several servers; gradients are averaged over "
        "two rings of send and recv. Start one on each server, with its own rank.",
        epilog="Exit status: 0 trained, 2 wrong options, 3 no data, 4 a checkpoint that is none "
        "or cannot be written, 5 could not join, 6 another rank was lost or silent, 130 "
        "interrupted; one line on standard error says more.",
        allow_abbrev=False,
    )

    # fmt: off
    def add(name: str, **keywords: object) -> None:
        bare = name.removeprefix("--")
        spellings = (name, "--" + bare.replace("-", "_"), "--" + bare.replace("_", "-"))
        parser.add_argument(*dict.fromkeys(spellings), **keywords)  # type: ignore[arg-type]

    add("--init-method", type=_address, metavar="tcp://HOST:PORT",
        help="where rank 0 listens: its address on the network to use, and a free port there "
        "(default: torchrun's)")
    add("--rank", type=_whole(0), metavar="R",
        help="this server's position in the ring, from 0 (default: torchrun's)")
    add("--world-size", type=_whole(1), metavar="N",
        help="how many servers there are (default: torchrun's)")
    add("--gloo_socket_ifname", type=_interface, metavar="IF",
        help="this server's network interface to use, as `ip -br address` names it; "
        f"{AUTOMATIC}: the one whose network holds rank 0's address "
        "(default: GLOO_SOCKET_IFNAME, else the one its own name resolves to)")
    add("--epoch", type=_whole(1), default=Options.epoch, metavar="N",
        help="how many times to go through the training images (default: %(default)s)")
    add("--batch-size", type=_whole(1), default=Options.batch_size, metavar="N",
        help="images per step and rank (default: %(default)s)")
    add("--lr", type=_positive, default=Options.lr, metavar="X",
        help="learning rate for one rank: the peak, after a short rise; N ranks take the root "
        "of N times as much (default: %(default)s)")
    add("--lr-decay", type=_decay, metavar="X",
        help="what it is multiplied by after each epoch, 0 to 1; linear: a straight fall to zero "
        "(default: linear)")
    add("--shift", type=_shift, default=Options.shift, metavar="PIXELS",
        help="training images are moved at random by up to so many pixels, at most "
        f"{LARGEST_SHIFT}, in each epoch by others (default: %(default)s)")
    add("--seed", type=_whole(0), default=Options.seed, metavar="N",
        help="of parameters, shards and order; the same on all ranks (default: %(default)s)")
    add("--exchange", choices=EXCHANGES, default=Options.exchange,
        help="how gradients are averaged (default: %(default)s)")
    add("--overlap", action="store_true",
        help="average gradients while the others are computed (chunked)")
    add("--data", type=Path, metavar="DIR",
        help="holds MNIST/raw/, downloaded if it is not there "
        f"(default: {MOUNTED} if MNIST is in it, else ./data)")
    add("--model_path", type=Path, metavar="FILE",
        help="a model_state_dict.pth to start from")
    add("--checkpoint-dir", type=Path, metavar="DIR",
        help="where model_state_dict.pth, training_state.pth, metrics.jsonl and training.png "
        f"are written (default: ./{CHECKPOINTS}, if that can be)")
    add("--checkpoint-every", type=_whole(0), default=0, metavar="STEPS",
        help="write a checkpoint after so many steps, too (default: after each epoch, and when "
        "another rank fails)")
    add("--resume", action="store_true",
        help="go on from the newest checkpoint that a rank has in its --checkpoint-dir")
    add("--log-file", type=Path, metavar="FILE",
        help="append what is printed to a file, too")
    add("--timeout", type=_seconds, default=Options.timeout, metavar="SECONDS",
        help="how long to wait for another rank in each transfer (default: %(default)s)")
    add("--join-timeout", type=_seconds, default=Options.join_timeout, metavar="SECONDS",
        help="how long to wait until all ranks have come together (default: %(default)s)")
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


def _shift(text: str) -> int:
    pixels: int = _whole(0)(text)
    if pixels > LARGEST_SHIFT:
        raise argparse.ArgumentTypeError(f"{text!r} is more than {LARGEST_SHIFT} pixels")
    return pixels


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return number


def _decay(text: str) -> float | None:
    if text == "linear":
        return None
    number = _positive(text)
    if number > 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1")
    return number


def _seconds(text: str) -> float:
    number = _positive(text)
    if not 0.001 <= number <= LONGEST_TIMEOUT:  # Gloo counts milliseconds
        raise argparse.ArgumentTypeError(f"{text!r} is not 0.001 to {LONGEST_TIMEOUT} seconds")
    return number
