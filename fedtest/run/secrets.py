"""Values of secrets: read when a run begins, and seen by nobody but what they are for.

A plan has them as templates. They are filled in on the way to the engine, and
masked in all that comes back (see `concealing`), so what is between knows none.
"""

from __future__ import annotations

import json
import re
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from fedtest.errors import UsageError
from fedtest.scenario.template import fill_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fedtest.plan import Plan, ProcessPlan
    from fedtest.scenario.model import Scenario
    from fedtest.scenario.provisions import SecretSource

MASK = "***"
SHORTEST = 4
"""Characters; to mask a shorter one would be to mask half of all text."""
LONGEST = 16 << 10

COMMAND, CUT = 1000, "..."
"""How much is shown of a command, and how one ends of which that is the first words: as
`fedtest.probe.stacks`, which runs in hosts, has them."""

_T = TypeVar("_T")


class Secrets:
    """The values of one scenario's secrets, by name."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values
        written = {form for value in values.values() for form in _forms(value)}
        # The longest first: one may be the beginning of another.
        self._forms = sorted(written, key=len, reverse=True)
        self._text = re.compile("|".join(map(re.escape, self._forms)) or r"(?!)")
        self._encoded = [form.encode() for form in self._forms]
        self._bytes = re.compile(b"|".join(map(re.escape, self._encoded)) or rb"(?!)")
        begun = {form for value in values.values() for form in _begun(value)}
        longest = sorted(begun, key=len, reverse=True)
        self._cut = re.compile("|".join(map(re.escape, longest)) or r"(?!)")

    @classmethod
    def read(cls, scenario: Scenario, environ: Mapping[str, str]) -> Secrets:
        """From where the scenario says they are. UsageError with all that are not there."""
        values, missing = {}, []
        for name, source in scenario.secrets.items():
            try:
                values[name] = _value(source, environ)
            except ValueError as error:
                missing.append(f"secret {name}: {error}")
        if missing:
            raise UsageError(
                "\n".join(missing),
                remedy="`secrets` in the scenario says where each comes from.",
            )
        return cls(values)

    def __bool__(self) -> bool:
        return bool(self._values)

    def mask(self, text: str) -> str:
        """The text without them."""
        return self._text.sub(MASK, text)

    def mask_commands(self, text: str) -> str:
        """The same of text with commands, which may be cut between two words of a secret."""
        return self._cut.sub(f"{MASK} {CUT}", self.mask(text))

    def mask_bytes(self, data: bytes) -> bytes:
        """The same of bytes."""
        return self._bytes.sub(MASK.encode(), data)

    def masked(self, value: _T) -> _T:
        """A dataclass, mapping, list or text, whatever is in it, without them."""
        done: Any = value
        if not self or isinstance(value, Enum):
            pass
        elif isinstance(value, str):
            done = self.mask(value)
        elif is_dataclass(value) and not isinstance(value, type):
            parts = {item.name: self.masked(getattr(value, item.name)) for item in fields(value)}
            done = replace(value, **parts)
        elif isinstance(value, dict):
            done = {self.masked(key): self.masked(item) for key, item in value.items()}
        elif isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
            done = type(value)(self.masked(item) for item in value)
        return done  # type: ignore[no-any-return] # of the same type as it was

    def revealed(self, plan: Plan) -> Plan:
        """The plan as an engine needs it."""
        if not self:
            return plan
        return replace(
            plan,
            hosts=tuple(
                replace(
                    host,
                    files=tuple(
                        replace(file, content=self._filled(file.content))
                        if file.content is not None
                        else file
                        for file in host.files
                    ),
                )
                for host in plan.hosts
            ),
            processes=self.revealed_processes(plan.processes),
        )

    def revealed_processes(self, processes: Iterable[ProcessPlan]) -> tuple[ProcessPlan, ...]:
        """Processes as they are to be started."""
        return tuple(
            replace(
                process,
                argv=tuple(map(self._filled, process.argv)),
                env=tuple((key, self._filled(text)) for key, text in process.env),
            )
            for process in processes
        )

    def stream(self) -> MaskedStream:
        """For output that comes in pieces."""
        return MaskedStream(self._encoded, self._bytes)

    def _filled(self, text: str) -> str:
        return fill_secrets(text, self._values)


class MaskedStream:
    """Takes pieces of output and gives them back masked, also what is cut between two pieces.

    What may be the beginning of a secret is held back until more comes.
    """

    def __init__(self, forms: list[bytes], pattern: re.Pattern[bytes]) -> None:
        self._forms = forms
        self._pattern = pattern
        self._longest = max(map(len, forms), default=0)
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """What can be handed on."""
        data = self._held + data
        hold = self._held_from(data)
        done, at = [], 0
        for match in self._pattern.finditer(data):
            if match.start() >= hold:
                break
            done += [data[at : match.start()], MASK.encode()]
            at = match.end()
        if at < hold:
            done.append(data[at:hold])
            at = hold
        self._held = data[at:]
        return b"".join(done)

    def rest(self) -> bytes:
        """What was held back, when nothing more comes."""
        held, self._held = self._held, b""
        return self._pattern.sub(MASK.encode(), held)

    def _held_from(self, data: bytes) -> int:
        for at in range(max(len(data) - self._longest + 1, 0), len(data)):
            end = data[at:]
            if any(len(form) > len(end) and form.startswith(end) for form in self._forms):
                return at
        return len(data)


def _value(source: SecretSource, environ: Mapping[str, str]) -> str:
    """ValueError says why there is none, and never what it is."""
    if source.env is not None:
        if source.env not in environ:
            raise ValueError(f"the environment has no variable {source.env}")
        value, where = environ[source.env], f"the variable {source.env}"
    else:
        path = Path(source.file or "")
        try:
            if not path.is_file():
                raise ValueError(f"there is no file {path}")
            with path.open("rb") as file:
                raw = file.read(LONGEST + 2)
            value = raw.decode()
        except OSError as error:
            raise ValueError(f"{path} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not UTF-8") from error
        value, where = value.removesuffix("\n").removesuffix("\r"), str(path)
    if "\0" in value or any("\ud800" <= char <= "\udfff" for char in value):
        raise ValueError(f"{where} has characters that no program can be given")
    if not SHORTEST <= len(value) <= LONGEST or len(value.strip()) < SHORTEST:
        raise ValueError(
            f"{where} has not {SHORTEST} to {LONGEST} characters, so it cannot be masked"
        )
    return value


def _forms(value: str) -> set[str]:
    """As it may be written: by itself, line by line, in JSON, in Python, in an address.

    And as a shell hands it on that has split it into words.
    """
    lines = {line for line in value.splitlines() if len(line.strip()) >= SHORTEST}
    found = {value, *lines, " ".join(value.split())}
    for plain in (value, *lines):
        found |= {
            plain.strip(),
            json.dumps(plain)[1:-1],
            json.dumps(plain, ensure_ascii=False)[1:-1],
            repr(plain)[1:-1],
            quote(plain),
            quote(plain, safe=""),
            plain.replace("'", "'\\''"),
        }
    return {form for form in found if len(form) >= SHORTEST}


def _begun(value: str) -> set[str]:
    """Its first words, with nothing behind them: a shell had split it, and a command was cut."""
    words = value.split()
    found = set()
    for count in range(1, len(words)):
        begun = " ".join(words[:count])
        if len(begun) > COMMAND:
            break
        if len(begun) >= SHORTEST:
            found.add(f"{begun} {CUT}")
    return found
