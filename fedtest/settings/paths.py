"""Which way packets take between hosts, as planned: who is behind whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

    from fedtest.plan import HostPlan, Plan
    from fedtest.plan_routes import RoutePlan

    Address = IPv4Address | IPv6Address

_LONGEST = 32  # hops; more are a ring


class Arrival(NamedTuple):
    """Where a packet came to, over whom, and under which sender's address."""

    host: str
    over: tuple[str, ...]
    source: Address


class Paths:
    """The ways of one plan."""

    def __init__(self, plan: Plan) -> None:
        self._hosts = {host.name: host for host in plan.hosts}
        self._owner: dict[Address, str] = {
            address.ip: host.name
            for host in plan.hosts
            for item in host.attachments
            for address in item.addresses
        }

    def owner(self, address: Address) -> str | None:
        """Whose address it is."""
        return self._owner.get(address)

    def behind(self, host: HostPlan, route: RoutePlan) -> tuple[Address, Arrival] | None:
        """An address of another host that this route leads to, and from where answers come back."""
        source = _address(host, route.interface, route.via.version)
        if source is None:
            return None
        for address, owner in self._owner.items():
            if owner == host.name or _next(host, address) != (route.interface, route):
                continue
            there = self.walk(host.name, source, address)
            # The next hop itself answers whether it forwards or not.
            forwarded = there is not None and there.host == owner and there.over
            if there is not None and forwarded and self._comes_back(host, source, there):
                return address, there
        return None

    def _comes_back(self, host: HostPlan, source: Address, there: Arrival) -> bool:
        """Under another's address an answer comes to that one, who knows whose it is."""
        owner = self._owner.get(there.source)
        back = self.walk(there.host, there.source, there.source)
        if owner is None or back is None or back.host != owner:
            return False
        if owner == host.name:
            return True
        last = self.walk(owner, source, source)
        return last is not None and last.host == host.name

    def walk(self, start: str, source: Address, target: Address) -> Arrival | None:
        """Where a packet for an address arrives, if anywhere."""
        over: list[str] = []
        at = self._hosts[start]
        for _ in range(_LONGEST):
            if self._owner.get(target) == at.name:
                return Arrival(at.name, tuple(over), source)
            found = _next(at, target)
            if found is None:
                return None
            interface, route = found
            if at.name != start and at.forward is not None and at.forward.nat == interface:
                source = _address(at, interface, target.version) or source
            following = self._owner.get(target if route is None else route.via)
            if following is None:
                return None
            if at.name != start:
                over.append(at.name)
            at = self._hosts[following]
            if at.forward is None and self._owner.get(target) != at.name:
                return None
        return None


def _next(host: HostPlan, target: Address) -> tuple[str, RoutePlan | None] | None:
    """By which interface, and by which route unless it is on a network of the host."""
    for item in host.attachments:
        if any(target in address.network for address in item.addresses):
            return item.interface, None
    fitting = [route for route in host.routes if target in route.to]
    if not fitting:
        return None
    best = max(fitting, key=lambda route: route.to.prefixlen)
    return best.interface, best


def _address(host: HostPlan, interface: str, version: int) -> Address | None:
    return next(
        (
            address.ip
            for item in host.attachments
            if item.interface == interface
            for address in item.addresses
            if address.version == version
        ),
        None,
    )
