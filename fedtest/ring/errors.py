"""What can go wrong for reasons outside this package: one clear line, exit status 1."""


class RingError(Exception):
    """The base of all: the message is one line (with what to do) for standard error."""


class DataError(RingError):
    """MNIST is not there, cannot be downloaded, or cannot be read."""


class JoinError(RingError):
    """This rank could not become a member of the process group."""


class PeerError(RingError):
    """An exchange with one peer did not complete: it died, closed, or was silent too long.

    `phase` is where in the job (`"epoch 1 step 17, first ring"`), `peer` the
    rank on the other end of the broken transfer. That peer may itself be a
    victim: when a rank dies, its neighbours end, and then theirs.
    """

    def __init__(self, phase: str, peer: int, action: str, cause: BaseException) -> None:
        self.phase = phase
        self.peer = peer
        super().__init__(f"{phase}: {action} rank {peer} failed: {one_line(cause)}")


def one_line(cause: BaseException) -> str:
    """The text of `cause` on one line: torch's own words, without its C++ stack."""
    text = str(cause).split("\nException raised from", 1)[0]
    return " ".join(text.split()) or type(cause).__name__
