"""The fake engine keeps to the contract, so that what is built on it can trust it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine_contract import EngineContract
from engine_contract_provisions import ProvisionsContract
from fedtest.engine.fake import Defects, FakeEngine
from fedtest.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fedtest.engine.base import RunTag


class TestFakeEngine(EngineContract):
    @pytest.fixture
    def engine(self) -> Iterator[FakeEngine]:
        engine = FakeEngine()
        yield engine
        engine.close()

    def test_scripts_for_a_hosts_network_are_kept_and_answered_as_the_test_says(
        self, run: RunTag
    ) -> None:
        def answer(host: str, script: str) -> str:
            if script == "false":
                raise EngineError(f"changing the network of host {host}: no")
            return "done\n" if host == "a" else ""

        engine = FakeEngine(Defects(answer=answer))
        self.made(engine, run)
        assert engine.condition(run, {"a": "one", "b": "two"}, 1) == {"a": "done\n", "b": ""}
        assert engine.conditioned == [("a", "one"), ("b", "two")]
        with pytest.raises(EngineError, match="host b: no"):
            engine.condition(run, {"b": "false"}, 1)


class TestFakeProvisions(ProvisionsContract):
    @pytest.fixture
    def engine(self) -> Iterator[FakeEngine]:
        engine = FakeEngine()
        yield engine
        engine.close()
