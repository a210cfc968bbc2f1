"""The Docker engine keeps to the contract, for real."""

from __future__ import annotations

from engine_contract import RealEngineContract


class TestDockerEngine(RealEngineContract):
    """The fixture `engine` is conftest's."""
