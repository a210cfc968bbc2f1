"""One rank's work: look, join, train in step with the others, evaluate, report."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch

from fedtest.comm import RendezvousTimeout, interfaces
from fedtest.ring import agreement, checkpoint, data, exchanges, model, plot, preflight
from fedtest.ring.errors import CheckpointError, PeerError
from fedtest.ring.group import Group, Place, joined
from fedtest.ring.options import AUTOMATIC, CHECKPOINTS, Options
from fedtest.ring.progress import Log, Metrics, Row
from fedtest.ring.torchrun import meeting
from fedtest.ring.training import Training, evaluate
from fedtest.values import progress, report

if TYPE_CHECKING:
    from pathlib import Path

    from fedtest.ring.checkpoint import State

Tensor = Any


def run(options: Options) -> None:
    """Train as `options` say; progress and values on standard output.

    Raises RingError, and CommError if this rank cannot join.
    """
    # One thread: servers share a machine in a testbed, the CNN is too small to
    # gain from more, and sums come out the same whatever the number of cores.
    torch.set_num_threads(1)
    with Log(options.log_file) as say:
        _Rank(options, say).run()


class _Rank:
    """What a rank has before it joins, and what it does then."""

    def __init__(self, options: Options, say: Log) -> None:
        self.options = options
        self.say = say
        self.directory = _checkpoint_directory(options, say)
        # Before joining: a download may take longer than others wait.
        self.samples = data.load(options.data, train=True)
        self.test = data.load(options.data, train=False)
        self.network = model.build(options.seed)
        if options.model_path is not None:
            self.network.load_state_dict(checkpoint.read_model(options.model_path, self.network))
        self.own = self._own_state()
        self.training = Training(options, self.network, self.samples)
        self.begun = False  # the parameters are those to train from, on all ranks
        self.accuracy: float | None = None
        self.told = -1  # hundredths of the training
        self.metrics: Metrics | None = None

    def run(self) -> None:
        options = self.options
        own = data.part(len(self.samples[1]), options.rank, options.world_size)
        self.say(
            f"rank={options.rank} world_size={options.world_size} "
            f"interface={options.gloo_socket_ifname or interfaces_variable() or 'any'} "
            f"init_method={options.init_method} "
            f"train_images={data.length(own)}/{len(self.samples[1])} "
            f"test_images={len(self.test[1])} "
            f"parameters={sum(p.numel() for p in self.network.parameters())} "
            f"batch_size={options.batch_size} exchange={options.exchange} "
            f"torch={torch.__version__}"
        )
        try:
            with joined(self._place()) as (group, interface):
                self.say(
                    f"joined rank={options.rank} world_size={options.world_size} "
                    f"interface={interface}"
                )
                self._train(group)
        except RendezvousTimeout as error:
            if error.missing:
                raise
            note = f"{error}; {preflight.firewall_hint()}"
            raise RendezvousTimeout(note, error.joined, error.missing) from error
        except PeerError:
            # The others know by now why this rank ends.
            self._keep()
            raise
        if interface is not None:
            report("interface", interface)
        report("test_accuracy", self.accuracy)
        report("params_sha256", model.digest(self.network))
        if options.rank == 0:
            self._draw()

    def _place(self) -> Place:
        """Where to join, after a look at what may be in the way."""
        options, say = self.options, self.say
        began = time.monotonic()
        host, port = options.address
        master = preflight.resolve(host, options.rank)
        asked = options.gloo_socket_ifname
        if asked == AUTOMATIC and AUTOMATIC not in preflight.networks():
            asked = preflight.proposed(master)
        preflight.look(say, master, asked or interfaces_variable(), options.world_size)
        if asked is not None:
            interfaces.check(asked)
        host, port = meeting(host, port, options.rank, options.join_timeout)
        if options.rank == 0:
            interfaces.check_own(host)
            preflight.port_is_free(host, port)
        else:
            preflight.wait_for_master(say, host, port, options.join_timeout)
        left = max(1.0, options.join_timeout - (time.monotonic() - began))
        return Place(host, port, options.rank, options.world_size, asked, left, options.timeout)

    def _own_state(self) -> State | None:
        if not self.options.resume:
            return None
        if self.directory is None:
            raise CheckpointError("--resume: there is no directory with checkpoints")
        path = self.directory / checkpoint.STATE
        return checkpoint.read_state(path, self.network) if path.exists() else None

    def _train(self, group: Group) -> None:
        options, training = self.options, self.training
        digest = model.digest(self.network)
        source = agreement.agree(options, group, digest, self.own).source
        if source is not None:
            state = agreement.newest(group, source, self.own, self.network)
            agreement.fits(state, options)
            training.go_on_from(state)
            self.say(f"resumed epoch={training.epoch} step={training.done} from=rank{source}")
        self.begun = True
        # Every rank tells how it goes; the file and the picture are rank 0's.
        metrics = Metrics(self.directory if options.rank == 0 else None, training.done)
        self.metrics = metrics
        exchange = exchanges.make(options.exchange, group)

        def tell(row: Row) -> None:
            self.say(row.line())
            self._progress()
            metrics.add(row)

        while not training.finished:
            training.run_epoch(exchange, tell, self._stepped)
            epoch = training.epoch
            phase = f"evaluation after epoch {epoch}"
            self.accuracy = evaluate(options, self.network, self.test, exchange, phase)
            self.say(f"epoch={epoch} test_accuracy={self.accuracy:.4f}")
            metrics.evaluated(epoch, training.done, self.accuracy)
            training.epoch, training.step = epoch + 1, 0
            if self.directory is not None:
                checkpoint.write(self.directory, training.state())
        if self.accuracy is None:  # resumed where all was done
            self.accuracy = evaluate(options, self.network, self.test, exchange, "evaluation")

    def _progress(self) -> None:
        """Report each hundredth of all steps, so that a long training's log is not full of it."""
        done, total = self.training.done, self.training.steps * self.options.epoch
        if 100 * done // total > self.told:
            self.told = 100 * done // total
            with suppress(OSError):  # without a standard output it trains on
                progress(done, total)

    def _keep(self) -> None:
        """A last checkpoint. One that cannot be written is told: why the rank ends is more."""
        if self.directory is None or not self.begun:
            return
        try:
            checkpoint.write(self.directory, self.training.state())
        except CheckpointError as error:
            self.say(f"no checkpoint: {error}")
        else:
            self.say(f"checkpoint: step {self.training.done}, in {self.directory}")

    def _draw(self) -> None:
        if self.directory is not None and self.metrics is not None and self.metrics.rows:
            title = (
                f"{self.options.world_size} ranks, exchange {self.options.exchange}"
                f"{', overlapped' if self.options.overlap else ''}"
            )
            self.say(plot.draw(self.directory, self.metrics.rows, title))

    def _stepped(self) -> None:
        every = self.options.checkpoint_every
        if self.directory is not None and every and self.training.done % every == 0:
            checkpoint.write(self.directory, self.training.state())


def interfaces_variable() -> str | None:
    """The name Gloo was given by the environment; None if it chooses."""
    return os.environ.get(interfaces.VARIABLE) or None


def _checkpoint_directory(options: Options, say: Log) -> Path | None:
    """Where checkpoints go; found out now, not after an epoch. Raises CheckpointError."""
    directory = options.checkpoint_dir or CHECKPOINTS
    try:
        directory.mkdir(parents=True, exist_ok=True)
        trial = directory / f".trial.{os.getpid()}.{options.rank}"
        trial.touch()
        trial.unlink()
    except OSError as error:
        said = f"{directory} cannot be written: {error.strerror or error}"
        if options.checkpoint_dir is not None or options.resume:
            raise CheckpointError(said) from error
        say(f"no checkpoints: {said}")
        return None
    return directory
