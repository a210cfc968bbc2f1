"""What the hosts are like now, and how they are made to match the faults in effect.

What should be there is a plan (`desired`); what differs from the plan that was
made real last is changed, host by host, and read back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fedtest.engine.inside import hosts_file, resolv_conf
from fedtest.errors import NotAsPlanned
from fedtest.links import admission, apply, barriers, interfaces, readback
from fedtest.links.commands import Commands
from fedtest.run.faults.desired import called_alike, desired

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from fedtest.engine.base import Engine, Prepared, RunTag
    from fedtest.engine.snapshot import Snapshot
    from fedtest.links.mechanism import Mechanism
    from fedtest.plan import HostPlan, Plan
    from fedtest.run.bring_up import BringUp
    from fedtest.run.evidence import Evidence
    from fedtest.scenario.base import Part

DEADLINE = 60.0
_WRITE = "cat > {path} <<'FEDTEST_NAMES'\n{text}FEDTEST_NAMES\n"


class World:
    """The hosts of a run. Used by one thread.

    `base` is the plan without faults, `now` the plan that the hosts match.
    `off` and `paused` are hosts that faults have switched off or halted.
    `mechanism`: by what links are made, None if there never are any.
    """

    def __init__(  # noqa: PLR0917 - it is made in one place
        self,
        engine: Engine,
        run: RunTag,
        evidence: Evidence,
        prepared: Prepared,
        bring_up: BringUp,
        mechanism: Mechanism | None,
    ) -> None:
        self.engine = engine
        self.run = run
        self.base = evidence.plan
        self.now = evidence.plan
        self.off: frozenset[str] = frozenset()
        self.paused: frozenset[str] = frozenset()
        self._resolv_conf = {name: item.resolv_conf for name, item in evidence.before.items()}
        self._prepared = prepared
        self._bring_up = bring_up
        self._mechanism = mechanism
        self._active: list[Part] = []

    def add(self, spec: Part) -> None:
        """The fault is in effect from now on. NotAsPlanned, EngineError."""
        _refuse(called_alike(desired(self.base, [*self._active, spec])))
        self._active.append(spec)
        self._match()

    def remove(self, spec: Part) -> None:
        """The fault is over."""
        self._active = [item for item in self._active if item is not spec]
        self._match()

    def under_planned_names(self, host: str, looked: Snapshot) -> Snapshot:
        """What was looked at while faults may have renamed its interfaces."""
        pairs = zip(self.base.host(host).attachments, self.now.host(host).attachments, strict=True)
        planned = {now.interface: base.interface for base, now in pairs}
        there = {planned.get(name, name): item for name, item in looked.interfaces.items()}
        return replace(looked, interfaces=there)

    def stand_still(self, hosts: Iterable[str]) -> None:
        """NotAsPlanned if something is to be done within hosts that are paused."""
        if still := self.paused.intersection(hosts):
            listed = ", ".join(sorted(still))
            raise NotAsPlanned(f"nothing can be done within a paused host: {listed}")

    def be_on(self, hosts: Iterable[str]) -> None:
        """NotAsPlanned if something is to be done to hosts that are off."""
        if dark := self.off.intersection(hosts):
            raise NotAsPlanned(f"off at that moment: {', '.join(sorted(dark))}")

    def switch_on(self, host: str) -> Snapshot:
        """A host that is off is started, and as it should be, faults in effect included."""
        alone = replace(self.base, hosts=(self.base.host(host),))
        found = self.engine.realise(alone, self.run, self._prepared, lambda _: None, DEADLINE)
        self.off -= {host}
        # What its processes have made of the files that it was given is theirs.
        kept = replace(alone, hosts=(replace(self.base.host(host), files=()),))
        self._bring_up.verify(kept, found)
        target = desired(self.base, self._active)
        self._change(self.base, target, {host}, anew=True)
        return found[host]

    def _match(self) -> None:
        target = desired(self.base, self._active)
        hosts = {host.name for host in target.hosts} - self.off
        self._change(self.now, target, hosts)
        self.now = target

    def _change(self, before: Plan, after: Plan, hosts: set[str], *, anew: bool = False) -> None:
        """From one plan to another on `hosts`; `anew`: nothing of either is there yet."""
        pairs = [(before.host(name), after.host(name)) for name in sorted(hosts)]
        reshaped = self._interfaces(pairs)
        made_new = {host.name for _, host in pairs if anew or host.name in reshaped}
        asked_anew = {new.name for old, new in pairs if old.dns != new.dns}
        self._bring_up.settings.settle(after, made_new | asked_anew, measured=False)
        self._links(before, after, {host.name for _, host in pairs}, reshaped, anew=anew)
        self._admission([after.host(name) for name in sorted(made_new)])
        self._read_back(
            {
                new.name: barriers.script(new)
                for old, new in pairs
                if old.barriers != new.barriers or (anew and new.barriers)
            },
            lambda name, told: barriers.differences(after.host(name), told),
        )
        self._names(
            [(old, new) for old, new in pairs if (old.names, old.dns) != (new.names, new.dns)]
        )

    def _interfaces(self, pairs: Iterable[tuple[HostPlan, HostPlan]]) -> set[str]:
        changes: dict[str, list[interfaces.Change]] = {}
        for old, new in pairs:
            for was, is_now in zip(old.attachments, new.attachments, strict=True):
                key = (was.interface, was.address, was.up)
                if key != (is_now.interface, is_now.address, is_now.up):
                    changes.setdefault(new.name, []).append((was, is_now))
        self._read_back(
            {name: interfaces.script(some) for name, some in changes.items()},
            lambda name, told: interfaces.differences(changes[name], told),
        )
        return set(changes)

    def _links(
        self, before: Plan, after: Plan, hosts: set[str], reshaped: set[str], *, anew: bool
    ) -> None:
        if not (before.conditioned or after.conditioned):
            return
        chosen = self._mechanism
        assert chosen is not None  # noqa: S101 - links there are, or a fault makes some
        old = {} if anew else apply.plan_commands(before, chosen)
        new = apply.plan_commands(after, chosen)
        scripts = {}
        for name in hosts:
            was, wanted = old.get(name, Commands()), new[name]
            if was.lines != wanted.lines or (wanted.lines and name in reshaped):
                kept = None if anew or name in reshaped else was
                scripts[name] = apply.script(wanted, kept)
        self._read_back(scripts, lambda name, told: readback.differences(new[name], told))

    def _admission(self, hosts: Iterable[HostPlan]) -> None:
        wanted = {
            host.name: host for host in hosts if host.firewall is not None or host.ports_in_use
        }
        commands = {name: admission.plan_admission(host) for name, host in wanted.items()}
        self._read_back(
            {name: admission.script(item) for name, item in commands.items()},
            lambda name, told: admission.differences(wanted[name], told),
        )
        self._run({name: admission.after_attempts() for name in wanted})

    def _names(self, pairs: list[tuple[HostPlan, HostPlan]]) -> None:
        """/etc/hosts, and where DNS is asked: ours, or the engine's."""
        scripts: dict[str, str] = {}
        for old, new in pairs:
            text = hosts_file(new.names)
            scripts[new.name] = _WRITE.format(path="/etc/hosts", text=text)
            if bool(old.dns) != bool(new.dns):
                conf = resolv_conf(new.dns) or f"{self._resolv_conf[new.name]}\n"
                scripts[new.name] += _WRITE.format(path="/etc/resolv.conf", text=conf)
        if not scripts:
            return
        self.engine.condition(self.run, scripts, DEADLINE, inside=True)
        found = self.engine.observe(self.run, scripts, DEADLINE)
        _refuse(
            [
                f"host {new.name}: {name} is not what it should be"
                for _, new in pairs
                for name, there, text in (
                    ("/etc/hosts", found[new.name].hosts_file, hosts_file(new.names)),
                    (
                        "/etc/resolv.conf",
                        found[new.name].resolv_conf,
                        resolv_conf(new.dns) or self._resolv_conf[new.name],
                    ),
                )
                if there.rstrip("\n") != text.rstrip("\n")
            ]
        )

    def _read_back(
        self, scripts: Mapping[str, str], differences: Callable[[str, str], list[str]]
    ) -> None:
        told = self._run(scripts)
        _refuse(
            [f"host {name}: {line}" for name in scripts for line in differences(name, told[name])]
        )

    def _run(self, scripts: Mapping[str, str]) -> Mapping[str, str]:
        return self.engine.condition(self.run, scripts, DEADLINE) if scripts else {}


def _refuse(found: list[str]) -> None:
    if found:
        raise NotAsPlanned("\n".join(found))
