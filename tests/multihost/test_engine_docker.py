"""The Docker engine keeps to the contract, for real."""

from __future__ import annotations

from engine_contract import RealEngineContract
from engine_contract_provisions import RealProvisionsContract


class TestDockerEngine(RealEngineContract):
    """The fixture `engine` is conftest's."""


class TestDockerProvisions(RealProvisionsContract):
    """What hosts are given beside networks."""
