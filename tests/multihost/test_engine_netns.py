"""The engine without Docker keeps to the contract, for real."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine_contract import RealEngineContract
from engine_contract_provisions import RealProvisionsContract
from fedtest.engine.netns import limits
from fedtest.engine.netns.engine import NetnsEngine
from fedtest.errors import EngineUnavailable, NotAsPlanned

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fedtest.engine.base import Engine, RunTag
    from fedtest.engine.snapshot import Snapshot
    from fedtest.plan import Plan

pytestmark = pytest.mark.netns


@pytest.fixture
def engine() -> Iterator[NetnsEngine]:
    engine = NetnsEngine()
    yield engine
    engine.close()


class TestNetnsEngine(RealEngineContract):
    """As whoever runs the tests."""

    shares_addresses = False


class TestNetnsProvisions(RealProvisionsContract):
    """What hosts are given beside networks."""

    def given(
        self, engine: Engine, run: RunTag, **fields: Any
    ) -> tuple[Plan, Mapping[str, Snapshot]]:
        """Limits are refused, and never dropped, where control groups cannot be written."""
        try:
            return super().given(engine, run, **fields)
        except (EngineUnavailable, NotAsPlanned) as error:
            why = limits.cannot(limits.CONTROLLERS)
            if why and "control groups" in error.message:
                pytest.skip(f"no control groups here ({why}): refused, as it must be")
            raise
