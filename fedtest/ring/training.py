"""The training loop of one rank, in step with the others, and the evaluation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from fedtest.ring import checkpoint, data
from fedtest.ring.gradients import Gradients, overlapping
from fedtest.ring.progress import Meter

if TYPE_CHECKING:
    from collections.abc import Callable

    from fedtest.ring.checkpoint import State
    from fedtest.ring.exchanges.base import Exchange
    from fedtest.ring.options import Options
    from fedtest.ring.progress import Row

Tensor = Any
Module = Any

PROGRESS = 10  # steps between two lines of progress
MOMENTUM = 0.9
RISE = 0.1  # of an epoch: the learning rate rises
EVALUATED_AT_ONCE = 500  # images


class Training:
    """Where a training is: a network, its optimizer, and how many steps are done.

    Momentum SGD. In every step all ranks apply the mean gradient over all the
    samples that all of them took: a rank weighs its sum of losses by
    world_size / samples of all, and the exchange divides by world_size.
    """

    def __init__(self, options: Options, network: Module, samples: tuple[Tensor, Tensor]) -> None:
        self.options = options
        self.network = network
        self.samples = samples  # all images, and their digits
        self.shifted = data.Shifted(samples[0], options.shift)
        self.optimizer = torch.optim.SGD(
            network.parameters(), lr=0.0, momentum=MOMENTUM, nesterov=True
        )
        self.steps = data.steps(len(samples[1]), options.world_size, options.batch_size)
        self.epoch, self.step, self.done = 1, 0, 0

    @property
    def finished(self) -> bool:
        return self.epoch > self.options.epoch

    def state(self) -> State:
        options = self.options
        return checkpoint.state_of(
            self.network,
            self.optimizer,
            checkpoint.Progress(
                self.epoch,
                self.step,
                self.done,
                options.seed,
                options.world_size,
                options.batch_size,
                options.recipe,
            ),
        )

    def go_on_from(self, state: State) -> None:
        checkpoint.apply(state, self.network, self.optimizer)
        self.epoch, self.step = state.progress.epoch, state.progress.step
        self.done = state.progress.done

    def run_epoch(
        self, exchange: Exchange, progress: Callable[[Row], None], stepped: Callable[[], None]
    ) -> None:
        """What is left of this epoch. `progress` gets a Row now and then, `stepped` is every step.

        Raises PeerError; the training is then where it was after the last whole step.
        """
        options = self.options
        digits = self.samples[1]
        self.shifted.begin(options.seed, self.epoch)
        own = data.shard(len(digits), options.rank, options.world_size, options.seed, self.epoch)
        gradients = Gradients(self.network)
        meter = Meter()
        with overlapping(gradients, exchange, wanted=options.overlap) as overlap:
            while self.step < self.steps:
                chosen = own[data.batch(len(own), self.step, self.steps)]
                together = data.batch_over_all(
                    len(digits), options.world_size, self.step, self.steps
                )
                phase = f"epoch {self.epoch} step {self.done + 1}"
                gradients.clear()
                if overlap is not None:
                    overlap.begin(phase)
                if len(chosen):
                    wanted = digits[chosen]
                    guessed = self.network(data.normalised(self.shifted[chosen]))
                    loss = nn.functional.cross_entropy(guessed, wanted, reduction="sum")
                    (loss * (options.world_size / together)).backward()
                    meter.samples(loss, guessed, wanted)
                took = overlap.end() if overlap else gradients.average(exchange, phase)
                for group in self.optimizer.param_groups:
                    group["lr"] = learning_rate(options, self.done, self.steps)
                self.optimizer.step()
                self.step += 1
                self.done += 1
                meter.step(together, took)
                if self.done % PROGRESS == 0 or self.step == self.steps:
                    progress(meter.take(self.epoch, self.done))
                stepped()


def learning_rate(options: Options, done: int, steps: int) -> float:
    """The rate of the step after `done` ones, with `steps` in an epoch.

    A straight rise to the peak within the first epoch, then a straight fall to
    zero, or the decay that was asked for. The peak grows with the root of the
    world size, as the noise in the gradient falls with it: N ranks take N times
    the samples in a step.
    """
    peak = options.lr * math.sqrt(options.world_size)
    rise = max(1, round(RISE * steps))
    rising = min(1.0, (done + 1) / rise)
    if options.lr_decay is not None:
        return peak * rising * float(options.lr_decay ** (done // steps))
    total = steps * options.epoch
    return peak * min(rising, max(0.0, total - done) / max(1, total - rise), 1.0)


def evaluate(
    options: Options, network: Module, test: tuple[Tensor, Tensor], exchange: Exchange, phase: str
) -> float:
    """The share of all test images that is recognised; each rank looks at its part of them."""
    images, digits = test
    mine = data.part(len(digits), options.rank, options.world_size)
    right = torch.zeros(2, dtype=torch.int64)
    with torch.no_grad():
        for start in range(mine.start, mine.stop, EVALUATED_AT_ONCE):
            some = slice(start, min(start + EVALUATED_AT_ONCE, mine.stop))
            guessed = network(data.normalised(images[some])).argmax(1)
            right += torch.stack([(guessed == digits[some]).sum(), torch.tensor(len(guessed))])
    exchange.total(right, phase)
    found, seen = right.tolist()
    if seen != len(digits):
        raise RuntimeError(f"{seen} of {len(digits)} images were looked at")
    return float(found / seen)
