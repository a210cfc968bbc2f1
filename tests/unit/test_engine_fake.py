"""The fake engine keeps to the contract, so that what is built on it can trust it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from engine_contract import EngineContract

from fedtest.engine.fake import FakeEngine

if TYPE_CHECKING:
    from collections.abc import Iterator


class TestFakeEngine(EngineContract):
    @pytest.fixture
    def engine(self) -> Iterator[FakeEngine]:
        engine = FakeEngine()
        yield engine
        engine.close()
