"""One rank's work: join, train its shard in step with the others, evaluate, report."""

import math
import time
from typing import Any

import torch
from torch import nn

from fedtest.ring import data, model
from fedtest.ring.exchange import Exchange, TwoRing
from fedtest.ring.group import interface, joined
from fedtest.ring.options import Options
from fedtest.values import report

Tensor = Any
Module = Any

PROGRESS = 10  # steps between two lines of progress
MOMENTUM = 0.9
RISE = 0.1  # of all steps: the learning rate rises, then falls to zero
EVALUATED_AT_ONCE = 500  # images


def run(options: Options) -> None:
    """Train as `options` say; progress and values on standard output. Raises RingError."""
    # One thread: servers share a machine in a testbed, the CNN is too small to
    # gain from more, and sums come out the same whatever the number of cores.
    torch.set_num_threads(1)
    # Before joining: a download may take longer than peers wait for a message.
    images, digits = data.load(options.data, train=True)
    test = data.load(options.data, train=False)
    own = data.shard(len(images), options.rank, options.world_size, options.seed)
    samples = data.normalised(images[own]), digits[own]
    network = model.build(options.seed)
    _say(
        f"rank={options.rank} world_size={options.world_size} "
        f"interface={(options.gloo_socket_ifname or interface()) or 'any'} "
        f"init_method={options.init_method} "
        f"train_images={len(own)}/{len(images)} test_images={len(test[0])} "
        f"parameters={sum(p.numel() for p in network.parameters())} "
        f"batch_size={options.batch_size} torch={torch.__version__}"
    )
    with joined(options):
        _say(f"joined rank={options.rank} world_size={options.world_size}")
        exchange = TwoRing(options.rank, options.world_size)
        train(options, network, samples, len(images), exchange)
        accuracy = evaluate(options, network, test, exchange)
    if interface():
        report("interface", interface())
    report("test_accuracy", accuracy)
    report("params_sha256", model.digest(network))


def train(
    options: Options,
    network: Module,
    samples: tuple[Tensor, Tensor],
    count: int,
    exchange: Exchange,
) -> None:
    """Train `network` in place on `samples`, this rank's of `count`.

    Momentum SGD. In every step all ranks apply the mean gradient over all the
    samples that all of them took: a rank weighs its sum of losses by
    world_size / samples of all, and the exchange divides by world_size.
    """
    images, digits = samples
    steps = data.steps(count, options.world_size, options.batch_size)
    flat = model.flat_gradients(network)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.0, momentum=MOMENTUM, nesterov=True)
    progress = _Progress()
    done = 0
    for epoch in range(1, options.epoch + 1):
        order = data.order(len(digits), options.rank, options.seed, epoch)
        for step in range(steps):
            chosen = order[data.batch(len(digits), step, steps)]
            together = data.batch_over_all(count, options.world_size, step, steps)
            flat.zero_()
            if len(chosen):
                wanted = digits[chosen]
                guessed = network(images[chosen])
                loss = nn.functional.cross_entropy(guessed, wanted, reduction="sum")
                (loss * (options.world_size / together)).backward()
                progress.add(loss, guessed, wanted)
            exchange.average(flat, f"epoch {epoch} step {done + 1}")
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(options, done, steps * options.epoch)
            optimizer.step()
            done += 1
            if done % PROGRESS == 0 or step == steps - 1:
                _say(f"epoch={epoch} step={done} {progress.take()}")


def learning_rate(options: Options, step: int, steps: int) -> float:
    """The rate in `step` (from 0) of `steps`: a straight rise to the peak, a straight fall.

    The peak grows with the root of the world size, as the noise in the
    gradient falls with it: N ranks take N times the samples in a step.
    """
    rise = max(1, round(RISE * steps))
    fall = max(1, steps - rise)
    peak = options.lr * math.sqrt(options.world_size)
    return peak * min((step + 1) / rise, (steps - step) / fall, 1.0)


def evaluate(
    options: Options, network: Module, test: tuple[Tensor, Tensor], exchange: Exchange
) -> float:
    """The share of all test images that is recognised; each rank looks at its part of them."""
    images, digits = test
    mine = data.part(len(digits), options.rank, options.world_size)
    right = torch.zeros(1, dtype=torch.int64)
    with torch.no_grad():
        for start in range(mine.start, mine.stop, EVALUATED_AT_ONCE):
            some = slice(start, min(start + EVALUATED_AT_ONCE, mine.stop))
            guessed = network(data.normalised(images[some])).argmax(1)
            right += (guessed == digits[some]).sum()
    exchange.total(right, "evaluation")
    return int(right) / len(digits)


class _Progress:
    """Loss, accuracy and speed of this rank since they were last taken."""

    def __init__(self) -> None:
        self._clear()

    def add(self, loss: Tensor, guessed: Tensor, wanted: Tensor) -> None:
        self.loss += float(loss.detach())
        self.right += int((guessed.detach().argmax(1) == wanted).sum())
        self.samples += len(wanted)

    def take(self) -> str:
        samples, seconds = max(1, self.samples), time.monotonic() - self.since
        text = (
            f"loss={self.loss / samples:.4f} accuracy={self.right / samples:.4f} "
            f"samples_per_s={self.samples / seconds:.0f}"
        )
        self._clear()
        return text

    def _clear(self) -> None:
        self.loss, self.right, self.samples = 0.0, 0, 0
        self.since = time.monotonic()


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - standard output is where progress goes
