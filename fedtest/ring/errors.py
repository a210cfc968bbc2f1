"""What can go wrong for reasons outside this package: one clear line, and an exit status.

RingError
├── DataError           3  MNIST is not there, cannot be downloaded, or cannot be read
├── CheckpointError     4  a file is no checkpoint of this model, or cannot be written
├── StartError          5  what the checks before joining found
└── PeerError           6  an exchange did not complete: `rank` is to blame, in `phase`
    ├── RankLost           it ended, or its connection broke
    └── RankSilent         (TimeoutError) it did not answer within the time-out

The errors of joining are those of the communication library; their status is 5.
"""

JOINING = 5  # exit status


class RingError(Exception):
    """The base of all: the message is one line (with what to do) for standard error."""

    status = 1


class DataError(RingError):
    """MNIST is not there, cannot be downloaded, or cannot be read."""

    status = 3


class CheckpointError(RingError):
    """A file is not a checkpoint, is one of another model, or cannot be written."""

    status = 4


class StartError(RingError):
    """A name that does not resolve, a rank 0 that cannot be reached: found before joining."""

    status = JOINING


class PeerError(RingError):
    """An exchange did not complete.

    `phase` is where in the job (`"epoch 1 step 17, first ring"`), `rank` the rank
    that is to blame, as far as the others could find out; not only the one on
    the other end of the transfer, which may itself be a victim.
    """

    status = 6

    def __init__(self, phase: str, rank: int, why: str, said: str) -> None:
        self.phase = phase
        self.rank = rank
        self.why = why
        super().__init__(f"{phase}: rank {rank} {why}; {said}")


class RankLost(PeerError):
    """The rank ended, or its connection broke."""


class RankSilent(PeerError, TimeoutError):
    """The rank is there for all that is known, and did not answer within the time-out."""
