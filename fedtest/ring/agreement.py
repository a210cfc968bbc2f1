"""Do all ranks do the same? And which checkpoint do they go on from?"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from fedtest.ring import checkpoint
from fedtest.ring.errors import CheckpointError, StartError
from fedtest.ring.exchanges import TwoRing

if TYPE_CHECKING:
    from fedtest.ring.checkpoint import State
    from fedtest.ring.group import Group
    from fedtest.ring.options import Options

Module = Any

ALIKE = ("epoch", "batch_size", "lr", "lr_decay", "shift", "seed", "exchange", "overlap", "resume")
"""Options that have to be the same on every rank."""


@dataclass(frozen=True)
class Agreed:
    """The rank whose state all go on from; None: from the beginning."""

    source: int | None


def agree(options: Options, group: Group, digest: str, own: State | None) -> Agreed:
    """Compare with all others. `digest` is that of the parameters to start with.

    Raises StartError that says who differs in what, CheckpointError if there is
    nothing to resume.
    """
    said = [str(getattr(options, name)) for name in ALIKE]
    said.append("" if options.resume else digest)
    row = [_number(text) for text in said]
    row.append(-1 if own is None else own.progress.done)
    table = torch.zeros(group.size, len(row), dtype=torch.int64)
    table[group.rank] = torch.tensor(row)
    # The same on all ranks, whatever they were asked for.
    flat = table.view(-1)
    TwoRing(group).total(flat, "agreement")
    for column, name in enumerate((*ALIKE, "parameters to start from")):
        others = [rank for rank in range(group.size) if table[rank, column] != row[column]]
        if others:
            option = f"--{name.replace('_', '-')}" if column < len(ALIKE) else name
            mine = f"{said[column]!r} here" if column < len(ALIKE) else "others here"
            ranks = ", ".join(map(str, others))
            raise StartError(f"the ranks do not agree on {option}: {mine}, not so on rank {ranks}")
    if not options.resume:
        return Agreed(None)
    done = table[:, -1].tolist()
    if max(done) < 0:
        raise CheckpointError(f"--resume: no rank has a {checkpoint.STATE} in its --checkpoint-dir")
    return Agreed(done.index(max(done)))


def newest(group: Group, source: int, own: State | None, network: Module) -> State:
    """The state of rank `source`, on all ranks."""
    content = checkpoint.packed(own) if own is not None and group.rank == source else b""
    length = torch.tensor([len(content)])
    phase = "taking over a checkpoint"
    group.broadcast(length, source, phase)
    memory = bytearray(content or bytes(int(length)))
    group.broadcast(torch.frombuffer(memory, dtype=torch.uint8), source, phase)
    return checkpoint.unpacked(bytes(memory), network, f"the checkpoint of rank {source}")


def fits(state: State, options: Options) -> None:
    """Raise CheckpointError unless the training can go on as if never interrupted.

    Compared are seed, world size, batch size, and what rates and images follow from; not
    the exchange, in whose order the gradients are added up. An older checkpoint does not
    tell its recipe.
    """
    pairs = {
        name: (getattr(state.progress, name), getattr(options, name))
        for name in ("seed", "world_size", "batch_size")
    }
    for name, now in options.recipe.items():
        pairs[name] = (state.progress.recipe.get(name, now), now)
    for name, (was, now) in pairs.items():
        if was != now:
            raise CheckpointError(
                f"--resume: the checkpoint was made with --{name.replace('_', '-')} {was}, not "
                f"{now}; to start from its parameters only, use --model_path"
            )


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7])
