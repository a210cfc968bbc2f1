"""Whether what one host sends to another arrives: tried with packets, counted where they end.

One way at a time is what is asked, so no answer is needed: of TCP, the first
packet of a connection is enough. A way is open if the receiver's kernel counts
packets behind the barriers, whatever a firewall makes of them then; it is closed
if they come as far as the barriers, none gets behind them, and no program of the
host hears one. What the host's programs get is not disturbed: UDP goes to a port
that nobody uses, or that is blocked, and TCP comes from ports that nobody sends from.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fedtest.links.barriers import CHAIN
from fedtest.links.shell import IPTABLES, background, end, state_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PORT = 47115
_MET, _COUNT = "fedtest-met", "fedtest-count"
_CHAINS = (("mangle", _COUNT), ("filter", _MET), ("filter", _COUNT))
"""Where packets are counted: as they come, just before the barriers, and behind them."""
_HEAR = "hear"
_PROGRAM = Path(__file__).with_name("inside") / "hear.py"
_FEW, _MANY = 10, 60
_INTERVAL = 0.01
_OWN_PORTS = 940
"""The first from which TCP is tried: below those that are given to who asks for none."""
_POLLS = 60
"""Times 50 ms: how long packets may be on their way after the last was sent."""

_SEND = f"""
import socket, sys, time
for turn in range(int(sys.argv[1])):
    for word in sys.argv[2:]:
        protocol, address, port = word.split("/")
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        kind = socket.SOCK_STREAM if protocol == "tcp" else socket.SOCK_DGRAM
        with socket.socket(family, kind) as end:
            try:
                if protocol == "udp":
                    end.sendto(b"fedtest", (address, int(port)))
                else:
                    end.setblocking(False)
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    end.bind(("", {_OWN_PORTS} + turn))
                    end.connect_ex((address, int(port)))
            except OSError:
                pass
    time.sleep({_INTERVAL})
"""


@dataclass(frozen=True, slots=True)
class Passage:
    """One way on which it is tried: addresses, and whether it should be open.

    `lossy`: packets may be lost on it, whether it is open or not.
    """

    sender: str
    receiver: str
    source: str
    target: str
    port: int
    open: bool
    lossy: bool = False
    protocol: Literal["udp", "tcp"] = "udp"

    def __str__(self) -> str:
        where = "" if self.port == PORT else f", {self.protocol.upper()} port {self.port}"
        return f"from {self.sender} to {self.receiver} ({self.target}{where})"


def counting(some: Sequence[Passage]) -> str:
    """Script for a receiver: counts, from now on, what comes and what comes by its barriers."""
    lines = ["set -eu"]
    for command in _commands(some):
        lines += [_remove(command)]
        lines += [f"{command} -w -t {table} -N {chain}" for table, chain in _CHAINS]
        # As it is listed the chain's policy comes first, so this is one more than its number.
        listed = f"{command} -w -S INPUT | grep -n -- '-j {CHAIN}$' | tail -n 1 | cut -d : -f 1"
        lines += [f"at=$({listed})"]
        lines += [f"{command} -w -t mangle -I INPUT 1 -j {_COUNT}"]
        lines += [f'{command} -w -t filter -I INPUT "${{at:-1}}" -j {_COUNT}']
        lines += [f"{command} -w -t filter -I INPUT $((${{at:-2}} - 1)) -j {_MET}"]
    for item in some:
        for table, chain in _CHAINS:
            # What got behind the barriers is nobody's: the host's programs need not see it.
            last = " -j DROP" if (table, chain) == _CHAINS[-1] else ""
            lines.append(
                f"{_command(item)} -w -t {table} -A {chain} {shlex.join(_rule(item))}{last}"
            )
    if closed := _heard_at(some):
        lines.append(background(_HEAR, _PROGRAM, *closed, ready=f"grep -q ready {_heard()}"))
    return "\n".join(lines) + "\n"


def sending(some: Sequence[Passage]) -> str:
    """Script for a sender: sends some packets on each way, within a second."""
    count = _MANY if any(item.lossy for item in some) else _FEW
    places = dict.fromkeys(f"{item.protocol}/{_place(item)}" for item in some)
    return shlex.join(["python3", "-c", _SEND, str(count), *places])


def arrived(some: Sequence[Passage]) -> str:
    """Script for a receiver: waits until packets have come on every way, and prints the counts."""
    came, *others = _CHAINS
    lines = ["set -u", "came() {", *_counts(some, *came), "}", "tries=0"]
    lines += [f"while [ $tries -lt {_POLLS} ] && came | grep -qx 0; do"]
    lines += ["  tries=$((tries + 1)); sleep 0.05", "done", "came"]
    lines += [line for place in others for line in _counts(some, *place)]
    lines += [_remove(command) for command in _commands(some)]
    if _heard_at(some):
        lines += [f"sort -u {_heard()}", end(_HEAR)]
    return "\n".join(lines) + "\n"


def wrong(some: Sequence[Passage], told: str) -> list[str]:
    """The ways that are not as they should be; `told` is what `arrived` printed."""
    counts = [int(line) for line in told.splitlines() if line.isdecimal()]
    heard = {tuple(line.split()) for line in told.splitlines()}
    ordered = [item for command in _commands(some) for item in some if _command(item) == command]
    if len(counts) != len(_CHAINS) * len(ordered):
        return [f"what is sent {item} could not be counted" for item in some]
    found = []
    size = len(ordered)
    for item, came, met, passed in zip(
        ordered, counts[:size], counts[size : 2 * size], counts[2 * size :], strict=True
    ):
        through = passed > 0 or (item.protocol == "udp" and (item.source, _place(item)) in heard)
        if not came:
            found.append(f"what is sent {item} does not even reach the host")
        elif through != item.open:
            found.append(f"what is sent {item} {'does not arrive' if item.open else 'arrives'}")
        elif not item.open and not met:
            found.append(f"what is sent {item} does not come by what should keep it out")
    return found


def _place(item: Passage) -> str:
    return f"{item.target}/{item.port}"


def _heard_at(some: Iterable[Passage]) -> list[str]:
    """Where a program listens. Not for TCP: one of the host's own may want the port just then."""
    closed = (item for item in some if not item.open and item.protocol == "udp")
    return list(dict.fromkeys(map(_place, closed)))


def _heard() -> str:
    return f'"{state_of(_HEAR)}.log"'


def _counts(some: Iterable[Passage], table: str, chain: str) -> list[str]:
    """Prints how many packets each rule has seen, family by family."""
    return [
        f"  {command} -w -t {table} -nvxL {chain} | awk 'NR > 2 {{print $1}}'"
        for command in _commands(some)
    ]


def _remove(command: str) -> str:
    return "\n".join(
        f"{command} -w -t {table} {words} {chain} 2>/dev/null || true"
        for table, chain in _CHAINS
        for words in ("-D INPUT -j", "-F", "-X")
    )


def _rule(item: Passage) -> list[str]:
    words = ["-s", item.source, "-d", item.target, "-p", item.protocol]
    if item.protocol == "tcp":
        words += ["--sport", f"{_OWN_PORTS}:{_OWN_PORTS + _MANY - 1}"]
    return [*words, "--dport", str(item.port)]


def _command(item: Passage) -> str:
    return IPTABLES[ip_address(item.target).version]


def _commands(some: Iterable[Passage]) -> list[str]:
    return sorted({_command(item) for item in some}, reverse=True)
