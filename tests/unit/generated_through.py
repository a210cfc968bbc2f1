"""Sends a text through all that a scenario goes through before there is an engine.

Within bounds: no traceback, seconds, and memory.
"""

from __future__ import annotations

import faulthandler
import re
import tempfile
import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
from generated_texts import BASE, generated_text, mutated_bytes, mutated_structure
from hypothesis import strategies as st

from fedtest import cli
from fedtest.errors import ExitCode
from fedtest.scenario.load import dump, loads

if TYPE_CHECKING:
    from generated_choices import Choices

SECONDS = 15.0
"""Of processor time for one text, be it a megabyte."""
MEGABYTES = 500
_HANGS = 300
"""Seconds after which the process is ended, with a traceback of where it was."""


# Made anew it would be a third of the time.
_parser = cache(cli._parser)


@dataclass
class Through:
    """Sends texts through, and counts what came of them."""

    outcomes: dict[str, int] = field(default_factory=dict)
    slowest: float = 0.0
    _file: Path = field(
        default_factory=lambda: Path(tempfile.mkdtemp(prefix="fedtest-generated-")) / "s.yaml"
    )

    def generated(self, choices: Choices) -> None:
        """One from the model: if it is valid it must be taken, and survive being written."""
        text, valid = generated_text(choices)
        code = self._send(text.encode(), "generated")
        if valid:
            assert code == ExitCode.PASSED, text
            # Reading takes most of the time.
            if choices.below(4) == 0:
                assert dump(loads(text, base=BASE, look=True).scenario) == text

    def of_bytes(self, choices: Choices) -> None:
        """One with some of its bytes changed."""
        self._send(mutated_bytes(choices), "bytes")

    def of_structure(self, choices: Choices) -> None:
        """One with some of its values changed."""
        self._send(mutated_structure(choices), "structure")

    def one(self, choices: Choices) -> None:
        """One of some kind; those that cost least are most."""
        kinds = (self.generated, self.of_bytes, self.of_bytes, self.of_structure)
        kinds[choices.below(4)](choices)

    def close(self) -> None:
        """Leave nothing."""
        self._file.unlink(missing_ok=True)
        self._file.parent.rmdir()

    def _send(self, raw: bytes, kind: str) -> ExitCode:
        self._file.write_bytes(raw)
        out, err = StringIO(), StringIO()
        began = time.process_time()
        faulthandler.dump_traceback_later(_HANGS, exit=True)
        cli._parser = _parser
        try:
            with redirect_stdout(out), redirect_stderr(err):
                code = ExitCode(cli.main(["run", "--dry-run", str(self._file)]))
        finally:
            faulthandler.cancel_dump_traceback_later()
        seconds = time.process_time() - began
        self.slowest = max(self.slowest, seconds)
        said = err.getvalue()
        assert code in {ExitCode.PASSED, ExitCode.USAGE, ExitCode.INVALID}, (said, raw)
        assert bool(said) == (code != ExitCode.PASSED), (said, raw)
        assert "Traceback" not in said or b"Traceback" in raw, said
        assert seconds < SECONDS, f"{seconds:.1f} s for {raw[:3000]!r}"
        outcome = f"{kind}, {code.name.lower()}"
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        return code


def forget_peak() -> None:
    """The most memory that this process had is counted from now on."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_megabytes() -> float:
    """The most memory that this process had."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    found = re.search(r"VmHWM:\s*([0-9]+) kB", status)
    assert found is not None
    return int(found[1]) / 1000


class Drawn:
    """Decisions that hypothesis makes, so that it can make a failure smaller."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def below(self, count: int) -> int:
        return self._draw(_below(count))

    def text(self) -> str:
        return self._draw(_TEXTS)


@cache
def _below(count: int) -> st.SearchStrategy[int]:
    return st.integers(0, count - 1)


_TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)


def send(through: Through, count: int, seed: int) -> None:
    """So many examples; raises with the smallest that is not gone through."""

    @st.composite
    def choices(draw: st.DrawFn) -> Drawn:
        return Drawn(draw)

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(choices())
    def example(found: Drawn) -> None:
        through.one(found)

    example()
