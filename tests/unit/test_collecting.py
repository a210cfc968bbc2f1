"""Files of hosts in the run's directory, on the fake engine, whose hosts' files are ours."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from fedtest.engine.fake import FakeEngine
from fedtest.errors import EngineError, ScenarioError
from fedtest.probe import files
from fedtest.run.result import Verdict
from fedtest.scenario.load import loads
from runs import Lab

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from fedtest.engine.base import RunTag
    from fedtest.engine.examine import Examination, Examined

TEXT = """
fedtest: 1
name: small
deadline: 200s
networks: {data: {}}
hosts:
  a: {nics: {data: eth0}, collect: COLLECT}
  b: {nics: {data: ib0}}
processes: {work: {hosts: [a], run: "RUN"}}
"""


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def scenario(run: str, *collect: object) -> str:
    return TEXT.replace("RUN", run).replace("COLLECT", json.dumps(collect))


def test_what_a_host_leaves_is_in_the_runs_directory_and_told(lab: Lab, tmp_path: Path) -> None:
    out = tmp_path / "out"
    text = scenario(
        f"mkdir {out} && printf '\\\\001\\\\377' > {out}/bytes && echo said > {out}/text",
        f"{out}/bytes",
        {"path": f"{out}/text", "optional": True},
        {"path": f"{out}/nosuch", "optional": True},
    )
    run = lab.run(text)
    assert run.result.verdict is Verdict.PASSED, run.messages
    assert [(item.host, item.path, item.size) for item in run.result.collected] == [
        ("a", f"{out}/bytes", 2),
        ("a", f"{out}/text", 5),
    ]
    first, second = run.result.collected
    assert first.file == f"files/a{out}/bytes"
    assert (run.path / first.file).read_bytes() == b"\1\377"
    assert run.text(second.file) == "said\n"
    assert "copied 2 files of hosts" in run.recorder.told


def test_what_is_not_there_or_no_file_or_too_much_fails_the_run(lab: Lab, tmp_path: Path) -> None:
    out = tmp_path / "out"
    size = files.WHOLE - 2
    text = scenario(
        f"mkdir {out} && truncate --size {size} {out}/large && echo more > {out}/more",
        f"{out}/large",
        {"path": f"{out}/more", "optional": True},
        f"{out}/nosuch",
        str(out),
    )
    run = lab.run(text)
    assert run.result.verdict is Verdict.FAILED
    assert [item.path for item in run.result.collected] == [f"{out}/large"]
    too_much = f"it has 5 bytes, and all together may have {files.WHOLE}"
    assert run.messages == [
        f"host a: {out}/more was to be collected: {too_much}",
        f"host a: {out}/nosuch was to be collected: it is not there",
        f"host a: {out} was to be collected: it is no regular file",
    ]


def test_files_of_a_run_that_fails_are_collected_too(lab: Lab, tmp_path: Path) -> None:
    run = lab.run(scenario(f"echo said > {tmp_path}/text; exit 3", f"{tmp_path}/text"))
    assert run.result.verdict is Verdict.FAILED
    assert run.text(f"files/a{tmp_path}/text") == "said\n"


def test_secrets_are_masked(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "hidden-word")
    text = scenario(f"echo 'x ${{{{ secrets.token }}}} y' > {tmp_path}/text", f"{tmp_path}/text")
    run = lab.run(text + "secrets: {token: {env: TOKEN}}\n")
    assert run.result.verdict is Verdict.PASSED, run.messages
    assert run.text(f"files/a{tmp_path}/text") == "x *** y\n"
    (file,) = run.result.collected
    assert file.size == len("x *** y\n")


def test_a_file_without_a_size_is_collected_by_what_can_be_read(lab: Lab) -> None:
    run = lab.run(scenario("true", "/proc/sys/kernel/ostype"))
    assert run.result.verdict is Verdict.PASSED, run.messages
    assert run.text("files/a/proc/sys/kernel/ostype") == "Linux\n"
    (file,) = run.result.collected
    assert file.size == len("Linux\n")


def test_what_is_read_counts_not_what_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "WHOLE", 8)
    first, second = files.whole("/", ["/proc/sys/kernel/ostype"] * 2)
    assert (first["size"], first["error"], first["sha256"]) == (6, "", None)
    assert second["content"] == ""
    # One byte more than there is room for is read, and no more.
    assert second["error"] == "it has at least 3 bytes, and all together may have 8"


def test_a_directory_that_becomes_a_link_meanwhile_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_text("not the host's", encoding="ascii")
    (tmp_path / "link").symlink_to("elsewhere")
    (tmp_path / "last").symlink_to("elsewhere/file")
    (link,) = files.whole(str(tmp_path), ["/link/file"])
    assert link["size"] == len("not the host's")
    # As if neither had been a link when it was looked at.
    monkeypatch.setattr(files, "within", lambda _, path: path.split("/")[1:])
    link, last = files.whole(str(tmp_path), ["/link/file", "/last"])
    assert (link["kind"], last["kind"]) == (None, "other")
    assert not link["content"] + last["content"]


def test_no_file_takes_the_place_of_another(lab: Lab, tmp_path: Path) -> None:
    paths = [f"{tmp_path}/{name}" for name in (".x.part", "x", ".result.json.part", "result.json")]
    run = lab.run(scenario(" && ".join(f"echo {path} > {path}" for path in paths), *paths))
    assert run.result.verdict is Verdict.PASSED, run.messages
    assert [run.text(f"files/a{path}") for path in paths] == [f"{path}\n" for path in paths]


def test_what_cannot_be_written_costs_neither_the_others_nor_the_checks(
    lab: Lab, tmp_path: Path
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    in_the_way = f"{lab.runs}/latest/files/a{one}"
    run = lab.run(
        scenario(f"echo 1 > {one} && echo 2 > {two} && mkdir -p {in_the_way}", str(one), str(two))
        + "checks: [exit: {process: work}]\n"
    )
    assert run.result.verdict is Verdict.INVALID
    (message,) = run.messages
    assert message.startswith(f"host a: {one} was to be collected: cannot write /")
    assert message.endswith(f"/files/a{one}: Is a directory")
    assert [item.path for item in run.result.collected] == [str(two)]
    assert [check.passed for check in run.result.checks] == [True]
    assert not list(run.path.glob(".*"))


class Blind(FakeEngine):
    """Cannot look at one of its hosts' files as a whole."""

    def examine(
        self, run: RunTag, hosts: Mapping[str, Examination], deadline: float
    ) -> Mapping[str, Examined]:
        if hosts.get("b") and hosts["b"].whole:
            raise EngineError("host b: gone")
        return super().examine(run, hosts, deadline)


def test_a_host_that_is_gone_does_not_cost_the_others_files(lab: Lab, tmp_path: Path) -> None:
    text = scenario(f"echo said > {tmp_path}/text", f"{tmp_path}/text")
    text = text.replace("b: {", f"b: {{collect: [{tmp_path}/text], ")
    run = lab.run(text, Blind())
    assert run.result.verdict is Verdict.INVALID
    assert run.messages == ["host b: its files could not be collected: host b: gone"]
    assert [item.host for item in run.result.collected] == ["a"]


@pytest.mark.parametrize("path", ["out", "/a/../b", "/", "//a", "/a//b", "/a/", "/a\nb", 7])
def test_a_path_is_absolute_and_plain(path: object) -> None:
    with pytest.raises(ScenarioError, match="path"):
        loads(scenario("true", path))
