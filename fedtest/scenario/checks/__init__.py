"""The kinds of checks. A further kind is a model in a file here and a field of `Check`."""

from typing import Self

from pydantic import Field, model_validator

from fedtest.scenario.base import Part, exactly_one
from fedtest.scenario.checks.exit import ExitCheck
from fedtest.scenario.checks.files import FilesCheck
from fedtest.scenario.checks.log import LogCheck
from fedtest.scenario.checks.reach import ReachCheck
from fedtest.scenario.checks.sockets import SocketsCheck
from fedtest.scenario.checks.time import DoneCheck, TimeCheck
from fedtest.scenario.checks.traffic import BytesCheck, PacketsCheck
from fedtest.scenario.checks.value import ValueCheck
from fedtest.scenario.names import CheckId
from fedtest.scenario.refusal import refuse
from fedtest.scenario.units import Duration

__all__ = [
    "KINDS",
    "BytesCheck",
    "Check",
    "DoneCheck",
    "ExitCheck",
    "FilesCheck",
    "LogCheck",
    "PacketsCheck",
    "ReachCheck",
    "SocketsCheck",
    "TimeCheck",
    "ValueCheck",
]

REPEATABLE = ("value", "bytes", "packets", "sockets", "files", "reach")
_REPEATABLE_WORDS = ", ".join(f"`{kind}`" for kind in REPEATABLE)


class Check(Part):
    """A statement that must hold: exactly one kind."""

    id: CheckId | None = Field(default=None, description="A name for it in reports; unique.")
    eventually: Duration | None = Field(
        default=None,
        description="It need hold only once, so soon after the start of the processes: it is "
        "judged at each report or look while they run. For " + _REPEATABLE_WORDS + ".",
    )
    always: bool = Field(
        default=False,
        description="It is judged while processes run and must hold each time: at each report, "
        "or at each look, but for one that was followed by the end of a process. Not with "
        "`eventually`, for the same kinds.",
    )
    exit: ExitCheck | None = Field(default=None, description="How a process ended.")
    log: LogCheck | None = Field(default=None, description="What processes printed.")
    value: ValueCheck | None = Field(default=None, description="What processes reported.")
    bytes: BytesCheck | None = Field(default=None, description="Bytes through interfaces.")
    packets: PacketsCheck | None = Field(default=None, description="Packets through interfaces.")
    sockets: SocketsCheck | None = Field(
        default=None,
        description="Where processes listened, and between which addresses they spoke.",
    )
    files: FilesCheck | None = Field(default=None, description="Files in hosts.")
    reach: ReachCheck | None = Field(default=None, description="Who can connect to whom.")
    time: TimeCheck | None = Field(default=None, description="From one moment to another in time.")
    done: DoneCheck | None = Field(default=None, description="Everything has ended in time.")

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        exactly_one(self, *KINDS)
        if not self.repeated:
            return self
        if self.always and self.eventually is not None:
            raise refuse("both eventually and always", allowed="at most one of them")
        traffic = self.bytes or self.packets
        if traffic is not None and traffic.peer is not None:
            message = "what goes between two hosts is counted at the end"
            raise refuse(message, allowed="eventually and always without peer")
        if self.kind not in REPEATABLE or (self.value is not None and self.value.monotonic):
            what = "of values over time" if self.value is not None else f"of kind {self.kind}"
            message = f"a check {what} is not of a moment, so it cannot hold at some or at all"
            raise refuse(message, allowed=f"eventually and always with {_REPEATABLE_WORDS}")
        return self

    @property
    def repeated(self) -> bool:
        """Whether it is judged while processes run."""
        return self.always or self.eventually is not None

    @property
    def kind(self) -> str:
        """The name of the kind this is."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    @property
    def spec(self) -> Part:
        """The check itself, whatever its kind."""
        spec: Part = getattr(self, self.kind)
        return spec


KINDS = tuple(name for name in Check.model_fields if name not in {"id", "eventually", "always"})
