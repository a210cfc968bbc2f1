"""The Docker engine keeps to the contract, for real."""

from __future__ import annotations

import pytest

from engine_contract import RealEngineContract
from engine_contract_provisions import RealProvisionsContract

pytestmark = pytest.mark.docker


class TestDockerEngine(RealEngineContract):
    """The fixture `engine` is conftest's."""


class TestDockerProvisions(RealProvisionsContract):
    """What hosts are given beside networks."""
