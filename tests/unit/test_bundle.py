"""Where the images and scenarios are found."""

from pathlib import Path

import pytest

from fedtest import bundle
from fedtest.errors import FedtestError, UsageError


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """An installation with two scenarios, and a current directory elsewhere."""
    root = tmp_path / "site" / "fedtest" / "_bundle"
    (root / "images").mkdir(parents=True)
    (root / "scenarios").mkdir()
    (root / "Dockerfile").touch()
    for name in ("ring", "other"):
        (root / "scenarios" / f"{name}.yaml").touch()
    monkeypatch.setattr(bundle, "PACKAGE", root.parent)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    return root


def test_in_a_clone_it_is_the_repository(monkeypatch):
    root = Path(__file__).resolve().parents[2]
    monkeypatch.setattr(bundle, "PACKAGE", root / "fedtest")
    assert bundle.bundle() == root


def test_in_a_wheel_it_is_inside_the_package(shipped):
    assert bundle.bundle() == shipped


def test_an_installation_that_is_not_whole_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(bundle, "PACKAGE", tmp_path / "fedtest")
    with pytest.raises(FedtestError, match="not whole"):
        bundle.bundle()


@pytest.mark.parametrize("argument", ["ring", "ring.yaml", "scenarios/ring.yaml"])
def test_a_shipped_scenario_is_found_from_anywhere(shipped, argument):
    assert bundle.scenario_file(argument) == shipped / "scenarios" / "ring.yaml"


@pytest.mark.usefixtures("shipped")
def test_a_file_that_is_there_comes_first():
    Path("ring.yaml").touch()
    assert bundle.scenario_file("ring.yaml") == Path("ring.yaml")


@pytest.mark.parametrize("argument", ["rinq.yaml", "/nowhere/ring.yaml", "ring.yml", "."])
@pytest.mark.usefixtures("shipped")
def test_what_is_nowhere_is_a_usage_error(argument):
    with pytest.raises(UsageError) as caught:
        bundle.scenario_file(argument)
    assert argument in caught.value.message
    assert caught.value.remedy
