"""Whole trainings: the same bits twice, resumed ones, disagreements, and what is written."""

from __future__ import annotations

import json
import re
import shutil
import signal
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import ring_cases as cases
import torch
from PIL import Image, ImageColor
from ranks import DEADLINE, Start, finish

from fedtest.ring import agreement, checkpoint, model, plot
from fedtest.ring.errors import CheckpointError
from fedtest.ring.options import parse
from fedtest.ring.progress import METRICS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from comm_ranks import Ranks

    Run = Callable[..., Ranks]


def arguments(images: Path, directory: Path, *more: str) -> list[str]:
    return ["--data", str(images), "--checkpoint-dir", str(directory / "{rank}"), *more]


def trained(running: Ranks) -> list[dict[str, Any]]:
    """What each rank reports; all have trained."""
    found = running.results()
    assert [status for status, *_ in found] == [0] * len(found), found
    return [values for _, values, _, _ in found]


@pytest.mark.parametrize(
    "how",
    [("--exchange", "two-ring"), ("--exchange", "chunked", "--overlap"), ("--exchange", "gloo")],
)
def test_the_same_seed_gives_the_same_bits_and_a_resumed_training_too(
    ranks: Run, small_mnist: Path, tmp_path: Path, how: tuple[str, ...]
) -> None:
    """Two epochs of 4 steps on three ranks; then killed (so to speak) after 5 steps."""
    more = ("--batch-size", "17", "--epoch", "2", *how)
    whole = trained(ranks(cases.trains, 3, *arguments(small_mnist, tmp_path / "a", *more)))
    assert len({str(values) for values in whole}) == 1
    first = (tmp_path / "a" / "1" / checkpoint.MODEL).read_bytes()
    assert all((tmp_path / "a" / f"{r}" / checkpoint.MODEL).read_bytes() == first for r in (0, 2))

    again = arguments(small_mnist, tmp_path / "b", *more, "--checkpoint-every", "5")
    running = ranks(cases.stops_after, 3, 5, *again)
    assert running.results() == [5, 5, 5]
    # One has lost its checkpoint, and gets it from another.
    shutil.rmtree(tmp_path / "b" / "0")
    resumed = ranks(cases.trains, 3, *again, "--resume").results()
    assert [values for _, values, _, _ in resumed] == whole
    assert all("resumed epoch=2 step=5 from=rank1" in out for _, _, out, _ in resumed)
    assert (tmp_path / "b" / "2" / checkpoint.MODEL).read_bytes() == first

    # Where all is done there is nothing to do, and the same to report.
    done = trained(ranks(cases.trains, 3, *again, "--resume"))
    assert done == whole


def test_rank_0_writes_what_there_is_to_watch(
    ranks: Run, small_mnist: Path, tmp_path: Path
) -> None:
    more = ("--batch-size", "10", "--epoch", "2", "--log-file", str(tmp_path / "log{rank}"))
    running = ranks(cases.trains, 2, *arguments(small_mnist, tmp_path, *more))
    results = running.results()
    text = (tmp_path / "0" / "metrics.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    assert [row["step"] for row in rows] == [10, 11, 11, 20, 22, 22]
    assert [row["epoch"] for row in rows if "test_accuracy" in row] == [1, 2]
    step = rows[0]
    assert step["compute_ms"] > 0
    assert step["communication_ms"] > 0
    assert not (tmp_path / "1" / "metrics.jsonl").exists()
    out = results[0][2]
    picture = tmp_path / "0" / "training.png"
    assert f"drawn: {picture}" in out
    with Image.open(picture) as drawn:
        colours = {colour for _, colour in drawn.convert("RGB").getcolors(1 << 20)}
    for wanted in (plot.RED, plot.BLUE, plot.ORANGE, plot.SKY):
        assert ImageColor.getrgb(wanted) in colours
    log = (tmp_path / "log0").read_text(encoding="utf-8")
    assert "epoch=2 test_accuracy=" in log
    assert all(line in out for line in log.splitlines())


def test_a_training_starts_from_a_model(ranks: Run, small_mnist: Path, tmp_path: Path) -> None:
    torch.save(model.build(9).state_dict(), tmp_path / "start.pth")
    given = arguments(small_mnist, tmp_path, "--lr", "1e-30", "--lr-decay", "1")
    values = trained(ranks(cases.trains, 2, *given, "--model_path", str(tmp_path / "start.pth")))
    assert values[0]["params_sha256"] == model.digest(model.build(9))


def test_ranks_that_do_not_agree_are_told_in_what(
    ranks: Run, small_mnist: Path, tmp_path: Path
) -> None:
    found = ranks(cases.trains, 2, *arguments(small_mnist, tmp_path, "--seed", "1{rank}")).results()
    for rank, (status, values, _, err) in enumerate(found):
        assert status == 5
        assert values["error"] == "StartError"
        assert f"the ranks do not agree on --seed: '1{rank}' here, not so on rank {1 - rank}" in err


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (("--resume",), (4, "no rank has a training_state.pth")),
        (("--model_path", "/nosuch.pth"), (4, "/nosuch.pth cannot be read: No such file")),
        (("--checkpoint-dir", "/proc/x"), (4, "/proc/x cannot be written")),
        (("--init-method", "tcp://nosuch.invalid:1", "--rank", "0", "--world-size", "2"),
         (5, "the name 'nosuch.invalid' does not resolve here")),
        (("--init-method", "tcp://127.0.0.1:9", "--rank", "1", "--world-size", "2",
          "--join-timeout", "0.5"), (5, "127.0.0.1:9 refuses connections: the machine is there")),
    ],
)  # fmt: skip
def test_what_cannot_work_is_told_in_a_line(
    ranks: Run, small_mnist: Path, tmp_path: Path, more: tuple[str, ...], expected: tuple[int, str]
) -> None:
    found = ranks(cases.trains, 1, *arguments(small_mnist, tmp_path, *more)).result(0)
    assert (found[0], found[3].count("\n")) == (expected[0], 1), found
    assert expected[1] in found[3]


def test_a_checkpoint_of_another_seed_is_not_gone_on_from(
    ranks: Run, small_mnist: Path, tmp_path: Path
) -> None:
    trained(ranks(cases.trains, 1, *arguments(small_mnist, tmp_path)))
    given = arguments(small_mnist, tmp_path, "--seed", "7", "--resume")
    status, _, _, err = ranks(cases.trains, 1, *given).result(0)
    assert status == 4
    assert "the checkpoint was made with --seed 1, not 7" in err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--lr", "0.5"), "--lr 0.03, not 0.5"),
        (("--lr-decay", "0.5"), "--lr-decay linear, not 0.5"),
        (("--shift", "0"), "--shift 1, not 0"),
        (("--epoch", "2"), "--epoch 1, not 2"),
    ],
)
def test_what_the_rest_of_a_training_follows_from_is_compared(
    more: tuple[str, str], said: str
) -> None:
    needed = ["--init-method", "tcp://h:1", "--rank", "0", "--world-size", "1"]
    before, now = parse(needed), parse([*needed, *more])
    progress = checkpoint.Progress(1, 2, 2, before.seed, 1, before.batch_size, before.recipe)
    state = checkpoint.State(progress, {}, {})
    agreement.fits(state, before)
    with pytest.raises(CheckpointError, match=f"was made with {said};"):
        agreement.fits(state, now)
    # One of before the recipe was kept.
    agreement.fits(replace(state, progress=replace(progress, recipe={})), now)


def test_a_state_of_before_the_recipe_is_gone_on_from(
    ranks: Run, small_mnist: Path, tmp_path: Path
) -> None:
    """On two ranks, of which one has it; and a peer that dies before that leaves it as it was."""
    more = ("--checkpoint-every", "1")
    running = ranks(cases.stops_after, 2, 2, *arguments(small_mnist, tmp_path, *more))
    assert running.results() == [2, 2]
    shutil.rmtree(tmp_path / "0")
    path = tmp_path / "1" / checkpoint.STATE
    state = torch.load(path, weights_only=True)
    del state["recipe"]
    torch.save(state, path)
    before = path.read_bytes()

    given = arguments(small_mnist, tmp_path, "--resume", "--timeout", "20")
    (_, (status, values, out, err)) = ranks(cases.dies_agreeing, 2, 0, *given).results()
    assert (status, values["error"], values["error_rank"]) == (6, "RankLost", 0), err
    assert "checkpoint: step" not in out
    assert path.read_bytes() == before

    found = ranks(cases.trains, 2, *given).results()
    assert [status for status, *_ in found] == [0, 0], found
    assert all("resumed epoch=1 step=2 from=rank1" in out for _, _, out, _ in found)


def test_a_rank_that_ends_for_its_own_reason_is_told_with_it(
    ranks: Run, small_mnist: Path, tmp_path: Path
) -> None:
    """Rank 1, after the first step. Rank 0 cannot write, either, when it ends for that."""
    more = ("--exchange", "chunked", "--overlap", "--checkpoint-every", "{rank}")
    given = arguments(small_mnist, tmp_path, *more)
    found = ranks(cases.cannot_write, 3, (0, 1), *given).results()
    (zero, values, out, err), (one, _, _, own), (two, *_) = found
    assert (zero, one, two) == (6, 4, 6), found
    assert (values["error"], values["error_rank"]) == ("RankLost", 1)
    assert "rank 1 has ended: CheckpointError: no place to write to" in err
    assert "CheckpointError: no place to write to" in own
    assert "no checkpoint: no place to write to" in out
    assert (tmp_path / "2" / checkpoint.STATE).exists()


@pytest.mark.parametrize("ring", ["first ring", "second ring"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_rank_that_falls_in_either_ring_is_named_with_it(
    ranks: Run, small_mnist: Path, tmp_path: Path, ring: str, how: signal.Signals
) -> None:
    given = arguments(small_mnist, tmp_path, "--batch-size", "10", "--timeout", "5")
    running = ranks(cases.falls, 4, 1, ring, how, *given)
    kind = "RankLost" if how == signal.SIGKILL else "RankSilent"
    phases = {}
    for rank in (0, 2, 3):
        status, values, _, err = running.result(rank)
        assert (status, values["error"], values["error_rank"]) == (6, kind, 1), err
        phases[rank] = values["error_phase"]
        kept = tmp_path / f"{rank}"
        state = checkpoint.read_state(kept / checkpoint.STATE, model.build(1))
        assert state.progress.done in {2, 3}
        assert torch.load(kept / checkpoint.MODEL, weights_only=True)
    # The one after it waits for it in that ring; others may have gone on to the next step.
    assert phases[2] == f"epoch 1 step 3, {ring}"
    assert all(re.fullmatch("epoch 1 step [34], (first|second) ring", p) for p in phases.values())


def test_ranks_of_another_world_size_are_told(
    ranks: Run, small_mnist: Path, tmp_path: Path
) -> None:
    given = arguments(small_mnist, tmp_path, "--join-timeout", "8")
    running = ranks(cases.trains_as, 2, [0, 1], [2, 3], *given)
    for process in (0, 1):
        running.tell(process)
    found = running.results()
    assert [status for status, *_ in found] == [5, 5]
    assert "WorldSizeError" in {values["error"] for _, values, _, _ in found}, found


def test_a_rank_that_is_taken_is_refused_and_the_training_goes_on(
    ranks: Run, small_mnist: Path, tmp_path: Path
) -> None:
    given = arguments(small_mnist, tmp_path, "--epoch", "1000000", "--checkpoint-every", "1")
    running = ranks(cases.trains_as, 3, [0, 1, 1], [2, 2, 2], *given)
    for process in (0, 1):
        running.tell(process)
    metrics = tmp_path / "0" / METRICS
    trained_on(metrics, 0)
    running.tell(2)
    status, values, _, err = running.result(2)
    assert (status, values["error"]) == (5, "DuplicateRank"), err
    trained_on(metrics, metrics.stat().st_size)


def trained_on(metrics: Path, size: int) -> None:
    """Wait until there is more in the file."""
    until = time.monotonic() + DEADLINE
    while not metrics.exists() or metrics.stat().st_size <= size:
        assert time.monotonic() < until
        time.sleep(0.05)


def test_the_interface_in_the_masters_network_is_taken_if_asked_for(
    ranks: Run, small_mnist: Path, tmp_path: Path
) -> None:
    given = arguments(small_mnist, tmp_path, "--gloo_socket_ifname", "auto")
    # It wins over the variable, so that it was taken is seen where the own name leads to it, too.
    found = ranks(cases.trains, 2, *given, GLOO_SOCKET_IFNAME="nosuch0").results()
    for status, values, out, err in found:
        assert (status, values.get("interface")) == (0, "lo"), err
        assert "\ninterfaces: lo 127.0.0.1/8" in out
        assert "proposal: " not in out


def test_a_training_that_diverges_reports_its_values(
    ranks: Run, small_mnist: Path, tmp_path: Path
) -> None:
    given = arguments(small_mnist, tmp_path, "--lr", "1e30", "--batch-size", "10", "--epoch", "2")
    status, values, out, err = ranks(cases.trains, 1, *given).result(0)
    assert (status, err) == (0, "")
    assert values.keys() >= {"test_accuracy", "params_sha256"}
    assert out.index("params_sha256") < out.index("drawn: ")
    text = (tmp_path / "0" / "metrics.jsonl").read_text(encoding="utf-8")
    assert "NaN" not in text
    assert None in [json.loads(line).get("loss", 0) for line in text.splitlines()]


def test_a_log_on_a_full_disk_is_told_once(ranks: Run, small_mnist: Path, tmp_path: Path) -> None:
    given = arguments(small_mnist, tmp_path, "--log-file", "/dev/full")
    status, values, out, err = ranks(cases.trains, 1, *given).result(0)
    assert (status, err) == (0, "")
    assert out.count("no more lines in /dev/full: No space left on device") == 1
    assert "params_sha256" in values


@pytest.mark.skipif(torch.__version__ < "2", reason="its torchrun does not run on Python 3.11")
def test_ranks_started_by_torchrun_train(
    start: Start, small_mnist: Path, tmp_path: Path, port: int
) -> None:
    launcher = start(
        [
            *("-m", "torch.distributed.run", "--nnodes", "1", "--nproc-per-node", "2"),
            *("--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}"),
            *("--local-addr", "127.0.0.1", "-m", "fedtest.ring"),
            *("--gloo_socket_ifname", "lo", "--data", str(small_mnist)),
            *("--checkpoint-dir", str(tmp_path / "kept")),
        ]
    )
    [(status, out, err)] = finish([launcher])
    assert status == 0, err
    assert out.count('"name": "params_sha256"') == 2
