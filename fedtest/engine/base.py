"""The engine interface: it speaks in hosts, and not of what a host is made of.

Every verb works on a whole plan or on a list, so that an engine can do things
side by side. A run is named by its tag in every call and an engine keeps no
state of it: another process with the same tag sees the same hosts. Every call
has a deadline, in seconds, and raises DeadlineError naming whom it waited for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from fedtest.engine.examine import Examination, Examined
    from fedtest.engine.owner import Owner
    from fedtest.engine.snapshot import Snapshot
    from fedtest.errors import FedtestError
    from fedtest.plan import ImagePlan, Plan, ProcessPlan


Power = Literal["on", "off", "paused"]
"""The state of a host as a machine: it runs, it has no power, it stands still."""


class ProcessKey(NamedTuple):
    """A process is known by the host it runs on and its name in the scenario."""

    host: str
    process: str

    def __str__(self) -> str:
        return f"{self.process} on {self.host}"


@dataclass(frozen=True, slots=True)
class RunTag:
    """Names a run on an engine, and says whose it is."""

    id: str
    scenario: str
    owner: Owner


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What there is. `naming`: how interface names are made; `netem`: None if not known.

    `chosen`: why it is this one, where nobody asked for it by its name.
    """

    kind: str
    version: str
    api: str
    kernel: str
    naming: str
    netem: bool | None
    details: Mapping[str, str] = field(default_factory=dict)
    chosen: str = ""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What hosts are made from, found or made ahead of them.

    `images` has the engine's own reference for each image of the plan;
    `data` the engine's own reference for each data set; `versions` what is
    worth recording of each image: package -> version.
    """

    images: Mapping[ImagePlan, str]
    data: Mapping[str, str]
    versions: Mapping[str, Mapping[str, str]]


class Sink(Protocol):
    """Where a process's output and end go. Called from threads of the engine."""

    def output(self, key: ProcessKey, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        """A piece of output, as it came; not cut at lines."""

    def exited(self, key: ProcessKey, status: int) -> None:
        """The process ended: 0 to 127 its own status, 128 + n for signal n. Comes last."""

    def lost(self, key: ProcessKey, error: FedtestError) -> None:
        """The process can no longer be watched. Comes last, instead of `exited`."""


class Engine(ABC):
    """What provides hosts."""

    chosen: str = ""
    """Why it is this one, where nobody asked for it by its name."""

    also_sweep: Sequence[Callable[[float], Mapping[str, int]]] = ()
    """As `sweep`, for what dead runs left on other engines."""

    @abstractmethod
    def info(self) -> EngineInfo:
        """What engine this is. EngineUnavailable if it does not answer."""

    @abstractmethod
    def prepare(self, plan: Plan, run: RunTag, progress: Callable[[str], None]) -> Prepared:
        """Images and data sets, made if missing or out of date. ImageError, DataError."""

    @abstractmethod
    def realise(
        self,
        plan: Plan,
        run: RunTag,
        prepared: Prepared,
        progress: Callable[[str], None],
        deadline: float,
    ) -> Mapping[str, Snapshot]:
        """Networks and hosts as planned, every interface named and addressed.

        A fixed subnet that another run holds is waited for, with a deadline of
        its own; `progress` says whom for.

        What is there already stays, so that a host that was restarted gets its
        names back. Returns each host as it was read back, not compared with the
        plan yet. SubnetTaken if an address range of our own choosing belongs to
        somebody else; nothing of this plan's hosts exists then.
        """

    @abstractmethod
    def observe(self, run: RunTag, hosts: Iterable[str], deadline: float) -> Mapping[str, Snapshot]:
        """Interfaces, counters and sockets of each host, now."""

    @abstractmethod
    def start(
        self, run: RunTag, processes: Sequence[ProcessPlan], sink: Sink, deadline: float
    ) -> Mapping[ProcessKey, int]:
        """Start commands; returns when each runs, with its process id in its host.

        The id leads a session of its own, so that it stands for the descendants too.
        """

    def cold_starts(self) -> Mapping[ProcessKey, str]:
        """Processes that might have started warm and did not, and why.

        Of engines that start any from a process that has imported already.
        """
        return {}

    @abstractmethod
    def signal(
        self, run: RunTag, pids: Mapping[ProcessKey, int], number: int
    ) -> Collection[ProcessKey]:
        """Send a signal to processes and their process groups; those that there were.

        One that has ended is no error.
        """

    @abstractmethod
    def examine(
        self, run: RunTag, hosts: Mapping[str, Examination], deadline: float
    ) -> Mapping[str, Examined]:
        """Look at hosts from beside them: files, connections, what processes do.

        It needs nothing of a host's image, changes nothing, and works while the
        host's own processes hang.
        """

    @abstractmethod
    def condition(
        self, run: RunTag, scripts: Mapping[str, str], deadline: float, *, inside: bool = False
    ) -> Mapping[str, str]:
        """Change hosts: run a shell script in each one's network namespace, as root.

        It runs outside the host proper, where iproute2, iptables and Python
        are at hand whatever the host's image has, and may write to /proc/sys/net;
        what it starts in the background lives as long as the host does. With
        `inside` it runs in the host itself, among its processes and files, with
        what its image has. Returns what each printed. EngineError with a script's
        errors if one fails.
        """

    @abstractmethod
    def power(self, run: RunTag, hosts: Mapping[str, Power], deadline: float) -> None:
        """Bring hosts into a state; when it returns, each is in it.

        `off` ends a host's processes as pulling its plug does, and only
        `realise` starts it again and makes it whole. `paused` stands still and
        answers nothing until it is `on`.
        """

    @abstractmethod
    def destroy(self, run_id: str, deadline: float) -> int:
        """Remove all that carries the run's id; how many things that were. Repeatable."""

    @abstractmethod
    def sweep(self, deadline: float) -> Mapping[str, int]:
        """Destroy runs whose owner on this machine is dead and that were not kept, by id."""

    @abstractmethod
    def close(self) -> None:
        """Let go of connections to the engine. Hosts stay."""
