"""The trainer from its command line: it learns, ranks agree, and failures are one clear line."""

import re
import signal
import socket
import subprocess
from pathlib import Path

import pytest
import torch
from ranks import Start, finish

from fedtest import values
from fedtest.ring import checkpoint, data, model, training
from fedtest.ring.exchanges import TwoRing
from fedtest.ring.options import Options, parse
from fedtest.ring.training import Training


def arguments(rank: int, size: int, port: int, images: Path, *more: str) -> list[str]:
    checkpoints = str(images.parent / f"checkpoints{rank}")
    return [
        "-u",
        *("-m", "fedtest.ring", "--init-method", f"tcp://127.0.0.1:{port}"),
        *("--rank", str(rank), "--world-size", str(size), "--data", str(images)),
        *("--gloo_socket_ifname", "lo", "--checkpoint-dir", checkpoints, *more),
    ]


def reported(out: str) -> dict[str, object]:
    return dict(filter(None, map(values.parse, out.splitlines())))


def one_line(err: str) -> str:
    """The trainer's own line; torch's warnings beside it are allowed, tracebacks are not."""
    assert "Traceback" not in err
    own = [line for line in err.splitlines() if line.startswith("fedtest.ring: ")]
    assert len(own) == 1, err
    return own[0]


def test_two_ranks_learn_and_agree(start: Start, port: int, few_mnist: Path) -> None:
    ranks = [start(arguments(rank, 2, port, few_mnist)) for rank in range(2)]
    ended = finish(ranks)
    assert [status for status, _, _ in ended] == [0, 0], ended
    first, second = (reported(out) for _, out, _ in ended)
    assert first == second
    assert first["interface"] == "lo"
    assert re.fullmatch("[0-9a-f]{64}", str(first["params_sha256"]))
    accuracy = first["test_accuracy"]
    assert isinstance(accuracy, float)
    assert accuracy >= 0.8  # 4,000 images
    for rank, (_, out, err) in enumerate(ended):
        assert err == ""
        assert out.startswith(f"rank={rank} world_size=2 interface=lo init_method=tcp://127.0.0.1:")
        for step in (10, 50, 60):
            assert re.search(
                rf"^epoch=1 step={step} loss=\d+\.\d{{4}} accuracy=[01]\.\d{{4}} "
                r"samples_per_s=\d+ communication=\d+%$",
                out,
                re.MULTILINE,
            )
        told = list(filter(None, map(values.parse_progress, out.splitlines())))
        assert told == sorted(set(told))
        assert told[-1] == 1.0
        assert len(told) <= 101


def test_a_rank_alone_recognises_98_of_100_digits_after_an_epoch(
    start: Start, port: int, real_mnist: Path, tmp_path: Path
) -> None:
    """Two and four ranks do so in the scenarios that ship."""
    more = ("--checkpoint-dir", str(tmp_path / "kept"))
    [(status, out, err)] = finish([start(arguments(0, 1, port, real_mnist, *more))], 400)
    assert status == 0, err
    accuracy = reported(out)["test_accuracy"]
    assert isinstance(accuracy, float)
    assert accuracy >= 0.98


def test_an_odd_number_of_images_over_three_ranks(
    start: Start, port: int, small_mnist: Path
) -> None:
    """Shards of 68, 68 and 67: with batches of 34 two ranks are full and one is not."""
    ranks = [
        start(arguments(rank, 3, port, small_mnist, "--batch-size", "34", "--epoch", "2"))
        for rank in range(3)
    ]
    ended = finish(ranks)
    assert [status for status, _, _ in ended] == [0, 0, 0], ended
    assert len({str(reported(out)) for _, out, _ in ended}) == 1
    assert all("epoch=2 step=4 " in out for _, out, _ in ended)


class Alone:
    """A group of one."""

    rank, size = 0, 1


def test_a_rank_alone_trains_as_a_plain_loop_would(small_mnist: Path) -> None:
    options = parse(
        [
            "--init-method=tcp://h:1",
            "--rank=0",
            "--world-size=1",
            "--shift=0",
            "--epoch=2",
            f"--data={small_mnist}",
        ]
    )
    images, digits = torch.randint(0, 256, (40, 28, 28), dtype=torch.uint8), torch.arange(40) % 10
    network, plain = model.build(3), model.build(3)
    rows: list[object] = []
    mine = Training(options, network, (images, digits))
    for epoch in (1, 2):
        mine.epoch, mine.step = epoch, 0
        mine.run_epoch(TwoRing(Alone()), rows.append, lambda: None)
        assert (mine.step, mine.done, len(rows)) == (2, 2 * epoch, epoch)

    optimizer = torch.optim.SGD(plain.parameters(), lr=1.0, momentum=0.9, nesterov=True)
    ready = data.normalised(images)
    orders = [data.shard(40, 0, 1, options.seed, epoch) for epoch in (1, 2)]  # each its own
    for step, chosen in enumerate(part for order in orders for part in (order[:20], order[20:])):
        optimizer.param_groups[0]["lr"] = training.learning_rate(options, step, 2)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(plain(ready[chosen]), digits[chosen]).backward()
        optimizer.step()
    for trained, wanted in zip(network.parameters(), plain.parameters(), strict=True):
        assert torch.allclose(trained, wanted, rtol=1e-4, atol=1e-6)


def test_the_digest_sees_values_not_layout() -> None:
    network = model.build(3)
    digest = model.digest(network)
    assert model.digest(network.to(memory_format=torch.contiguous_format)) == digest
    assert model.digest(model.build(4)) != digest


def test_the_learning_rate_rises_and_falls_for_any_number_of_steps() -> None:
    for steps in (1, 2, 10, 469):
        for epochs in (1, 3):
            options = Options("tcp://h:1", 0, 4, lr=0.1, epoch=epochs)
            rates = [training.learning_rate(options, n, steps) for n in range(steps * epochs)]
            assert max(rates) == pytest.approx(0.2)
            assert min(rates) > 0
            assert rates[-1] == min(rates[1:], default=rates[-1])


def test_the_learning_rate_decays_by_the_factor_that_was_asked_for() -> None:
    options = Options("tcp://h:1", 0, 1, lr=0.1, epoch=3, lr_decay=0.5)
    assert [training.learning_rate(options, done, 10) for done in (9, 10, 29)] == pytest.approx(
        [0.1, 0.05, 0.025]
    )


def wait_for(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return
    pytest.fail(f"ended without {text!r}: {process.communicate()}")


def test_a_killed_peer_ends_every_other_rank(start: Start, port: int, small_mnist: Path) -> None:
    more = ("--epoch", "1000000", "--timeout", "30")
    ranks = [start(arguments(rank, 3, port, small_mnist, *more)) for rank in range(3)]
    for rank in ranks:
        wait_for(rank, "step=10 ")
    ranks[1].kill()
    (zero, _, said_zero), _, (two, _, said_two) = finish(ranks)
    assert (zero, two) == (6, 6)
    for rank, said in ((0, said_zero), (2, said_two)):
        assert re.match(
            rf"fedtest.ring: rank {rank}: RankLost: epoch \d+ step \d+, (first|second) ring: "
            "rank 1 is lost: its process ended without a word; ",
            one_line(said),
        )
        # Where it was after the last whole step; it loads.
        kept = small_mnist.parent / f"checkpoints{rank}"
        assert checkpoint.read_state(kept / checkpoint.STATE, model.build(1)).progress.done >= 10
        assert torch.load(kept / checkpoint.MODEL, weights_only=True)


def test_a_silent_peer_is_a_time_out(start: Start, port: int, small_mnist: Path) -> None:
    more = ("--epoch", "1000000", "--timeout", "5")
    ranks = [start(arguments(rank, 2, port, small_mnist, *more)) for rank in range(2)]
    for rank in ranks:
        wait_for(rank, "step=10 ")
    ranks[1].send_signal(signal.SIGSTOP)
    status, out, err = finish(ranks[:1])[0]
    assert status == 6
    assert re.search(r"RankSilent: .* ring: rank 1 was silent for 5 s; ", one_line(err))
    assert reported(out)["error_rank"] == 1


def test_a_wrong_interface_is_named_and_its_peer_does_not_wait_for_ever(
    start: Start, port: int, small_mnist: Path
) -> None:
    right = start(arguments(0, 2, port, small_mnist, "--join-timeout", "8"))
    wrong = start(
        arguments(1, 2, port, small_mnist, "--join-timeout", "8", "--gloo_socket_ifname", "nosuch0")
    )
    (status, _, err), (status_wrong, _, err_wrong) = finish([right, wrong])
    assert (status, status_wrong) == (5, 5)
    assert "rank 1: InterfaceError: no interface 'nosuch0' here; there are" in one_line(err_wrong)
    assert "rank 0: RendezvousTimeout: joining as rank 0 of 2" in one_line(err)
    assert "missing: rank 1" in one_line(err)


def test_a_taken_port_is_named(start: Start, small_mnist: Path) -> None:
    with socket.create_server(("", 0)) as other:
        taken = other.getsockname()[1]
        status, _, err = finish([start(arguments(0, 2, taken, small_mnist))])[0]
    assert status == 5
    assert f"PortTaken: port {taken} is in use on this machine" in one_line(err)


@pytest.mark.skipif(torch.__version__ < "2", reason="its store waits with the interpreter locked")
def test_a_silent_stranger_on_the_port_does_not_hold_a_rank_for_ever(
    start: Start, small_mnist: Path
) -> None:
    with socket.create_server(("", 0)) as stranger:
        taken = stranger.getsockname()[1]
        status, _, err = finish(
            [start(arguments(1, 2, taken, small_mnist, "--join-timeout", "2"))]
        )[0]
    assert status == 5
    assert "RendezvousTimeout: joining as rank 1 of 2" in one_line(err)


def test_missing_data_is_one_line(start: Start, port: int, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    status, _, err = finish([start(arguments(0, 1, port, tmp_path / "file"))])[0]
    assert status == 3
    assert "MNIST is not in" in one_line(err)


def test_wrong_usage_is_status_2_without_torch(start: Start) -> None:
    status, _, err = finish([start(["-X", "importtime", "-m", "fedtest.ring", "--rank", "0"])])[0]
    assert status == 2
    assert "arguments are required: --init-method, --world-size" in err
    assert "torch" not in {line.rsplit("|", 1)[-1].strip() for line in err.splitlines()}
