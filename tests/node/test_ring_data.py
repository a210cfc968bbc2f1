"""Shards and batches lose nothing; MNIST is fetched once, and whole or not at all."""

import hashlib
import threading
from pathlib import Path

import pytest
import torch
from ranks import copy

from fedtest.ring import data
from fedtest.ring.errors import DataError

COUNTS = [(60_000, 1), (60_000, 4), (60_000, 7), (13, 4), (3, 5)]


@pytest.mark.parametrize(("count", "world_size"), COUNTS)
def test_shards_are_disjoint_complete_and_even(count: int, world_size: int) -> None:
    shards = [data.shard(count, rank, world_size, 5, 1) for rank in range(world_size)]
    assert torch.equal(torch.cat(shards).sort().values, torch.arange(count))
    lengths = [len(shard) for shard in shards]
    assert max(lengths) - min(lengths) <= 1
    again = [data.shard(count, rank, world_size, 5, 1) for rank in range(world_size)]
    assert all(map(torch.equal, shards, again))


def test_another_seed_or_epoch_gives_other_shards() -> None:
    first = data.shard(100, 0, 2, seed=1, epoch=1)
    assert not torch.equal(first, data.shard(100, 0, 2, seed=2, epoch=1))
    assert not torch.equal(first.sort().values, data.shard(100, 0, 2, 1, 2).sort().values)


@pytest.mark.parametrize(("count", "world_size"), COUNTS)
@pytest.mark.parametrize("batch_size", [1, 32, 100])
def test_all_ranks_take_as_many_steps_and_lose_no_sample(
    count: int, world_size: int, batch_size: int
) -> None:
    steps = data.steps(count, world_size, batch_size)
    taken = torch.zeros(steps, dtype=torch.int64)
    for rank in range(world_size):
        own = data.length(data.part(count, rank, world_size))
        pieces = [data.batch(own, step, steps) for step in range(steps)]
        assert [index for piece in pieces for index in range(own)[piece]] == list(range(own))
        lengths = torch.tensor([data.length(piece) for piece in pieces])
        assert int(lengths.max()) <= batch_size
        taken += lengths
    for step in {0, steps // 2, steps - 1}:
        assert data.batch_over_all(count, world_size, step, steps) == taken[step] > 0


def test_images_are_normalised_in_bulk(small_mnist: Path) -> None:
    images, digits = data.load(small_mnist, train=True)
    assert images.shape == (203, 28, 28)
    assert digits.dtype == torch.int64
    ready = data.normalised(images)
    assert ready.shape == (203, 1, 28, 28)
    assert ready.dtype == torch.float32
    wanted = (images.double() / 255 - data.MEAN) / data.DEVIATION
    assert torch.allclose(ready[:, 0].double(), wanted, atol=1e-6)
    assert int(images.max()) == 255  # and the original is as it was


def test_images_are_moved_by_seed_epoch_and_image(small_mnist: Path) -> None:
    images, _ = data.load(small_mnist, train=True)
    moved = data.Shifted(images, 2)
    everything = torch.arange(len(images))
    seen = []
    for seed, epoch in ((1, 1), (1, 2), (2, 1)):
        moved.begin(seed, epoch)
        now = moved[everything]
        # Whoever takes an image, in whatever order, gets the same.
        assert torch.equal(moved[everything[50:].flip(0)], now[50:].flip(0))
        seen.append(now)
    assert not torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[0], seen[2])
    moved.begin(1, 1)
    assert torch.equal(moved[everything], seen[0])

    # Each is the image, moved: one of 25 ways, all of which occur.
    framed = torch.nn.functional.pad(images, [2, 2, 2, 2])
    ways = [framed[:, y : y + 28, x : x + 28] for y in range(5) for x in range(5)]
    same = torch.stack([(way == seen[0]).all(2).all(1) for way in ways])
    assert same.any(0).all()
    assert same.any(1).all()


def test_images_stay_where_they_are_if_asked_for(small_mnist: Path) -> None:
    images, _ = data.load(small_mnist, train=True)
    moved = data.Shifted(images, 0)
    moved.begin(1, 1)
    assert torch.equal(moved[torch.arange(203)], images)


def test_real_mnist_has_the_size_and_mean_it_must_have(real_mnist: Path) -> None:
    train, digits = data.load(real_mnist, train=True)
    test, _ = data.load(real_mnist, train=False)
    assert (len(train), len(digits), len(test)) == (60_000, 60_000, 10_000)
    assert abs(float(train.float().mean()) / 255 - data.MEAN) < 1e-3


def test_ranks_that_share_a_directory_download_once(
    monkeypatch: pytest.MonkeyPatch, small_mnist: Path, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    raw = shared / "MNIST" / "raw"
    (shared / ".MNIST.download").mkdir(parents=True)
    (shared / ".MNIST.download" / "left").touch()  # by a download that was killed
    downloads = []
    waiting = threading.Event()  # set when another rank has found the lock taken

    def download(root: Path, *, download: bool) -> None:
        assert download
        downloads.append(root)
        assert waiting.wait(30)
        copy(small_mnist, root)
        assert not any(raw.iterdir())  # nothing is visible before all is there

    def say(*words: str, flush: bool) -> None:
        assert flush
        if words[0].startswith("waiting"):
            waiting.set()

    monkeypatch.setattr(data, "MNIST", download)
    monkeypatch.setattr(data, "print", say, raising=False)
    ranks = [threading.Thread(daemon=True, target=data.provide, args=(shared,)) for _ in range(4)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(60)
        assert not rank.is_alive()
    assert len(downloads) == 1
    for name in data.FILES:
        original = small_mnist / "MNIST" / "raw" / name
        assert hashlib.sha256((raw / name).read_bytes()).digest() == (
            hashlib.sha256(original.read_bytes()).digest()
        )
    assert not (shared / ".MNIST.download").exists()


def test_a_failed_download_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def download(root: Path, *, download: bool) -> None:
        raise RuntimeError(f"Error downloading\nto {root} {download}")

    monkeypatch.setattr(data, "MNIST", download)
    with pytest.raises(DataError) as failed:
        data.provide(tmp_path)
    said = str(failed.value)
    assert "Error downloading to" in said
    assert "\n" not in said
    assert str(tmp_path / "MNIST" / "raw") in said
    assert all(name in said for name in data.FILES)


def test_a_damaged_file_is_an_error_with_its_place(small_mnist: Path) -> None:
    raw = small_mnist / "MNIST" / "raw"
    (raw / "train-images-idx3-ubyte").write_bytes(b"not MNIST")
    with pytest.raises(DataError, match=r"cannot read MNIST in .*remove it"):
        data.load(small_mnist, train=True)
