"""The network: a small CNN of 56,000 parameters, and what tells two of them apart."""

import hashlib
from typing import Any

import torch
from torch import nn

Tensor = Any
Module = Any


def build(seed: int) -> Module:
    """The CNN with the parameters that `seed` gives: the same on every rank.

    Takes float32 [B, 1, 28, 28], gives float32 [B, 10] (logits of the digits).
    It has nothing of its own to keep (no batch statistics), so that equal
    gradients keep the ranks equal, and no randomness after this (no dropout).

    The two fully connected layers are written as convolutions over all that is
    left of the image, and memory is channels-last: the same sums, but done by
    oneDNN instead of BLAS, which in Debian's torch is the plain reference one.
    Measured on one core: a third of the time for an epoch.
    """
    torch.manual_seed(seed)
    layers = nn.Sequential(
        nn.Conv2d(1, 16, kernel_size=5, stride=2, padding=2),  # 16 x 14 x 14
        nn.ReLU(),
        nn.Conv2d(16, 32, kernel_size=3, padding=1),
        nn.MaxPool2d(2),  # 32 x 7 x 7
        nn.ReLU(),
        nn.Conv2d(32, 32, kernel_size=7),  # 32 x 1 x 1, fully connected
        nn.ReLU(),
        nn.Conv2d(32, 10, kernel_size=1),  # 10 x 1 x 1, fully connected
        nn.Flatten(),
    )
    return layers.to(memory_format=torch.channels_last)


def digest(model: Module) -> str:
    """SHA-256, in hexadecimal, of the state's names, dtypes, shapes and bytes.

    In the order of the state dict; values in row-major order, whatever their
    layout in memory, as this machine's byte order has them.
    """
    sha = hashlib.sha256()
    for name, value in model.state_dict().items():
        sha.update(f"{name} {value.dtype} {list(value.shape)}\n".encode())
        sha.update(value.detach().cpu().contiguous().numpy().tobytes())
    return sha.hexdigest()
