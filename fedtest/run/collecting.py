"""Files that hosts leave, copied into the run's directory before the hosts are removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.engine.examine import Examination
from fedtest.errors import InvalidError
from fedtest.run.bring_up import OBSERVE_DEADLINE
from fedtest.run.result import Collected, Problem, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fedtest.engine.base import Engine, RunTag
    from fedtest.engine.examine import Examined, FileFacts
    from fedtest.run.artifacts import RunDirectory
    from fedtest.scenario.model import Scenario


class Collecting:
    """What was asked for and is there, and what has to be said of the rest."""

    def __init__(
        self, scenario: Scenario, engine: Engine, run: RunTag, directory: RunDirectory
    ) -> None:
        self._wanted = {name: host.collect for name, host in scenario.hosts.items() if host.collect}
        self._engine = engine
        self._run = run
        self._directory = directory
        self.collected: list[Collected] = []
        self.problems: list[Problem] = []

    def __bool__(self) -> bool:
        return bool(self._wanted)

    def collect(self) -> None:
        """Copy them. A host that cannot be looked at does not cost the others' files."""
        for host, examined in self._examined().items():
            for item in self._wanted[host]:
                facts = examined.whole[item.path]
                missing = facts.kind is None and not facts.error
                if missing and item.optional:
                    continue
                if wrong := _wrong(facts):
                    message = f"host {host}: {item.path} was to be collected: {wrong}"
                    self.problems.append(Problem(Verdict.FAILED, message))
                else:
                    self._write(host, item.path, facts.content)

    def _write(self, host: str, path: str, content: bytes) -> None:
        """One that cannot be written costs neither the others nor what the run has shown."""
        name = f"files/{host}{path}"
        try:
            self._directory.binary(name, content)
        except InvalidError as error:
            message = f"host {host}: {path} was to be collected: {error.message}"
            self.problems.append(Problem(Verdict.INVALID, message, error.remedy))
        else:
            # Not the size in the host: secrets are masked.
            self.collected.append(Collected(host, path, name, len(content)))

    def _examined(self) -> Mapping[str, Examined]:
        wanted = {
            host: Examination(whole=tuple(dict.fromkeys(item.path for item in items)))
            for host, items in self._wanted.items()
        }
        try:
            return self._engine.examine(self._run, wanted, OBSERVE_DEADLINE)
        except InvalidError:
            return dict(self._one_by_one(wanted))

    def _one_by_one(self, wanted: Mapping[str, Examination]) -> Iterator[tuple[str, Examined]]:
        for host, examination in wanted.items():
            try:
                yield (
                    host,
                    self._engine.examine(self._run, {host: examination}, OBSERVE_DEADLINE)[host],
                )
            except InvalidError as error:
                message = f"host {host}: its files could not be collected: {error.message}"
                self.problems.append(Problem(Verdict.INVALID, message, error.remedy))


def _wrong(facts: FileFacts) -> str:
    if facts.error:
        return facts.error
    if facts.kind is None:
        return "it is not there"
    return "" if facts.kind == "file" else "it is no regular file"
