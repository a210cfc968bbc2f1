"""Sets up hosts' networks beyond what engines give: done, read back, measured, or invalid.

Between the hosts being there and their links: what is measured here needs none.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from fedtest.errors import NotAsPlanned
from fedtest.run.readback import compare
from fedtest.settings import make, measure

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from fedtest.engine.base import Engine, RunTag
    from fedtest.engine.snapshot import Snapshot
    from fedtest.plan import Plan
    from fedtest.run.artifacts import RunDirectory
    from fedtest.run.events import EventLog
    from fedtest.run.observer import Observer

_DEADLINE = 120.0
_TRIES = 3
"""How often what does not answer is asked: a busy machine disturbs one try."""


class Settings:
    """The settings of one run. `settings.json` has what was done and found, each time it was."""

    def __init__(
        self,
        engine: Engine,
        run: RunTag,
        directory: RunDirectory,
        events: EventLog,
        observer: Observer,
    ) -> None:
        self._engine = engine
        self._run = run
        self._directory = directory
        self._events = events
        self._observer = observer
        self._record: list[dict[str, Any]] = []

    def settle(
        self, plan: Plan, hosts: Collection[str] | None = None, *, measured: bool = True
    ) -> Mapping[str, Snapshot]:
        """Set up, read back and measure those hosts that ask for it, of all or of some.

        Done again after a host was restarted, it makes the host whole; what
        faults keep from arriving cannot be `measured` then. Returns the hosts
        as they are. NotAsPlanned with every difference.
        """
        some = [
            host for host in plan.hosts if host.settled and (hosts is None or host.name in hosts)
        ]
        if not some:
            return {}
        names = [host.name for host in some]
        entry: dict[str, Any] = {"applied": {}, "answers": [], "dns": {}, "not measured": []}
        self._record.append(entry)
        try:
            commands = {host.name: make.plan_settings(host) for host in some}
            told = self._condition({name: make.script(item) for name, item in commands.items()})
            for name, item in commands.items():
                entry["applied"][name] = {"commands": item.shown, "read_back": told[name]}
                self._events.add("settings applied", name)
            _refuse(
                [
                    f"host {host.name}: {line}"
                    for host in some
                    for line in make.differences(host, told[host.name])
                ]
            )
            found = self._engine.observe(self._run, names, _DEADLINE)
            if measured:
                compare(replace(plan, hosts=tuple(some)), found)
                self._ping(plan, names, entry)
            self._ask(plan, names, entry)
        finally:
            self._directory.json("settings.json", self._record)
        return found

    def _ping(self, plan: Plan, names: list[str], entry: dict[str, Any]) -> None:
        wanted, untold = measure.pings(plan, names)
        entry["not measured"] = untold
        for line in untold:
            self._observer.stage_progress(f"not measured: {line}")
        left = wanted
        for _ in range(_TRIES):
            by_host: dict[str, list[measure.Ping]] = {}
            for item in left:
                by_host.setdefault(item.host, []).append(item)
            told = self._condition({name: measure.pinging(some) for name, some in by_host.items()})
            left = [
                item
                for name, some in by_host.items()
                for item in measure.unanswered(some, told[name])
            ]
            if not left:
                break
        for item in wanted:
            answered = {**asdict(item), "answers": item not in left}
            entry["answers"].append(answered)
            self._events.add("way tried", item.host, way=answered)
        _refuse([str(item) for item in left], _ANSWERS)

    def _ask(self, plan: Plan, names: list[str], entry: dict[str, Any]) -> None:
        dns = {name: plan.host(name).dns for name in names if plan.host(name).dns}
        told = self._condition({name: measure.asking(items) for name, items in dns.items()})
        entry["dns"] = dict(told)
        for name in dns:
            self._events.add("dns asked", name, answers=told[name])
        _refuse(
            [
                f"host {name}: {line}"
                for name, items in dns.items()
                for line in measure.answered(items, told[name])
            ]
        )

    def _condition(self, scripts: Mapping[str, str]) -> Mapping[str, str]:
        return self._engine.condition(self._run, scripts, _DEADLINE) if scripts else {}


_RECORD = "settings.json in the run's directory has all that was done and read."
_ANSWERS = (
    "If somebody is at that address: where the kernel shows bridged packets to iptables, a "
    "firewall of the engine's machine may drop them; look at `iptables -S FORWARD` and `ip6tables "
    "-S FORWARD` there, or run `sysctl net.bridge.bridge-nf-call-iptables=0 "
    f"net.bridge.bridge-nf-call-ip6tables=0`. {_RECORD}"
)


def _refuse(found: list[str], remedy: str = _RECORD) -> None:
    if found:
        raise NotAsPlanned(
            "the hosts' networks are not as the scenario asks:\n"
            + "\n".join(f"  {line}" for line in found),
            remedy=remedy,
        )
