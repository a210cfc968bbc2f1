"""What scripts that settle hosts would print if all were well, for runs on the fake engine."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fedtest.engine.fake import Defects, FakeEngine
from fedtest.settings.make import CHAIN

if TYPE_CHECKING:
    from collections.abc import Callable

    from fedtest.plan import HostPlan, Plan


@dataclass
class Network:
    """Answers as hosts would; a test bends what it likes."""

    bend: Callable[[str, str], str] = lambda _, text: text
    dead: Callable[[str], bool] = lambda _: False
    """Whether an address answers nothing."""
    dns: dict[str, Any] = field(default_factory=dict)
    """Name -> what DNS answers instead."""
    engine: FakeEngine = field(init=False)

    def __post_init__(self) -> None:
        self.engine = FakeEngine(Defects(answer=self.answer))

    @property
    def plan(self) -> Plan:
        return next(iter(self.engine.realised.values()))

    def answer(self, host: str, script: str) -> str:
        if script.startswith("python3 -c") and "--first" in shlex.split(script)[3:]:
            *_, addresses = script.rpartition("--first -c 10 ")
            asked = addresses.split()
            return "".join(f"{item} seq=1 time=1 ms\n" for item in asked if not self.dead(item))
        if "==> routes 4" in script:
            return self.bend(host, read_back(self.plan.host(host)))
        if script.startswith("python3 -c"):
            names = json.loads(shlex.split(script)[-2])
            told = {
                item.name: item.failure or sorted(item.addresses)
                for item in self.plan.host(host).dns
            }
            assert set(names) == set(told)
            return json.dumps({**told, **self.dns})
        return ""


def read_back(host: HostPlan) -> str:
    """What the script would find after its commands."""
    routes: dict[int, list[dict[str, str]]] = {4: [], 6: []}
    for route in host.routes:
        name = "default" if route.default else str(route.to)
        entry = {"dst": name, "gateway": str(route.via), "dev": route.interface}
        routes[route.to.version].append(entry)
    forwarding = "1" if host.forward else "0"
    nat = ""
    if host.forward and host.forward.nat:
        nat = f"-A POSTROUTING -j {CHAIN}\n-A {CHAIN} -o {host.forward.nat} -j MASQUERADE"
    return "\n".join(
        line
        for version in (4, 6)
        for line in (
            f"==> routes {version} <==\n{json.dumps(routes[version])}",
            f"==> forwarding {version} <==\n{forwarding}",
            f"==> nat {version} <==\n{nat}",
        )
    )
