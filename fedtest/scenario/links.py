"""What networks do to packets, and what hosts do to connections.

A part here is one attachment's or pair's own words; `merged` says what they
come to together with those of the network.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from fedtest.scenario.base import Part
from fedtest.scenario.names import HostName, NetworkName
from fedtest.scenario.quantities import Delay, Loss, Rate, Share
from fedtest.scenario.refusal import refuse
from fedtest.scenario.units import Size

MOST_RULES = 1000
LEAST_QUEUE = 1514  # bytes: a packet with its header


class PairLink(Part):
    """A [`link`](#link) without what concerns an interface as a whole."""

    rate: Rate | None = Field(
        default=None,
        description="Bits a second, headers included, of all that an interface sends, 64kbit to "
        "100gbit. A pair's own rate is beside that of the interface, not within it. Measured "
        "within 5 %.",
    )
    delay: Delay | None = Field(
        default=None,
        description="How long a packet is on its way, at most 2s: within 5 % (the median; where a "
        "machine is busy, some are later). Measured as a round trip, which may take 1 ms more, "
        "because programs are to be woken. Without netem `ping` does not show the way back: it "
        "asks the kernel when a packet came, which is before the delay. `ping -U` and `python -m "
        "fedtest.probe.echo` show what programs see. Of more than 65536 packets that wait in a "
        "host for the same delay the rest is lost.",
    )
    jitter: Delay | None = Field(
        default=None,
        description="By how much the delay varies, up or down, evenly; at most `delay`. With netem "
        "packets may overtake each other by it, without it they never do. Measured roughly: the "
        "half of the round trips that is in the middle, within 0.3 to 1.5 times its share and "
        "2 ms; and a round trip may differ by what chance draws.",
    )
    loss: Loss | None = Field(
        default=None,
        description="The share of packets that vanish, at most 90%, in steps of 0.0001%. Measured "
        "within four standard deviations of what chance allows.",
    )
    duplicate: Share | None = Field(
        default=None, description="The share of packets that arrive twice. Only with netem."
    )
    reorder: Share | None = Field(
        default=None,
        description="The share of packets that are sent at once and so overtake others; needs a "
        "`delay`. Only with netem (read back only).",
    )
    corrupt: Share | None = Field(
        default=None,
        description="The share of packets with a wrong bit, which the receiver discards. Only with "
        "netem.",
    )
    queue: Size | None = Field(
        default=None,
        description="How much waits for the `rate` before packets are dropped, at least one "
        "packet: 1514 bytes (read back only).",
        json_schema_extra={"default": "what is sent in 50 ms, at least 15 kB"},
    )
    probe: bool | None = Field(
        default=None,
        description="Whether it is measured before processes start; it is read back in any case.",
        json_schema_extra={"default": "`true`"},
    )

    @field_validator("queue")
    @classmethod
    def _of_a_packet(cls, queue: int | None) -> int | None:
        if queue is not None and queue < LEAST_QUEUE:
            raise refuse("a queue that no packet fits into", allowed=f"{LEAST_QUEUE}B or more")
        return queue


class Link(PairLink):
    """What is done to packets on their way from one host to another.

    `link:` of a network holds for every host on it, `link:` of an interface
    for what its host sends there, `pairs` for the way from one host to another;
    the closer one wins, key by key. Each direction counts once: with a `delay`
    of 5ms on the network, a round trip takes 10 ms. `0ms` and `0%` switch off
    what the network asks for.

    Where the kernel has netem, netem does it, at the sender. Where it has not,
    the rate is kept by htb at the sender, loss by iptables and delay by a
    helper behind NFQUEUE at the receiver; for what only netem can do the run
    is invalid before anything starts. Before any process starts it is read
    back and measured, except for keys marked (read back only); `links.json` in
    the run's directory has what was found.

    No kernel that this was built on has netem: its commands are tested, not
    their effect, which the measurement will tell.
    """

    mtu: int | None = Field(
        default=None,
        ge=576,
        le=65535,
        description="The largest packet. The network's own is the limit for its interfaces: 1500 "
        "unless its `link` says otherwise (read back only).",
    )


class Pair(Part):
    """The way from one host to another. Later ones win over earlier ones."""

    sender: HostName | None = Field(
        default=None, alias="from", description="The host that sends; without it every other one."
    )
    receiver: HostName | None = Field(
        default=None,
        alias="to",
        description="The host that receives; without it every other one. At least one of the two.",
    )
    link: PairLink = Field(description="What is done to the packets.")

    @model_validator(mode="after")
    def _somebody(self) -> Self:
        if self.sender is None and self.receiver is None:
            raise refuse("neither from nor to", allowed="at least one of from and to")
        if self.sender == self.receiver:
            raise refuse("from and to are the same host", allowed="two hosts")
        return self


def _ports(value: Any) -> tuple[int, int]:
    allowed = "a port like 23456, or a range like 30000-30100"
    first = last = value
    if isinstance(value, str) and value.count("-") == 1:
        ends = value.split("-")
        if all(end.isascii() and end.isdigit() and len(end) <= 5 for end in ends):
            first, last = map(int, ends)
    if type(first) is not int or type(last) is not int or not 1 <= first <= last <= 65535:
        raise refuse("neither a port nor a range of ports", allowed=allowed)
    return first, last


def _ports_text(value: tuple[int, int]) -> int | str:
    first, last = value
    return first if first == last else f"{first}-{last}"


Ports = Annotated[
    tuple[int, int],
    PlainValidator(_ports),
    PlainSerializer(_ports_text),
    WithJsonSchema({"type": "string", "title": "port or range"}),
]


class Firewall(Part):
    """What a host lets in: TCP connections and UDP packets to some ports, and answers.

    What it sends, and pings, go through.
    """

    accept: tuple[Ports, ...] = Field(
        default=(),
        strict=False,
        max_length=MOST_RULES,
        description="The ports that are open: `23456`, or `30000-30100`.",
    )
    otherwise: Literal["reject", "drop"] = Field(
        default="reject",
        description="`reject`: others are refused at once. `drop`: they are never answered.",
    )
    networks: tuple[NetworkName, ...] | None = Field(
        default=None,
        strict=False,
        min_length=1,
        description="Where it stands.",
        json_schema_extra={"default": "all networks of the host"},
    )


class PortInUse(Part):
    """Something that listens on a port, on every address of the host. A number is short for it."""

    port: int = Field(ge=1, le=65535, description="The port.")
    answers: Literal["wrong", "nothing"] = Field(
        default="wrong",
        description="`wrong`: whoever connects is told something that is no answer, and the "
        "connection ends. `nothing`: it stays open in silence.",
    )


Occupied = Annotated[
    PortInUse, BeforeValidator(lambda value: {"port": value} if type(value) is int else value)
]


def merged(*links: PairLink | None) -> PairLink:
    """What several come to: each key from the last that has it."""
    values: dict[str, Any] = {}
    for link in links:
        if link is not None:
            values |= {key: value for key, value in link if value is not None and key != "mtu"}
    return PairLink.model_construct(**values)


def contradictions(link: PairLink) -> Iterator[tuple[str, str, str]]:
    """Of one that is merged: key, what is wrong with it, what is allowed."""
    if link.jitter and link.jitter > (link.delay or 0):
        yield "jitter", "the delay would be less than none", "a jitter that is at most the delay"
    if link.reorder and not link.delay:
        yield "reorder", "nothing can be overtaken without a delay", "reorder together with delay"
    if link.queue is not None and link.rate is None:
        yield "queue", "nothing waits without a rate", "queue together with rate"
