"""What the SDK raises becomes our own error, and what is not the engine's stays what it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import requests
from docker.errors import APIError, DockerException
from docker.tls import TLSConfig

from fedtest.engine.docker.client import _Client, engine_errors
from fedtest.engine.docker.endpoint import Endpoint
from fedtest.engine.docker.reach import reach
from fedtest.errors import (
    DeadlineError,
    EngineError,
    EngineUnavailable,
    FedtestError,
    Interrupted,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("raised", "ours"),
    [
        (APIError("no", response=requests.Response(), explanation="no"), EngineError),
        (requests.exceptions.ReadTimeout("no"), DeadlineError),
        (requests.exceptions.ConnectionError("no"), EngineUnavailable),
        (DockerException("no"), EngineUnavailable),
        (ValueError("Port out of range 0-65535"), EngineUnavailable),
    ],
)
def test_each_of_the_sdks_errors_has_one_of_ours(
    raised: Exception, ours: type[FedtestError]
) -> None:
    with pytest.raises(FedtestError, match="asking: ") as caught, engine_errors("asking"):
        raise raised
    assert type(caught.value) is ours
    assert caught.value.__cause__ is raised


def test_a_signal_that_the_sdk_took_for_an_error_is_still_a_signal() -> None:
    signal = Interrupted("interrupted by SIGTERM")
    with pytest.raises(Interrupted) as caught, engine_errors("asking"):
        wrapped(signal)
    assert caught.value is signal


def wrapped(signal: Interrupted) -> None:
    """As the SDK does when it asks for the engine's version."""
    try:
        raise signal
    except Interrupted as error:
        raise DockerException("Error while fetching server API version") from error


@pytest.mark.parametrize(
    "text", ["[1]", '"x"', '{"auths": 5}', '{"auths": {"x": 3}}', '{"proxies": 5}']
)
def test_a_configuration_that_the_sdk_cannot_use_is_told_of_with_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    (tmp_path / "config.json").write_text(text, encoding="ascii")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with pytest.raises(EngineUnavailable, match=f"{tmp_path}/config.json cannot be used") as caught:
        reach(Endpoint("unix:///nonexistent.sock"))
    assert "DOCKER_CONFIG" in caught.value.remedy


def test_an_engine_is_known_by_its_own_authority_whatever_the_environment_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.setenv(name, "/etc/ssl/certs/ca-certificates.crt")
    authority = tmp_path / "ca.pem"
    authority.touch()
    tls = TLSConfig(ca_cert=str(authority), verify=True)
    client = _Client("tcp://127.0.0.1:1", version="1.41", tls=tls)
    found = client.merge_environment_settings("https://127.0.0.1:1", {}, None, None, None)
    client.close()
    assert found["verify"] == str(authority)
