"""The trainer's command line."""

import dataclasses
from pathlib import Path

import pytest

from fedtest.ring import options
from fedtest.ring.options import Options

NEEDED = ["--init-method", "tcp://10.0.0.1:23456", "--rank", "1", "--world-size", "4"]


def test_defaults() -> None:
    found = options.parse(NEEDED)
    assert (found.init_method, found.rank, found.world_size) == ("tcp://10.0.0.1:23456", 1, 4)
    assert (found.epoch, found.timeout, found.gloo_socket_ifname) == (1, 60.0, None)


def test_mnist_is_where_a_testbed_mounts_it_or_comes_to_where_one_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(options, "MOUNTED", tmp_path)
    assert options.parse(NEEDED).data == Path("data")
    (tmp_path / "MNIST" / "raw").mkdir(parents=True)
    assert options.parse(NEEDED).data == tmp_path


@pytest.mark.parametrize("separator", ["-", "_"])
def test_dashes_and_underscores_are_one(separator: str) -> None:
    given = {
        "init-method": "tcp://[::1]:1",
        "rank": "0",
        "world-size": "2",
        "gloo-socket-ifname": "enps1",
        "epoch": "3",
        "batch-size": "16",
        "lr": "0.5",
        "lr-decay": "0.9",
        "shift": "2",
        "seed": "9",
        "data": "/somewhere",
        "exchange": "chunked",
        "model-path": "/start.pth",
        "checkpoint-dir": "/kept",
        "checkpoint-every": "50",
        "log-file": "/log",
        "timeout": "7.5",
        "join-timeout": "70",
    }
    arguments = [
        word
        for name, value in given.items()
        for word in ("--" + name.replace("-", separator), value)
    ]
    flags = {"overlap": True, "resume": False}  # have nothing to separate
    assert {name.replace("-", "_") for name in given} | flags.keys() == {
        field.name for field in dataclasses.fields(Options)
    }
    arguments += ["--" + name for name, on in flags.items() if on]
    assert options.parse(arguments) == options.Options(
        init_method="tcp://[::1]:1",
        rank=0,
        world_size=2,
        gloo_socket_ifname="enps1",
        epoch=3,
        batch_size=16,
        lr=0.5,
        lr_decay=0.9,
        shift=2,
        seed=9,
        data=Path("/somewhere"),
        exchange="chunked",
        overlap=True,
        model_path=Path("/start.pth"),
        checkpoint_dir=Path("/kept"),
        checkpoint_every=50,
        log_file=Path("/log"),
        timeout=7.5,
        join_timeout=70.0,
    )


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (["--init-method", "tcp://10.0.0.1"], "is not tcp://HOST:PORT"),
        (["--init-method", "10.0.0.1:23456"], "is not tcp://HOST:PORT"),
        (["--init-method", "tcp://h:65536"], "a port is 1 to 65535"),
        (["--rank", "4"], "ranks are 0 to 3"),
        (["--rank", "-1"], "--rank"),
        (["--world-size", "0"], "from 1 up"),
        (["--gloo_socket_ifname", "a-name-too-long-"], "1 to 15 characters"),
        (["--gloo_socket_ifname", "lo "], "no blank"),
        (["--epoch", "0"], "from 1 up"),
        (["--batch_size", "many"], "not a whole number"),
        (["--lr", "nan"], "above 0"),
        (["--lr-decay", "1.5"], "from 0 to 1"),
        (["--exchange", "star"], "invalid choice"),
        (["--overlap"], "--overlap is for --exchange chunked"),
        (["--resume", "--model_path", "x"], "not with --model_path"),
        (["--timeout", "inf"], "above 0"),
        (["--timeout", "1e9"], "seconds"),
        (["--world", "4"], "unrecognized arguments"),
    ],
)
def test_wrong_values_are_refused(
    capsys: pytest.CaptureFixture[str], changed: list[str], said: str
) -> None:
    with pytest.raises(SystemExit) as refused:
        options.parse([*NEEDED, *changed])
    assert refused.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["--init-method", "--rank", "--world-size"])
def test_what_is_needed_is_named(capsys: pytest.CaptureFixture[str], missing: str) -> None:
    place = NEEDED.index(missing)
    with pytest.raises(SystemExit) as refused:
        options.parse(NEEDED[:place] + NEEDED[place + 2 :], {})
    assert refused.value.code == 2
    assert missing in capsys.readouterr().err


TORCHRUN = {"RANK": "2", "WORLD_SIZE": "3", "MASTER_ADDR": "::1", "MASTER_PORT": "29500"}


def test_torchruns_variables_are_taken_for_what_is_not_given() -> None:
    found = options.parse([], TORCHRUN)
    assert (found.rank, found.world_size, found.address) == (2, 3, ("::1", 29500))
    assert options.parse(NEEDED, TORCHRUN) == options.parse(NEEDED, {})


def test_wrong_variables_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    for name, value in (("RANK", "x"), ("WORLD_SIZE", "0"), ("MASTER_PORT", "99999")):
        with pytest.raises(SystemExit):
            options.parse([], {**TORCHRUN, name: value})
        assert name in capsys.readouterr().err


def test_the_address_is_taken_apart() -> None:
    assert Options("tcp://[fd00::1]:7", 0, 1).address == ("fd00::1", 7)
    assert Options("tcp://server1:23456", 0, 1).address == ("server1", 23456)
