"""One package, one dtype: what tensors lose when they take that of the package's first."""

from __future__ import annotations

import warnings
from functools import cache

import torch

from fedtest.comm.codes import name
from fedtest.comm.errors import CoercionError

_EXAMPLES = 3  # values that a message shows


class CoercionWarning(UserWarning):
    """Tensors took the dtype of their package's first, and that can lose something."""


@cache
def can_lose(source: torch.dtype, target: torch.dtype) -> bool:
    """Whether some value of `source` is not one of `target`."""
    if source.is_floating_point:
        if not target.is_floating_point:
            return True
        return bool(torch.finfo(source).bits > torch.finfo(target).bits)
    if not target.is_floating_point:
        return bool(torch.iinfo(source).bits > torch.iinfo(target).bits)
    # All integers of b bits are exact if the significand has b - 1: it does for
    # the largest, and the smallest is a power of two.
    significand = 1 - round(torch.tensor(torch.finfo(target).eps).log2().item())
    return bool(torch.iinfo(source).bits - 1 > significand)


class Losses:
    """What the tensors of one package have lost; with `strict`, none may be at risk."""

    def __init__(self, target: torch.dtype, *, strict: bool) -> None:
        self._target = target
        self._strict = strict
        self._found: dict[torch.dtype, _Loss] = {}

    def note(self, before: torch.Tensor, after: torch.Tensor) -> None:
        """`before` has become `after`. Raises CoercionError if that is a risk, and `strict`."""
        if not can_lose(before.dtype, self._target):
            return
        loss = self._found.setdefault(before.dtype, _Loss())
        loss.add(before.detach().reshape(-1), after.reshape(-1))
        if self._strict:
            raise CoercionError(self._text(before.dtype, loss))

    def tell(self, stacklevel: int) -> None:
        """Warn once for each dtype that was at risk."""
        for source, loss in self._found.items():
            warnings.warn(self._text(source, loss), CoercionWarning, stacklevel=stacklevel + 1)

    def _text(self, source: torch.dtype, loss: _Loss) -> str:
        return (
            f"{name(source)} values take the dtype of the package's first tensor, "
            f"{name(self._target)}: {loss}"
        )


class _Loss:
    def __init__(self) -> None:
        self.values = 0
        self.changed = 0
        self.examples: list[str] = []

    def add(self, before: torch.Tensor, after: torch.Tensor) -> None:
        """Compare the values with what comes back from the other dtype."""
        same = after.to(before.dtype) == before
        if before.is_floating_point() and after.is_floating_point():
            same |= before.isnan() & after.isnan()
        changed = (~same).nonzero().view(-1)
        self.values += len(before)
        self.changed += len(changed)
        for at in changed[: _EXAMPLES - len(self.examples)].tolist():
            self.examples.append(f"{before[at].item()} became {after[at].item()}")

    def __str__(self) -> str:
        if not self.changed:
            return f"none of {self.values} changed this time"
        more = ", ..." if self.changed > len(self.examples) else ""
        return f"{self.changed} of {self.values} changed: {', '.join(self.examples)}{more}"
