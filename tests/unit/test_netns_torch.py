"""What a host without Docker tells torch of how it was built."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedtest.engine.netns import environment
from fedtest.engine.netns.node.python import own


@pytest.mark.parametrize(
    ("version", "told"),
    [("2.6.0+debian", "0"), ("2.14.1+cu130", None), ("2.13.0", None), (None, None)],
)
def test_only_debians_torch_is_told_to_do_without_libuv(
    version: str | None, told: str | None
) -> None:
    """By what hosts run, and not by what runs fedtest."""
    found = {} if version is None else {"torch": version}
    python = replace(own(), versions={"python": "3.13.0", **found})
    assert environment.variables(1000, python).get("USE_LIBUV") == told
