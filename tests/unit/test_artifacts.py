"""What a run leaves is whole or not there, and the newest run can be found."""

from __future__ import annotations

import json
import math
import os
import threading
from datetime import UTC, datetime
from enum import StrEnum
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from engine_contract import HOSTS, two_networks
from fedtest.engine.base import ProcessKey, RunTag
from fedtest.engine.fake import FakeEngine
from fedtest.engine.owner import Owner
from fedtest.errors import InvalidError, UsageError
from fedtest.run.artifacts import RunDirectory, to_json

NOW = datetime(2024, 2, 3, 4, 5, 6, tzinfo=UTC)


def make(runs: Path, run_id: str = "c0ffee") -> RunDirectory:
    return RunDirectory(runs, "ring", run_id, NOW)


def test_the_directory_is_named_by_time_scenario_and_id(tmp_path: Path) -> None:
    directory = make(tmp_path / "deep" / "runs")
    assert directory.path == tmp_path / "deep" / "runs" / "20240203-040506-ring-c0ffee"
    assert directory.path.is_dir()


def test_a_relative_place_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert make(Path("runs")).path.is_absolute()


def test_latest_points_at_the_newest_run(tmp_path: Path) -> None:
    make(tmp_path, "one")
    assert (tmp_path / "latest").resolve().name.endswith("-one")
    make(tmp_path, "two")
    assert (tmp_path / "latest").resolve().name.endswith("-two")


def test_latest_still_points_when_all_runs_have_been_moved(tmp_path: Path) -> None:
    make(tmp_path / "runs")
    (tmp_path / "runs").rename(tmp_path / "elsewhere")
    assert (tmp_path / "elsewhere" / "latest" / "logs").is_dir()


def test_latest_is_never_missing_while_runs_start_side_by_side(tmp_path: Path) -> None:
    make(tmp_path, "first")
    over = threading.Event()
    missing = []

    def look() -> None:
        while not over.is_set():
            if not (tmp_path / "latest" / "logs").is_dir():
                missing.append(1)

    watcher = threading.Thread(daemon=True, target=look)
    watcher.start()
    makers = [
        threading.Thread(
            daemon=True, target=lambda n=n: [make(tmp_path, f"{n}-{m}") for m in range(20)]
        )
        for n in range(4)
    ]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    over.set()
    watcher.join()
    assert not missing
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_place_that_is_a_file_is_the_users_mistake(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("", encoding="utf-8")
    with pytest.raises(UsageError, match="cannot write the run's directory") as caught:
        make(tmp_path / "runs")
    assert "--runs" in caught.value.remedy


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_place_that_may_not_be_written_is_the_users_mistake(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="Permission denied"):
        make(tmp_path)


def test_a_kernels_directory_is_the_users_mistake() -> None:
    with pytest.raises(UsageError):
        make(Path("/proc/fedtest"))


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    directory = make(tmp_path)
    directory.text("result.json", "old")
    with (directory.path / "result.json").open(encoding="utf-8") as reader:
        directory.text("result.json", "new")
        assert reader.read() == "old"
    assert (directory.path / "result.json").read_text(encoding="utf-8") == "new"
    assert sorted(path.name for path in directory.path.iterdir()) == [
        "hosts",
        "logs",
        "result.json",
    ]


def test_what_cannot_be_written_leaves_what_was_there(tmp_path: Path) -> None:
    directory = make(tmp_path)
    directory.text("plan.json", "old")
    (directory.path / ".plan.json.part").symlink_to("/dev/full")
    with pytest.raises(InvalidError, match="No space left"):
        directory.text("plan.json", "new")
    assert (directory.path / "plan.json").read_text(encoding="utf-8") == "old"


def test_half_a_surrogate_pair_can_be_written(tmp_path: Path) -> None:
    directory = make(tmp_path)
    directory.text("x", "\ud800")
    assert (directory.path / "x").read_text(encoding="utf-8") == "\\ud800"


def test_logs_are_told_apart_by_host_and_process(tmp_path: Path) -> None:
    directory = make(tmp_path)
    log = directory.log(ProcessKey("server1", "trainer"))
    assert log == directory.path / "logs" / "server1.trainer.log"


def test_a_host_is_kept_as_it_printed_itself_and_parsed(tmp_path: Path) -> None:
    directory = make(tmp_path)
    engine, run, plan = FakeEngine(), RunTag("r", "s", Owner.me()), two_networks(HOSTS)
    found = engine.realise(plan, run, engine.prepare(plan, run, print), print, 1)["a"]
    directory.snapshot("before", "a", found)
    hosts = directory.path / "hosts"
    assert (hosts / "a.before.txt").read_text(encoding="utf-8") == found.text
    parsed = json.loads((hosts / "a.before.json").read_text(encoding="utf-8"))
    assert parsed["interfaces"]["eth0"]["addresses"] == [str(plan.hosts[0].attachments[0].address)]
    assert "text" not in parsed


def test_json_says_what_it_can_and_the_rest_as_strings() -> None:
    class Kind(StrEnum):
        ONE = "one"

    content = {
        "nan": math.nan,
        "many": (1, 2.5, True, None, math.inf),
        "address": IPv4Address("10.0.0.1"),
        Kind.ONE: Kind.ONE,
        7: ProcessKey("a", "p"),
    }
    assert json.loads(to_json(content)) == {
        "nan": "nan",
        "many": [1, 2.5, True, None, "inf"],
        "address": "10.0.0.1",
        "one": "one",
        "7": ["a", "p"],
    }
