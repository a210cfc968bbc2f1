"""What is tried out once a host's network is set up, and what must come of it."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fedtest.plan_names import DNS_ADDRESS
from fedtest.settings.make import DNS_PORT
from fedtest.settings.paths import Paths

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fedtest.plan import HostPlan, Plan
    from fedtest.plan_names import DnsPlan

_ASK = Path(__file__).with_name("inside") / "ask.py"
_ECHO = Path(__file__).parent.parent / "probe" / "echo.py"
_REQUESTS = "10"


@dataclass(frozen=True, slots=True)
class Ping:
    """An echo that must come back. `over`: the hosts that pass it on."""

    host: str
    address: str
    what: str
    over: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"host {self.host}: {self.what} ({self.address}) does not answer"


def pings(plan: Plan, hosts: Sequence[str]) -> tuple[list[Ping], list[str]]:
    """What these hosts must reach, and what of their routes nobody is there to tell of."""
    paths = Paths(plan)
    found: dict[tuple[str, str], Ping] = {}
    untold: list[str] = []
    for host in plan.hosts:
        if host.name not in hosts:
            continue
        for ping in (*_neighbours(plan, host), *_next_hops(host)):
            found.setdefault((ping.host, ping.address), ping)
        for route in host.routes:
            behind = paths.behind(host, route)
            if behind is None and paths.owner(route.via) is None:
                continue  # Nobody says that something is behind it.
            if behind is None:
                untold.append(
                    f"host {host.name}: nobody is behind {route.via} whose answers come back"
                )
                continue
            address, arrival = behind
            over = " and ".join(arrival.over)
            found[host.name, str(address)] = Ping(
                host.name, str(address), f"host {arrival.host} through {over}", arrival.over
            )
    return list(found.values()), untold


def _next_hops(host: HostPlan) -> Iterator[Ping]:
    for route in host.routes:
        yield Ping(host.name, str(route.via), f"the next hop to {route.to}")


def _neighbours(plan: Plan, host: HostPlan) -> Iterator[Ping]:
    """IPv6 is our own doing: whether a network carries it, an engine does not say."""
    for item in host.attachments:
        if item.address6 is None:
            continue
        others = [
            (other.name, nic.address6.ip)
            for other in plan.hosts
            if other.name != host.name
            for nic in other.attachments
            if nic.network == item.network and nic.address6 is not None
        ]
        for name, address in others[:1]:
            yield Ping(host.name, str(address), f"host {name} on network {item.network}")


def pinging(some: Sequence[Ping]) -> str:
    """Script that asks each for an echo, all at once, and prints a line for each that answers."""
    program = _ECHO.read_text(encoding="utf-8")
    addresses = [item.address for item in some]
    return shlex.join(["python3", "-c", program, "--first", "-c", _REQUESTS, *addresses])


def unanswered(some: Sequence[Ping], told: str) -> list[Ping]:
    """Those who did not answer; `told` is what `pinging` printed."""
    there = {line.partition(" ")[0] for line in told.splitlines()}
    return [item for item in some if item.address not in there]


def asking(dns: Sequence[DnsPlan]) -> str:
    """Script that asks a host's DNS for every name."""
    program = _ASK.read_text(encoding="utf-8")
    names = json.dumps([item.name for item in dns])
    silent = json.dumps([item.name for item in dns if item.failure == "silent"])
    return shlex.join(["python3", "-c", program, DNS_ADDRESS, str(DNS_PORT), names, silent])


def answered(dns: Sequence[DnsPlan], told: str) -> Iterator[str]:
    """What was not answered as planned; `told` is what `asking` printed."""
    try:
        found = json.loads(told)
    except ValueError:
        found = {}
    for item in dns:
        wanted = item.failure or sorted(item.addresses)
        got = found.get(item.name, "nothing that can be read")
        if got != wanted:
            yield f"DNS should answer {_words(wanted)} to {item.name}, it answers {_words(got)}"


def _words(answer: list[str] | str) -> str:
    return answer if isinstance(answer, str) else ", ".join(answer) or "no address"
