"""The Docker engine keeps to the contract, for real."""

from __future__ import annotations

from engine_contract import EngineContract


class TestDockerEngine(EngineContract):
    """The fixture `engine` is conftest's."""
