"""`files` and `reach`: what is looked at from beside hosts."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from ipaddress import ip_address
from typing import TYPE_CHECKING

import pytest

from checking import Case
from fedtest.engine.examine import Examined
from fedtest.engine.fake import Defects
from fedtest.engine.snapshot import TcpSocket

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A file that the fake engine's hosts have: they are all this machine."""
    path = tmp_path / "model"
    path.write_text("epoch 1\nloss 0.25\n")
    return path


class TestFiles:
    def test_holds_when_each_host_has_the_file(self, case: Case, model: Path) -> None:
        result = case.check(f"files: {{group: ring, path: {model}}}")
        assert result.passed
        assert result.expected == f"there is a file {model}"
        assert result.found == "18 B on all 2 hosts"

    def test_fails_when_there_is_none(self, case: Case, tmp_path: Path) -> None:
        result = case.check(f"files: {{host: a, path: {tmp_path}/nosuch}}")
        assert not result.passed
        assert result.found == "a: nothing"

    def test_a_directory_is_no_file(self, case: Case, tmp_path: Path) -> None:
        result = case.check(f"files: {{host: a, path: {tmp_path}}}")
        assert not result.passed
        assert result.found == "a: a directory"
        assert case.check(f"files: {{host: a, path: {tmp_path}, exists: false}}").passed

    def test_absence_can_be_what_is_expected(self, case: Case, model: Path) -> None:
        assert case.check(f"files: {{host: a, path: {model}.no, exists: false}}").passed
        result = case.check(f"files: {{host: a, path: {model}, exists: false}}")
        assert not result.passed
        assert result.details == ("a: found 18 B",)

    @pytest.mark.parametrize(
        ("said", "passed"),
        [
            ("min: 18B, max: 18B", True),
            ("min: 19B", False),
            ("max: 17B", False),
            ("match: 'loss 0[.][0-9]+'", True),
            ("match: '(?m)^loss 0.25$'", True),
            ("match: '^loss'", False),
        ],
    )
    def test_what_is_said_of_it(self, case: Case, model: Path, said: str, *, passed: bool) -> None:
        assert case.check(f"files: {{host: a, path: {model}, {said}}}").passed is passed

    def test_content_that_does_not_match_is_shown(self, case: Case, model: Path) -> None:
        result = case.check(f"files: {{host: a, path: {model}, match: accuracy}}")
        assert result.details == (
            "a: nothing in it matches", "its beginning:", "    epoch 1", "    loss 0.25",
        )  # fmt: skip

    def test_its_digest(self, case: Case, model: Path) -> None:
        right = hashlib.sha256(model.read_bytes()).hexdigest()
        assert case.check(f"files: {{host: a, path: {model}, sha256: '{right}'}}").passed
        wrong = case.check(f"files: {{host: a, path: {model}, sha256: '{'0' * 64}'}}")
        assert not wrong.passed
        assert wrong.details == (f"a: its SHA-256 is {right}",)

    def test_only_the_beginning_of_a_large_file_is_searched(self, case: Case, model: Path) -> None:
        model.write_bytes(bytes(1 << 20) + b"end")
        result = case.check(f"files: {{host: a, path: {model}, match: end}}")
        assert not result.passed
        assert result.details[0] == "a: nothing in the first 262.1 kB of it matches"

    def test_links_that_lead_nowhere_are_nothing(self, case: Case, model: Path) -> None:
        link = model.with_name("link")
        link.symlink_to(link)
        result = case.check(f"files: {{host: a, path: {link}, exists: false}}")
        assert not result.passed
        assert "could not be looked at" in result.details[0]


class TestReach:
    CHECK = "reach: {{from: a, to: b, port: 80, reachable: {}}}"

    def test_holds_when_a_connection_comes_to_be(self, case: Case) -> None:
        case.engine.defects = Defects(reach={("a", "10.1.0.3", 80): "connected"})
        result = case.check(self.CHECK.format("true"))
        assert (result.expected, result.found) == ("a reaches b at 10.1.0.3, port 80", "connected")
        assert result.passed
        assert not case.check(self.CHECK.format("false")).passed

    @pytest.mark.parametrize("why", ["Connection refused", "timed out", "No route to host"])
    def test_fails_when_none_does_and_says_why(self, case: Case, why: str) -> None:
        case.engine.defects = Defects(reach={("a", "10.1.0.3", 80): why})
        result = case.check(self.CHECK.format("true"))
        assert not result.passed
        assert result.found == why
        assert case.check(self.CHECK.format("false")).passed

    def test_the_network_can_be_chosen(self, case: Case) -> None:
        result = case.check("reach: {from: a, to: b, port: 80, network: data}")
        assert result.expected == "a reaches b at 192.168.0.11, port 80"


def test_a_connection_that_was_only_tried_is_no_processes(case: Case) -> None:
    left = TcpSocket(ip_address("10.1.0.2"), 50001, ip_address("10.1.0.3"), 80, "time-wait", None)
    seen = {"a": replace(case.evidence.before["a"], sockets=(left, replace(left, local_port=2)))}
    case.evidence.looked_beside({"a": Examined({}, {}, "", frozenset({50001}))})
    case.evidence.saw(seen)
    assert {item.local_port for item in case.state("a").sockets} == {2}
