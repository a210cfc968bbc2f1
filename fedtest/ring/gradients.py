"""The gradients as one buffer, cut into buckets that may travel while others are computed.

What the backward pass writes is ready to be sent, without a copy: the buffer is
the memory of the gradients. Parameters lie in it from the last to the first, as
the backward pass comes to them, so that a bucket is full early.

With `overlap` a thread exchanges a bucket as soon as the gradients in it are
there, while the backward pass goes on. Buckets go in the same order on every
rank; one that is not full by the end (a parameter that took no part, a rank
without samples) goes then. (Source: S. Li et al., "PyTorch Distributed:
Experiences on Accelerating Data Parallel Training", 2020.) The result is the
same, bit for bit, with and without.
"""

from __future__ import annotations

import queue
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fedtest.ring.exchanges.base import Exchange

Tensor = Any
Module = Any

BUCKET = 128 << 10  # bytes from which a bucket is closed


class Gradients:
    """The `grad` of every parameter of `network` is from now on a view of `flat`.

    To clear them, call `clear`: setting them to None cuts the tie. A parameter
    that takes no part in a loss has gradient zero, not none.
    """

    def __init__(self, network: Module, bucket: int = BUCKET) -> None:
        self.parameters = [p for p in network.parameters() if p.requires_grad][::-1]
        dtypes = {parameter.dtype for parameter in self.parameters}
        if len(dtypes) > 1:
            raise ValueError(f"parameters of one dtype, not of {sorted(map(str, dtypes))}")
        dtype = next(iter(dtypes), torch.float32)
        self.flat: Tensor = torch.zeros(sum(p.numel() for p in self.parameters), dtype=dtype)
        self.buckets: list[Tensor] = []
        self.bucket_of: list[int] = []  # by parameter
        start = opened = 0
        for parameter in self.parameters:
            end = start + parameter.numel()
            # Laid out as the parameter is (without gaps), which autograd wants.
            strides = torch.empty_like(parameter).stride()
            parameter.grad = self.flat[start:end].as_strided(parameter.shape, strides, start)
            self.bucket_of.append(len(self.buckets))
            start = end
            if (end - opened) * self.flat.element_size() >= bucket:
                self.buckets.append(self.flat[opened:end])
                opened = end
        if start > opened or not self.buckets:
            self.buckets.append(self.flat[opened:start])
        self.bucket_of = [min(number, len(self.buckets) - 1) for number in self.bucket_of]

    def clear(self) -> None:
        self.flat.zero_()

    def average(self, exchange: Exchange, phase: str) -> float:
        """Replace them by the mean over all ranks; how many seconds that took."""
        began = time.perf_counter()
        for bucket in self.buckets:
            exchange.average(bucket, phase)
        return time.perf_counter() - began


class Overlap:
    """Exchanges the buckets of `gradients` in a thread, as the backward pass fills them."""

    def __init__(self, gradients: Gradients, exchange: Exchange) -> None:
        self._gradients = gradients
        self._exchange = exchange
        self._sizes = [gradients.bucket_of.count(i) for i in range(len(gradients.buckets))]
        self._left: list[int] = []  # parameters without their gradient, by bucket
        self._next = 0  # the bucket that goes next
        self._work: queue.SimpleQueue[tuple[Tensor, str] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._phase = ""
        self._hooks = [
            _when_accumulated(parameter, self._filled, bucket)
            for parameter, bucket in zip(gradients.parameters, gradients.bucket_of, strict=True)
        ]
        self._thread = threading.Thread(target=self._run, name="fedtest.ring overlap", daemon=True)
        self._thread.start()

    def begin(self, phase: str) -> None:
        """Before the backward pass."""
        self._phase = phase
        self._left = list(self._sizes)
        self._next = 0

    def end(self) -> float:
        """After it: until all are exchanged; how many seconds were waited. Raises PeerError."""
        began = time.perf_counter()
        self._start(everything=True)
        errors = [self._done.get() for _ in self._gradients.buckets]
        for error in errors:
            if error is not None:
                raise error
        return time.perf_counter() - began

    def close(self) -> None:
        self._work.put(None)
        for hook in self._hooks:
            hook.remove()

    def _filled(self, bucket: int) -> None:
        if self._left:
            self._left[bucket] -= 1
            self._start(everything=False)

    def _start(self, *, everything: bool) -> None:
        buckets = self._gradients.buckets
        while self._next < len(buckets) and (everything or self._left[self._next] <= 0):
            self._work.put((buckets[self._next], self._phase))
            self._next += 1

    def _run(self) -> None:
        failed: BaseException | None = None
        while (work := self._work.get()) is not None:
            try:
                if failed is None:  # afterwards the group is of no use
                    self._exchange.average(*work)
            except BaseException as error:  # noqa: BLE001 - `end` raises it
                failed = error
            self._done.put(failed)


@contextmanager
def overlapping(
    gradients: Gradients, exchange: Exchange, *, wanted: bool
) -> Iterator[Overlap | None]:
    """An Overlap for as long as the block lasts, if it is wanted."""
    overlap = Overlap(gradients, exchange) if wanted else None
    try:
        yield overlap
    finally:
        if overlap is not None:
            overlap.close()


def _when_accumulated(parameter: Tensor, call: Any, bucket: int) -> Any:
    """Call with `bucket` when the gradient of `parameter` has been written."""
    if hasattr(parameter, "register_post_accumulate_grad_hook"):
        return parameter.register_post_accumulate_grad_hook(lambda _: call(bucket))
    # Before torch 2.1: by the node of the graph that writes it, which has to be kept.
    node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
    handle = node.register_hook(lambda *_: call(bucket))
    handle.node = node
    return handle
