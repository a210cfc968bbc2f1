"""MNIST through torchvision: fetched once, cut into shards, normalised in bulk."""

import fcntl
import hashlib
import os
import shutil
import socket
from pathlib import Path
from typing import Any

import torch
from torchvision.datasets import MNIST
from torchvision.transforms.functional import normalize, pad

from fedtest.comm.errors import one_line
from fedtest.ring.errors import DataError

Tensor = Any

FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
MEAN, DEVIATION = 0.1307, 0.3081  # of the training images' pixels, as 0 to 1
SILENCE = 30.0  # seconds a mirror may say nothing during a download


def load(root: Path, *, train: bool) -> tuple[Tensor, Tensor]:
    """All images, uint8 [n, 28, 28], and their digits, int64 [n], from root/MNIST/raw/.

    n is 60,000 for training and 10,000 for testing. Downloads what is not
    there. Raises DataError with what to do.
    """
    provide(root)
    try:
        dataset = MNIST(root, train=train)
    except (RuntimeError, OSError, AssertionError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"cannot read MNIST in {root / 'MNIST' / 'raw'}: {one_line(error)}; "
            "if a file is damaged, remove it and start again"
        ) from error
    return dataset.data, dataset.targets


def provide(root: Path) -> None:
    """Make sure that root/MNIST/raw/ has the four files, whole.

    Ranks that share a directory wait for the one that downloads (a lock the
    kernel drops when its holder dies). Files appear there by renaming, when
    they are complete, so nobody reads half of one. A directory that has them
    is not written to and may be read-only. Raises DataError.
    """
    raw = root / "MNIST" / "raw"
    if _complete(raw):
        return
    try:
        raw.mkdir(parents=True, exist_ok=True)
        with (root / ".MNIST.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                print(f"waiting: another process downloads MNIST to {root}", flush=True)  # noqa: T201
                fcntl.flock(lock, fcntl.LOCK_EX)
            if not _complete(raw):
                _download(root / ".MNIST.download", raw)
    except (RuntimeError, OSError) as error:
        raise DataError(
            f"MNIST is not in {raw} and could not be downloaded: {one_line(error)}; "
            f"put {', '.join(FILES)} (unpacked) there, or name another directory with --data"
        ) from error


def _complete(raw: Path) -> bool:
    return all((raw / name).is_file() for name in FILES)


def _download(scratch: Path, raw: Path) -> None:
    """Let torchvision download (and check) into `scratch`, then move into `raw`. Needs the lock."""
    print(f"downloading MNIST to {raw}", flush=True)  # noqa: T201
    shutil.rmtree(scratch, ignore_errors=True)  # left by a download that was killed
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(SILENCE)
    try:
        MNIST(scratch, download=True)
        for name in FILES:
            os.replace(scratch / "MNIST" / "raw" / name, raw / name)  # noqa: PTH105
    finally:
        socket.setdefaulttimeout(before)
        shutil.rmtree(scratch, ignore_errors=True)


def part(count: int, rank: int, world_size: int) -> slice:
    """The `rank`-th of `world_size` consecutive parts of `count` things.

    Together they are all of them, they do not overlap, and their lengths
    differ by at most one.
    """
    return slice(count * rank // world_size, count * (rank + 1) // world_size)


def length(piece: slice) -> int:
    return int(piece.stop - piece.start)


def shard(count: int, rank: int, world_size: int, seed: int, epoch: int) -> Tensor:
    """The indices of the samples that `rank` trains on in `epoch`, int64, in their order.

    Its part of a shuffle of all that is the same on every rank, and another in
    every epoch.
    """
    shuffled = torch.randperm(count, generator=_generator("shards", seed, epoch))
    return shuffled[part(count, rank, world_size)]


def steps(count: int, world_size: int, batch_size: int) -> int:
    """How many steps an epoch has, on every rank the same: as many as the largest shard needs."""
    largest = -(-count // world_size)
    return -(-largest // batch_size)


def batch(count: int, step: int, steps: int) -> slice:
    """What of its `count` samples a rank takes in `step` (from 0) of `steps`.

    Spread evenly: a shard that is one shorter has one batch that is one
    shorter (of length zero if it must be), not one batch less, at which the
    other ranks would wait for ever.
    """
    return part(count, step, steps)


def batch_over_all(count: int, world_size: int, step: int, steps: int) -> int:
    """How many samples all ranks together take in `step`."""
    shards = (length(part(count, rank, world_size)) for rank in range(world_size))
    return sum(length(batch(own, step, steps)) for own in shards)


class Shifted:
    """Training images, each moved by up to `most` pixels in both directions, others every epoch.

    How an image is moved depends on seed, epoch and the image: not on which rank
    takes it. What moves out of the picture is lost, what comes in is black.
    """

    def __init__(self, images: Tensor, most: int) -> None:
        self._images = images
        self._ways = 2 * most + 1
        count, height, width = images.shape
        if most:
            padded = pad(images, [most] * 4)
            down, across = padded.stride()[1:]
            # All ways to cut an image out of its padded one, without a copy.
            size = (count, self._ways, self._ways, height, width)
            strides = (padded.stride(0), down, across, down, across)
            self._cut = padded.as_strided(size, strides)
        self._by: Tensor = torch.empty(0)

    def begin(self, seed: int, epoch: int) -> None:
        """How they are moved in this epoch."""
        shape = (2, len(self._images))
        self._by = torch.randint(self._ways, shape, generator=_generator("shifts", seed, epoch))

    def __getitem__(self, chosen: Tensor) -> Tensor:
        """The images of these indices, uint8 [n, height, width]."""
        if self._ways == 1:
            return self._images[chosen]
        down, across = self._by[:, chosen]
        return self._cut[chosen, down, across]


def normalised(images: Tensor) -> Tensor:
    """uint8 [n, 28, 28] to float32 [n, 1, 28, 28] with mean 0 and deviation 1 (of all MNIST)."""
    return normalize(images.unsqueeze(1).float().div_(255), [MEAN], [DEVIATION], inplace=True)


def _generator(*key: object) -> Any:
    words = " ".join(map(str, key)).encode()
    number = int.from_bytes(hashlib.sha256(words).digest()[:8]) >> 1
    return torch.Generator().manual_seed(number)
