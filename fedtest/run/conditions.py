"""Makes networks as the scenario wants them: applied, read back, measured, or the run is invalid.

Between the hosts being ready and the first process: nobody is disturbed by the
measuring, and nobody has run under other conditions.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fedtest.errors import NotAsPlanned
from fedtest.links import admission, apply, measure, readback
from fedtest.links.mechanism import ASK, mechanism, refuse_impossible
from fedtest.links.tolerance import Measured, judge

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fedtest.engine.base import Engine, RunTag
    from fedtest.links.commands import Commands
    from fedtest.links.measure import Measurement
    from fedtest.links.mechanism import Mechanism
    from fedtest.plan import Plan
    from fedtest.run.artifacts import RunDirectory
    from fedtest.run.events import EventLog
    from fedtest.run.observer import Observer

_DEADLINE = 120.0
_TRIES = 6
"""How often a way is measured before it counts as wrong: a busy machine disturbs
one measurement; what was not applied is wrong in all."""


class Conditions:
    """The conditions of one run. `links.json` has what was done and found, after a failure too."""

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
        self._record: dict[str, Any] = {}

    def make(self, plan: Plan, netem: bool | None) -> Mechanism:
        """Make, read back and measure what `plan` asks for; by what. NotAsPlanned, InvalidError.

        `netem`: whether the kernel has it; None if only a host can tell.
        """
        try:
            chosen = ask_mechanism(self._engine, self._run, plan, netem)
            self._links(plan, chosen)
            self._admission(plan)
        finally:
            self._directory.json("links.json", self._record)
        return chosen

    def _links(self, plan: Plan, chosen: Mechanism) -> None:
        refuse_impossible(plan, chosen)
        commands = {
            name: item for name, item in apply.plan_commands(plan, chosen).items() if item.lines
        }
        self._record |= {"mechanism": chosen, "applied": {}, "measured": []}
        if not commands:
            return
        self._observer.stage_progress(f"links by {chosen}")
        wanted = measure.measurements(plan)
        serving = {item.way.receiver for item in wanted}
        scripts = {name: apply.script(item) for name, item in commands.items()}
        for name in serving:
            scripts[name] = f"{scripts.get(name, 'set -eu')}\n{measure.serving()}\n"
        told = self._condition(scripts)
        self._read_back(commands, told)
        try:
            self._measure(wanted)
        finally:
            self._condition(dict.fromkeys(serving, measure.no_longer_serving()))

    def _read_back(self, commands: Mapping[str, Commands], told: Mapping[str, str]) -> None:
        found = []
        for name, item in commands.items():
            there = told.get(name, "")
            self._record["applied"][name] = {"commands": item.shown, "read_back": there}
            self._events.add("links applied", name)
            found += [f"host {name}: {line}" for line in readback.differences(item, there)]
        _refuse("the links are not as the scenario asks", found)

    def _measure(self, wanted: list[Measurement]) -> None:
        left = wanted
        wrong: dict[Measurement, list[Measured]] = {}
        for _ in range(_TRIES):
            wrong = {}
            for some in measure.rounds(left):
                for item, figures in self._round(some).items():
                    if not all(figure.fits for figure in figures):
                        wrong[item] = figures
            left = list(wrong)
            if not left:
                break
        count = len(wanted) - len(wrong)
        if wanted:
            self._observer.stage_progress(f"measured {count} of {len(wanted)} ways as asked for")
        _refuse(
            "the links are not as the scenario asks, as measured",
            [
                f"{item}: {figure}"
                for item, figures in wrong.items()
                for figure in figures
                if not figure.fits
            ],
        )

    def _round(self, some: list[Measurement]) -> dict[Measurement, list[Measured]]:
        told = self._condition({item.way.sender: measure.asking([item.order()]) for item in some})
        found = {}
        for item in some:
            answer = measure.answers(told[item.way.sender])
            found[item] = judge(item, answer)
            figures = [{**asdict(figure), "fits": figure.fits} for figure in found[item]]
            entry: dict[str, Any] = {
                "network": item.way.network,
                "from": item.way.sender,
                "to": item.way.receiver,
                "figures": figures,
            }
            self._record["measured"].append(entry)
            self._events.add("link measured", **entry)
        return found

    def _admission(self, plan: Plan) -> None:
        hosts = admission.wanted(plan)
        if not hosts:
            return
        commands = {host.name: admission.plan_admission(host) for host in hosts}
        told = self._condition({name: admission.script(item) for name, item in commands.items()})
        self._record["admission"] = {
            name: {"commands": item.shown, "read_back": told[name]}
            for name, item in commands.items()
        }
        try:
            _refuse(
                "the firewalls are not as the scenario asks",
                [
                    f"host {host.name}: {line}"
                    for host in hosts
                    for line in admission.differences(host, told[host.name])
                ],
            )
            self._attempt(plan)
        finally:
            self._condition({host.name: admission.after_attempts() for host in hosts})

    def _attempt(self, plan: Plan) -> None:
        by_origin: dict[str, list[admission.Attempt]] = defaultdict(list)
        for item in admission.attempts(plan):
            by_origin[item.origin].append(item)
        told = self._condition({name: admission.trying(some) for name, some in by_origin.items()})
        wrong = []
        self._record["attempts"] = []
        for name, some in by_origin.items():
            found = admission.outcomes(told[name])
            found += ["not tried"] * (len(some) - len(found))
            for item, outcome in zip(some, found, strict=False):
                entry = {**asdict(item), "found": outcome}
                self._record["attempts"].append(entry)
                self._events.add("connection tried", attempt=entry)
                if outcome != item.expected:
                    wrong.append(f"{item} should be {item.expected}, it is {outcome}")
        _refuse("the hosts do not let in what the scenario asks", wrong)

    def _condition(self, scripts: Mapping[str, str]) -> Mapping[str, str]:
        return self._engine.condition(self._run, scripts, _DEADLINE) if scripts else {}


def ask_mechanism(engine: Engine, run: RunTag, plan: Plan, netem: bool | None) -> Mechanism:
    """By what links are made. `netem`: whether the kernel has it; None if only a host can tell."""
    if netem is None:
        host = plan.hosts[0].name
        netem = engine.condition(run, {host: ASK}, _DEADLINE)[host].strip() == "yes"
    return mechanism(netem=netem)


def _refuse(what: str, found: list[str]) -> None:
    if found:
        raise NotAsPlanned(
            f"{what}:\n" + "\n".join(f"  {line}" for line in found),
            remedy="links.json in the run's directory has all that was read and measured. A "
            "machine that is too busy or too slow for a rate shows here, too; `probe: false` at a "
            "link leaves out the measuring.",
        )
