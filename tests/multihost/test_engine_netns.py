"""The engine without Docker keeps to the contract, for real."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from engine_contract import RealEngineContract
from engine_contract_provisions import RealProvisionsContract

from fedtest.engine.netns.engine import NetnsEngine

if TYPE_CHECKING:
    from collections.abc import Iterator

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
