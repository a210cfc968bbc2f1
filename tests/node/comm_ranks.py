"""Ranks of the communication library as processes, forked from one that has imported torch."""

from __future__ import annotations

import multiprocessing
import os
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

DEADLINE = 180.0  # seconds that anything here may take: never what a test waits for
HERE = Path(__file__).parent

_context = multiprocessing.get_context("forkserver")
# Once, and not in every rank. The last brings torchvision.
_PRELOADED = [
    "torch",
    "torch.distributed",
    "comm_calls",
    "comm_cases",
    "comm_failures",
    "hier_cases",
    "fedtest.ring.train",
]


class Here:
    """What a case is given: which rank it is, where the ranks meet, a line to the test."""

    def __init__(self, rank: int, size: int, port: int, line: Connection) -> None:
        self.rank = rank
        self.size = size
        self.port = port
        self._line = line

    def network(self, **options: Any) -> Any:
        """A DistNetwork that is not connected yet."""
        from fedtest.comm import DistNetwork

        options.setdefault("timeout", 120.0)
        options.setdefault("ethernet", "lo")
        return DistNetwork(("127.0.0.1", self.port), self.size, self.rank, **options)

    def say(self, word: object) -> None:
        self._line.send(("said", word))

    def wait(self) -> object:
        """What the test says next."""
        if not self._line.poll(DEADLINE):
            raise TimeoutError("the test said nothing")
        return self._line.recv()


class Ranks:
    """Processes that run `case(Here, *arguments)`, one for each rank."""

    def __init__(
        self, case: Callable[..., Any], size: int, port: int, *arguments: Any, **environment: str
    ) -> None:
        os.environ["PYTHONPATH"] = os.pathsep.join((str(HERE), str(HERE.parents[1])))
        _context.set_forkserver_preload(_PRELOADED)
        self.lines: list[Connection] = []
        self.processes = []
        # For each answer: a test that asks for hundreds takes long where others run beside it.
        self.patience = DEADLINE
        for rank in range(size):
            mine, theirs = _context.Pipe()
            process = _context.Process(
                target=_run, args=(case, (rank, size, port, theirs), arguments, environment)
            )
            process.start()
            theirs.close()
            self.lines.append(mine)
            self.processes.append(process)

    def heard(self, rank: int) -> Any:
        """What the rank says next."""
        kind, word = self._next(rank)
        assert kind == "said", word
        return word

    def tell(self, rank: int, word: object = None) -> None:
        self.lines[rank].send(word)

    def result(self, rank: int) -> Any:
        """What the case returned; fails if it raised, or if the process did not end well."""
        kind, value = self._next(rank)
        assert kind == "returned", f"rank {rank}: {value}"
        self.processes[rank].join(self.patience)
        assert self.processes[rank].exitcode == 0
        return value

    def results(self) -> list[Any]:
        return [self.result(rank) for rank in range(len(self.processes))]

    def kill(self, rank: int) -> None:
        self.processes[rank].kill()
        self.processes[rank].join()

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.join()

    def _next(self, rank: int) -> tuple[str, Any]:
        line = self.lines[rank]
        assert line.poll(self.patience), f"rank {rank} is silent"
        try:
            found: tuple[str, Any] = line.recv()
        except EOFError:
            self.processes[rank].join()
            raise AssertionError(f"rank {rank} ended: {self.processes[rank].exitcode}") from None
        return found


def _run(
    case: Callable[..., Any],
    here: tuple[int, int, int, Connection],
    arguments: tuple[Any, ...],
    environment: dict[str, str],
) -> None:
    import torch

    line = here[-1]
    os.environ.pop("GLOO_SOCKET_IFNAME", None)
    os.environ.update(environment)
    torch.set_num_threads(1)
    try:
        value = case(Here(*here), *arguments)
    except BaseException:  # noqa: BLE001 - the test shows it
        line.send(("raised", traceback.format_exc()))
    else:
        line.send(("returned", value))


def failure(call: Callable[[], object]) -> dict[str, Any]:
    """The error that `call` raises, in words; `took` is how many seconds it needed."""
    from fedtest.comm import CommError

    began = time.monotonic()
    try:
        call()
    except CommError as error:
        return {
            "kind": type(error).__name__,
            "text": str(error),
            "took": time.monotonic() - began,
            **{name: value for name, value in vars(error).items() if not name.startswith("_")},
        }
    return {"kind": None, "took": time.monotonic() - began}
