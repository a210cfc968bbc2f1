"""What checks of bytes and packets between two hosts need: counted from before processes start."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from fedtest.errors import EngineError
from fedtest.links import counting
from fedtest.scenario.checks import BytesCheck, PacketsCheck

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fedtest.engine.base import Engine, RunTag
    from fedtest.plan import Plan
    from fedtest.run.evidence import Evidence, PairKey
    from fedtest.scenario.checks import Check

_DEADLINE = 60.0


class Pairs:
    """The pairs of hosts between which something is counted, in one run."""

    def __init__(self, engine: Engine, run: RunTag, plan: Plan, checks: Iterable[Check]) -> None:
        self._engine = engine
        self._run = run
        self._wanted: dict[str, list[PairKey]] = {}
        for key in dict.fromkeys(_keys(plan, checks)):
            self._wanted.setdefault(key[0], []).append(key)
        self._counts = {
            host: [counting.Count(key[2], _addresses(plan, key)) for key in keys]
            for host, keys in self._wanted.items()
        }

    def start(self) -> None:
        """Count from now on. EngineError."""
        if self._counts:
            scripts = {host: counting.start(counts) for host, counts in self._counts.items()}
            self._engine.condition(self._run, scripts, _DEADLINE)

    def read(self, evidence: Evidence) -> None:
        """Put what was counted into the evidence; a host that was made anew has counted nothing."""
        for host, counts in self._counts.items():
            if host in evidence.made_anew:
                continue
            told = ""
            # A host that is gone is told of by others; its checks say that nothing is known.
            with suppress(EngineError):
                script = {host: counting.read(counts)}
                told = self._engine.condition(self._run, script, _DEADLINE)[host]
            for key, found in zip(self._wanted[host], counting.parse(counts, told), strict=True):
                if found is not None:
                    evidence.pairs[key] = found


def _keys(plan: Plan, checks: Iterable[Check]) -> Iterator[PairKey]:
    for check in checks:
        spec = check.spec
        if isinstance(spec, (BytesCheck, PacketsCheck)) and spec.peer is not None:
            groups = {group.name: group.members for group in plan.groups}
            for host in (spec.host,) if spec.host is not None else groups[spec.group or ""]:
                if host != spec.peer:
                    yield host, spec.network, spec.direction, spec.peer


def _addresses(plan: Plan, key: PairKey) -> tuple[str, ...]:
    _, network, _, peer = key
    return tuple(
        str(address.ip)
        for item in plan.host(peer).attachments
        if item.network == network
        for address in item.addresses
    )
