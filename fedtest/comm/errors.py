"""The errors of the communication library, cut by what the caller can do about them.

CommError
├── ArgumentError (ValueError)     the call cannot be carried out as it was made
│   └── NotConnected               before init_network_connection, or after the close
├── PackageError (ValueError)      what is to be sent, or what arrived, is no package
│   ├── DtypeError                 a dtype that is not one of the seven
│   └── CoercionError              `strict`: a tensor would lose something
├── JoinError                      this rank did not become a member of the group
│   ├── InterfaceError             no such interface here, or one without an address
│   ├── AddressError               rank 0 is to listen at an address that is not its own
│   ├── PortTaken                  somebody else listens there
│   ├── DuplicateRank              another process has joined with this rank
│   ├── WorldSizeError             the ranks do not agree on how many they are
│   └── RendezvousTimeout          (TimeoutError) says who has joined and who is missing
├── PeerError                      a transfer with one rank, `peer`, did not complete
│   ├── PeerLost                   it died, was cut off, or has closed its network
│   └── TransferTimeout            (TimeoutError) it was silent for too long
└── HierarchyError                 a middle server cannot do its part
    ├── IdError (ValueError)       an id that there is not, or that the wire cannot carry
    ├── ProtocolError              a message that means nothing where it came
    ├── ExitTimeout                (TimeoutError) `ranks` have not answered to Exit in time
    └── ConnectorLost              one of its two sides, or what started them, has ended early

What Gloo or torch said is in the message and is the error's `__cause__`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class CommError(Exception):
    """Base of all errors of the communication library; the message is one line."""


class ArgumentError(CommError, ValueError):
    """The call cannot be carried out as it was made; nothing was sent."""


class NotConnected(ArgumentError):
    """The network is not connected: not yet initialised, or closed."""


class PackageError(CommError, ValueError):
    """What is to be sent cannot be a package, or what arrived is none.

    `peer` is the rank that a malformed package came from; None when sending.
    Nothing was sent when it is raised by a sender. After one from a receiver
    nothing more is received from that rank: where its next package begins is
    not known.
    """

    peer: int | None = None


class DtypeError(PackageError):
    """The wire has no code for this dtype; the message lists those it has."""


class CoercionError(PackageError):
    """With `strict`, a tensor whose dtype is not the package's would lose something."""


class JoinError(CommError):
    """This rank did not become a member of the group."""


class InterfaceError(JoinError):
    """A named interface is not there, or has no address; the message lists those that are."""


class AddressError(JoinError):
    """The address of rank 0 cannot be resolved, or rank 0 does not have it."""


class PortTaken(JoinError):
    """Somebody else listens at the port of rank 0."""


class DuplicateRank(JoinError):
    """Another process has joined with this rank."""


class WorldSizeError(JoinError):
    """This rank was told another world size than those who joined before."""


class RendezvousTimeout(JoinError, TimeoutError):
    """Not all ranks came together in time.

    `joined` and `missing` are ranks, as far as they could be known: a rank of
    another library (FedLab) does not say that it has joined.
    """

    def __init__(self, message: str, joined: Sequence[int], missing: Sequence[int]) -> None:
        super().__init__(message)
        self.joined = tuple(joined)
        self.missing = tuple(missing)


class PeerError(CommError):
    """A transfer with the rank `peer` did not complete."""

    def __init__(self, message: str, peer: int) -> None:
        super().__init__(message)
        self.peer = peer


class PeerLost(PeerError, ConnectionError):
    """The rank is gone.

    `closed`: true if it said so and closed in order, false if not, None if that
    cannot be known because there is no heartbeat with it.
    """

    def __init__(self, message: str, peer: int, *, closed: bool | None) -> None:
        super().__init__(message, peer)
        self.closed = closed


class TransferTimeout(PeerError, TimeoutError):
    """A send or receive was not done in time.

    `peer` is the rank waited for (-1: any), `seconds` how long, `part` what was
    waited for: `header`, `slices` or `content`.
    """

    def __init__(self, message: str, peer: int, seconds: float, part: str) -> None:
        super().__init__(message, peer)
        self.seconds = seconds
        self.part = part


class HierarchyError(CommError):
    """A middle server, or one of its two sides, cannot do its part."""


class IdError(HierarchyError, ValueError):
    """There is no client with this id, or the wire cannot carry the id exactly."""


class ProtocolError(HierarchyError):
    """A message that means nothing where it came, or none where one is due."""


class ExitTimeout(HierarchyError, TimeoutError):
    """The ranks `ranks` have neither answered to Exit nor closed within `seconds`."""

    def __init__(self, message: str, ranks: Sequence[int], seconds: float) -> None:
        super().__init__(message)
        self.ranks = tuple(ranks)
        self.seconds = seconds


class ConnectorLost(HierarchyError):
    """A side of a middle server, or the process that started both, has ended early.

    `upper` and `lower` say what became of the sides; None for one that ended
    in order, or of which nothing is known.
    """

    def __init__(self, message: str, upper: str | None = None, lower: str | None = None) -> None:
        super().__init__(message)
        self.upper = upper
        self.lower = lower


def one_line(cause: BaseException) -> str:
    """The text of `cause` on one line: torch's own words, without its C++ stack."""
    text = str(cause).split("\nException raised from", 1)[0]
    return " ".join(text.split()) or type(cause).__name__
