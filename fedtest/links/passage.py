"""Whether what one host sends to another arrives: tried with UDP packets, counted where they end.

One way at a time is what is asked, so no answer is needed. A way is open if the
receiver's kernel counts packets behind the barriers, whatever a firewall makes
of them then; it is closed if packets come to the host, none gets behind the
barriers, and no program of the host hears one. What the host's programs get is
not disturbed: the packets go to a port that nobody uses, or that is blocked.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from fedtest.links.barriers import CHAIN
from fedtest.links.shell import IPTABLES, background, end, state_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PORT = 47115
_COUNT = "fedtest-count"
_HEAR = "hear"
_PROGRAM = Path(__file__).with_name("inside") / "hear.py"
_FEW, _MANY = 10, 60
_INTERVAL = 0.01
_POLLS = 60
"""Times 50 ms: how long packets may be on their way after the last was sent."""

_SEND = f"""
import socket, sys, time
for _ in range(int(sys.argv[1])):
    for word in sys.argv[2:]:
        address, port = word.rsplit("/", 1)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as udp:
            try:
                udp.sendto(b"fedtest", (address, int(port)))
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

    def __str__(self) -> str:
        where = "" if self.port == PORT else f", port {self.port}"
        return f"from {self.sender} to {self.receiver} ({self.target}{where})"


def counting(some: Sequence[Passage]) -> str:
    """Script for a receiver: counts, from now on, what comes and what comes by its barriers."""
    lines = ["set -eu"]
    for command in _commands(some):
        lines += [_remove(command)]
        for table, place in (("mangle", "1"), ("filter", _place(command))):
            lines.append(f"{command} -w -t {table} -N {_COUNT}")
            lines.append(f"{command} -w -t {table} -I INPUT {place} -p udp -j {_COUNT}")
    for item in some:
        rule = f"-A {_COUNT} {shlex.join(_rule(item))}"
        lines.append(f"{_command(item)} -w -t mangle {rule}")
        # What got this far is nobody's: the host's programs need not see it.
        lines.append(f"{_command(item)} -w -t filter {rule} -j DROP")
    if closed := _places(item for item in some if not item.open):
        lines.append(background(_HEAR, _PROGRAM, *closed, ready=f"grep -q ready {_heard()}"))
    return "\n".join(lines) + "\n"


def sending(some: Sequence[Passage]) -> str:
    """Script for a sender: sends some packets on each way, within a second."""
    count = _MANY if any(item.lossy for item in some) else _FEW
    places = _places(some)
    return shlex.join(["python3", "-c", _SEND, str(count), *places])


def arrived(some: Sequence[Passage]) -> str:
    """Script for a receiver: waits until packets have come on every way, and prints the counts."""
    lines = ["set -u", "came() {", *_counts(some, "mangle"), "}", "tries=0"]
    lines += [f"while [ $tries -lt {_POLLS} ] && came | grep -qx 0; do"]
    lines += ["  tries=$((tries + 1)); sleep 0.05", "done", "came", *_counts(some, "filter")]
    lines += [_remove(command) for command in _commands(some)]
    if any(not item.open for item in some):
        lines += [f"sort -u {_heard()}", end(_HEAR)]
    return "\n".join(lines) + "\n"


def wrong(some: Sequence[Passage], told: str) -> list[str]:
    """The ways that are not as they should be; `told` is what `arrived` printed."""
    counts = [int(line) for line in told.splitlines() if line.isdecimal()]
    heard = {tuple(line.split()) for line in told.splitlines()}
    ordered = [item for command in _commands(some) for item in some if _command(item) == command]
    if len(counts) != 2 * len(ordered):
        return [f"what is sent {item} could not be counted" for item in some]
    found = []
    for item, came, passed in zip(ordered, counts, counts[len(ordered) :], strict=False):
        if not came:
            found.append(f"what is sent {item} does not even reach the host")
        elif (passed > 0 or (item.source, f"{item.target}/{item.port}") in heard) != item.open:
            found.append(f"what is sent {item} {'does not arrive' if item.open else 'arrives'}")
    return found


def _places(some: Iterable[Passage]) -> list[str]:
    return list(dict.fromkeys(f"{item.target}/{item.port}" for item in some))


def _heard() -> str:
    return f'"{state_of(_HEAR)}.log"'


def _counts(some: Iterable[Passage], table: str) -> list[str]:
    """Prints how many packets each rule has seen, family by family."""
    return [
        f"  {command} -w -t {table} -nvxL {_COUNT} | awk 'NR > 2 {{print $1}}'"
        for command in _commands(some)
    ]


def _place(command: str) -> str:
    """Behind the barriers, if there are any."""
    return f"$(( $({command} -w -S INPUT | grep -c -- '-j {CHAIN}$' || true) + 1 ))"


def _remove(command: str) -> str:
    return "\n".join(
        f"{command} -w -t {table} {words} 2>/dev/null || true"
        for table in ("mangle", "filter")
        for words in (f"-D INPUT -p udp -j {_COUNT}", f"-F {_COUNT}", f"-X {_COUNT}")
    )


def _rule(item: Passage) -> list[str]:
    return ["-s", item.source, "-d", item.target, "-p", "udp", "--dport", str(item.port)]


def _command(item: Passage) -> str:
    return IPTABLES[ip_address(item.target).version]


def _commands(some: Iterable[Passage]) -> list[str]:
    return sorted({_command(item) for item in some}, reverse=True)
