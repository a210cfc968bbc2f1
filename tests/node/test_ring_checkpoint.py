"""Checkpoints: whole or not at all, loadable by anyone, and nothing in one is run."""

from __future__ import annotations

import io
import os
import pickle
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Tuple  # noqa: UP035 - TorchScript knows no tuple[...]

import pytest
import torch
from torch import nn

from fedtest.ring import checkpoint, model
from fedtest.ring.checkpoint import Progress
from fedtest.ring.errors import CheckpointError

if TYPE_CHECKING:
    from pathlib import Path


def trained() -> tuple[Any, Any]:
    network = model.build(3)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    network(torch.randn(4, 1, 28, 28)).sum().backward()
    optimizer.step()
    return network, optimizer


@pytest.fixture
def written(tmp_path: Path) -> tuple[Path, Any, Any]:
    network, optimizer = trained()
    checkpoint.write(
        tmp_path, checkpoint.state_of(network, optimizer, Progress(2, 7, 107, 5, 2, 32))
    )
    return tmp_path, network, optimizer


def test_the_model_is_loadable_by_anyone(written: tuple[Path, Any, Any]) -> None:
    directory, network, _ = written
    found = torch.load(directory / checkpoint.MODEL, weights_only=True)
    assert all(torch.equal(found[name], value) for name, value in network.state_dict().items())
    assert found.keys() == network.state_dict().keys()
    assert sorted(path.name for path in directory.iterdir()) == [checkpoint.MODEL, checkpoint.STATE]


def test_a_state_comes_back_bit_for_bit(written: tuple[Path, Any, Any]) -> None:
    directory, network, optimizer = written
    state = checkpoint.read_state(directory / checkpoint.STATE, network)
    assert state.progress == Progress(2, 7, 107, 5, 2, 32)
    other = model.build(4)
    second = torch.optim.SGD(other.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    checkpoint.apply(state, other, second)
    assert model.digest(other) == model.digest(network)
    for mine, theirs in zip(network.parameters(), other.parameters(), strict=True):
        kept = second.state[theirs]["momentum_buffer"]
        assert torch.equal(optimizer.state[mine]["momentum_buffer"], kept)
        assert kept.stride() == theirs.stride()


def test_parameters_are_also_read_from_a_state(written: tuple[Path, Any, Any]) -> None:
    directory, network, _ = written
    for name in (checkpoint.MODEL, checkpoint.STATE):
        found = checkpoint.read_model(directory / name, model.build(4))
        assert all(torch.equal(found[key], value) for key, value in network.state_dict().items())


@pytest.mark.parametrize("name", [checkpoint.MODEL, checkpoint.STATE])
def test_a_truncated_file_is_refused_wherever_it_ends(
    written: tuple[Path, Any, Any], name: str
) -> None:
    directory, network, _ = written
    path = directory / name
    whole = path.read_bytes()
    read = checkpoint.read_model if name == checkpoint.MODEL else checkpoint.read_state
    for length in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match=r"truncated.*nothing of it was run") as refused:
            read(path, network)
        assert str(path) in str(refused.value)
        assert "\n" not in str(refused.value)


def test_a_damaged_file_is_refused_or_has_other_values_but_never_a_traceback(
    written: tuple[Path, Any, Any],
) -> None:
    directory, network, _ = written
    path = directory / checkpoint.STATE
    whole = path.read_bytes()
    for place in range(0, 4000, 131):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        with suppress(CheckpointError):
            checkpoint.read_state(path, network)


class Malicious:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def test_a_pickle_that_would_run_something_runs_nothing(tmp_path: Path) -> None:
    network = model.build(3)
    ran = tmp_path / "ran"
    bare = pickle.dumps({"format": 1, "model": Malicious(ran)})
    memory = io.BytesIO()
    torch.save({**network.state_dict(), "0.weight": Malicious(ran)}, memory)
    for content in (bare, memory.getvalue()):
        path = tmp_path / "model.pth"
        path.write_bytes(content)
        for read in (checkpoint.read_model, checkpoint.read_state):
            with pytest.raises(CheckpointError, match="nothing of it was run"):
                read(path, network)
    assert not ran.exists()


class Scripted(nn.Module):
    """Its `__setstate__` is run when it is loaded; here it adds one to a number."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3))
        self.loaded = 0

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return values * self.weight

    @torch.jit.export
    def __getstate__(self) -> Tuple[torch.Tensor, int, bool]:  # noqa: UP006 - TorchScript's
        return self.weight, self.loaded, self.training

    @torch.jit.export
    def __setstate__(self, state: Tuple[torch.Tensor, int, bool]) -> None:  # noqa: UP006
        self.weight = state[0]
        self.loaded = state[1] + 1
        self.training = state[2]


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_a_program_is_refused_before_torch_sees_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.pth"
    torch.jit.save(torch.jit.script(Scripted()), path)
    assert torch.jit.load(path).loaded == 1  # so it would be run
    program = path.read_bytes()

    def loaded(*_: object, **__: object) -> None:
        pytest.fail("torch has seen it")

    monkeypatch.setattr(torch, "load", loaded)
    # The second is a program to who looks for the archive's end only.
    for content, said in ((program, "a program"), (b"#!" + program, "not a checkpoint")):
        path.write_bytes(content)
        for read in (checkpoint.read_model, checkpoint.read_state):
            with pytest.raises(CheckpointError, match=rf"{said}.*nothing of it was run"):
                read(path, model.build(3))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"0.weight": torch.zeros(3)}, r"of another model: .*no 0.bias.* more"),
        (torch.zeros(3), "not a dictionary of parameters"),
        ([1, 2], "not a dictionary of parameters"),
        ({1: torch.zeros(3)}, "not a dictionary of parameters"),
    ],
)
def test_what_is_of_another_model_is_told(tmp_path: Path, content: object, said: str) -> None:
    path = tmp_path / "model.pth"
    torch.save(content, path)
    with pytest.raises(CheckpointError, match=said):
        checkpoint.read_model(path, model.build(3))


def test_each_difference_is_named(tmp_path: Path) -> None:
    network = model.build(3)
    changed = dict(network.state_dict())
    changed["0.bias"] = torch.zeros(17)
    changed["5.bias"] = changed["5.bias"].double()
    changed["7.bias"] = "text"
    path = tmp_path / "model.pth"
    torch.save(changed, path)
    with pytest.raises(CheckpointError) as refused:
        checkpoint.read_model(path, network)
    said = str(refused.value)
    assert "0.bias is torch.float32[17], not torch.float32[16]" in said
    assert "5.bias is torch.float64[32], not torch.float32[32]" in said
    assert "7.bias is no tensor" in said


def test_a_state_of_another_kind_is_refused(written: tuple[Path, Any, Any]) -> None:
    directory, network, _ = written
    path = directory / checkpoint.STATE
    good = torch.load(path, weights_only=True)
    for change in ({"format": 2}, {"epoch": -1}, {"seed": "1"}, {"step": True}, {"optimizer": [1]},
                   {"recipe": [1]}, {"recipe": {"lr": 0.03}}):  # fmt: skip
        torch.save({**good, **change}, path)
        with pytest.raises(CheckpointError):
            checkpoint.read_state(path, network)
    with pytest.raises(CheckpointError, match="not the state of a training"):
        checkpoint.read_state(directory / checkpoint.MODEL, network)
    with pytest.raises(CheckpointError, match="No such file"):
        checkpoint.read_state(directory / "none", network)


def test_what_cannot_be_written_leaves_what_was_there(
    written: tuple[Path, Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, network, optimizer = written
    before = {path.name: path.read_bytes() for path in directory.iterdir()}

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match="cannot be written: No space left"):
        checkpoint.write(
            directory, checkpoint.state_of(network, optimizer, Progress(3, 0, 200, 5, 2, 32))
        )
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before
