"""Checkpoints: written whole or not at all, read without running anything.

`model_state_dict.pth` is the model for anybody's `torch.load(weights_only=True)`;
`training_state.pth` beside it is what `--resume` goes on from: the model once
more (the two files are renamed one after the other), the optimizer's momentum,
and where the training was.
"""

from __future__ import annotations

import io
import os
import pickle
import tempfile
import zipfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from fedtest.comm.errors import one_line
from fedtest.ring.errors import CheckpointError

Module = Any
Tensors = dict[str, Any]

MODEL = "model_state_dict.pth"
STATE = "training_state.pth"
_FORMAT = 1
_ARCHIVE = b"PK\x03\x04"  # how a zip that torch.save wrote begins
_PROGRAM = b"constants.pkl"  # a member of every TorchScript archive, and of no other
_LARGEST = 1 << 30  # bytes; a file that claims to be more is not read


@dataclass(frozen=True)
class Progress:
    """`step` steps of `epoch` (from 1) are done, `done` in all, and what they depend on."""

    epoch: int
    step: int
    done: int
    seed: int
    world_size: int
    batch_size: int
    recipe: dict[str, str] = field(default_factory=dict)  # of Options; files of before have none


_NUMBERS = ("epoch", "step", "done", "seed", "world_size", "batch_size")


@dataclass(frozen=True)
class State:
    """What a training goes on from."""

    progress: Progress
    model: Tensors
    optimizer: Tensors  # the momentum, by parameter


def state_of(network: Module, optimizer: Any, progress: Progress) -> State:
    """A copy of what is now."""
    momentum = {
        name: _copy(optimizer.state[parameter]["momentum_buffer"])
        for name, parameter in network.named_parameters()
        if optimizer.state.get(parameter, {}).get("momentum_buffer") is not None
    }
    model = {name: _copy(value) for name, value in network.state_dict().items()}
    return State(progress, model, momentum)


def apply(state: State, network: Module, optimizer: Any) -> None:
    """Put `network` and `optimizer` into `state`, which fits."""
    network.load_state_dict(state.model)
    for name, parameter in network.named_parameters():
        if name in state.optimizer:
            kept = torch.empty_like(parameter).copy_(state.optimizer[name])
            optimizer.state[parameter]["momentum_buffer"] = kept.detach()


def write(directory: Path, state: State) -> None:
    """Write both files. Raises CheckpointError; what was there before is then still there."""
    write_whole(directory / MODEL, _packed(state.model))
    write_whole(directory / STATE, packed(state))


def packed(state: State) -> bytes:
    """The content of training_state.pth."""
    return _packed(
        {
            "format": _FORMAT,
            "model": state.model,
            "optimizer": state.optimizer,
            **asdict(state.progress),
        }
    )


def read_model(path: Path, network: Module) -> Tensors:
    """The parameters in the file `path`, which fit `network`. Raises CheckpointError."""
    found = _load(_content(path), str(path))
    # The state of a training is as good as the model in it.
    if isinstance(found, dict) and "format" in found and isinstance(found.get("model"), dict):
        found = found["model"]
    return _fitting(found, network.state_dict(), str(path))


def read_state(path: Path, network: Module) -> State:
    """The state in the file `path`. Raises CheckpointError."""
    return unpacked(_content(path), network, str(path))


def unpacked(content: bytes, network: Module, where: str) -> State:
    """The state that `packed` made `content` of, and that fits `network`."""
    found = _load(content, where)
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        raise CheckpointError(f"{where}: not the state of a training of this version")
    numbers = {name: found.get(name) for name in _NUMBERS}
    if not all(type(number) is int and number >= 0 for number in numbers.values()):
        raise CheckpointError(f"{where}: epoch, step, seed and sizes are not all whole numbers")
    recipe = found.get("recipe", {})
    if not isinstance(recipe, dict) or not all(isinstance(x, str) for x in recipe.values()):
        raise CheckpointError(f"{where}: the options it was made with are not all text")
    model = _fitting(found.get("model"), network.state_dict(), where)
    parameters = dict(network.named_parameters())
    momentum = found.get("optimizer")
    if momentum != {}:
        momentum = _fitting(momentum, parameters, f"{where}, optimizer")
    return State(Progress(**numbers, recipe=recipe), model, momentum)  # type: ignore[arg-type]


def write_whole(path: Path, content: bytes) -> None:
    """Have `content` in the file, or leave it as it was. Raises CheckpointError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fchmod(file.fileno(), 0o644)
                os.fsync(file.fileno())
            os.replace(temporary, path)  # noqa: PTH105
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be written: {error.strerror or error}") from error


def _copy(tensor: Any) -> Any:
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)


def _packed(content: Any) -> bytes:
    memory = io.BytesIO()
    torch.save(content, memory)
    return memory.getvalue()


def _content(path: Path) -> bytes:
    try:
        if path.stat().st_size > _LARGEST:
            raise CheckpointError(f"{path}: larger than any checkpoint of this model")
        return path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error


def _load(content: bytes, where: str) -> Any:
    """What torch.load has in `content`: tensors and plain values, or CheckpointError.

    `weights_only` is what runs nothing: a pickle can otherwise call anything. Only
    torch's own archives are looked at, whose members cannot be more than is there.
    An old torch takes an archive with `constants.pkl` for a program (TorchScript) and
    runs it, `weights_only` or not. The bytes are searched for that name: torch reads
    the archive's list of members with code of its own, which may find others.
    """
    if content[:4] != _ARCHIVE:
        raise CheckpointError(
            f"{where}: not a checkpoint of torch.save, or truncated; nothing of it was run"
        )
    if _PROGRAM in content:
        raise CheckpointError(
            f"{where}: a program (TorchScript), not a checkpoint; nothing of it was run"
        )
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            stored = sum(member.file_size for member in archive.infolist())
        if stored > len(content):  # compressed, or told so: what comes of it has no bound
            raise zipfile.BadZipFile("members are larger than the file")  # noqa: TRY301
        return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except zipfile.BadZipFile as error:
        raise CheckpointError(
            f"{where}: not a checkpoint of torch.save, or truncated ({one_line(error)}); "
            "nothing of it was run"
        ) from error
    except pickle.UnpicklingError as error:
        raise CheckpointError(
            f"{where}: has more in it than tensors and plain values; nothing of it was run "
            f"({_short(error)})"
        ) from error
    except Exception as error:  # torch has many more for content that is damaged
        raise CheckpointError(
            f"{where}: damaged or truncated ({_short(error)}); nothing of it was run"
        ) from error


def _short(error: BaseException) -> str:
    text = one_line(error)
    return text if len(text) <= 200 else text[:200] + "..."


def _fitting(found: Any, wanted: Tensors, where: str) -> Tensors:
    """`found`, if it has what `wanted` has: names, shapes, dtypes."""
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise CheckpointError(f"{where}: not a dictionary of parameters")
    problems = [f"no {name}" for name in wanted if name not in found]
    problems += [f"{name}, which this model has not" for name in found if name not in wanted]
    for name, value in wanted.items():
        got = found.get(name)
        if name not in found:
            continue
        if not isinstance(got, torch.Tensor) or got.layout != torch.strided:
            problems.append(f"{name} is no tensor")
        elif (got.shape, got.dtype) != (value.shape, value.dtype):
            problems.append(
                f"{name} is {got.dtype}{list(got.shape)}, not {value.dtype}{list(value.shape)}"
            )
    if problems:
        more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
        raise CheckpointError(f"{where}: of another model: {'; '.join(problems[:3])}{more}")
    return {name: found[name] for name in wanted}
