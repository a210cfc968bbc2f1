"""What a host without Docker tells torch of how it was built."""

from __future__ import annotations

from importlib import metadata

import pytest

from fedtest.engine.netns import environment


@pytest.mark.parametrize(
    ("version", "told"),
    [("2.6.0+debian", "0"), ("2.14.1+cu130", None), ("2.13.0", None), (None, None)],
)
def test_only_debians_torch_is_told_to_do_without_libuv(
    monkeypatch: pytest.MonkeyPatch, version: str | None, told: str | None
) -> None:
    def installed(name: str) -> str:
        assert name == "torch"
        if version is None:
            raise metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(metadata, "version", installed)
    assert environment.variables(1000).get("USE_LIBUV") == told
