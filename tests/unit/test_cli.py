"""Every command keeps to the exit codes, and a user's mistake is a message."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import fedtest
from fedtest import cli_machine
from fedtest.cli import main
from fedtest.engine.docker import engine as docker_engine
from fedtest.engine.fake import FakeEngine
from fedtest.engine.netns import engine as netns_engine
from fedtest.errors import EngineError, ExitCode
from runs import scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import NoReturn

ROOT = Path(fedtest.__file__).parents[1]
EXIT = "exit: {process: work, code: 0}"
HEAVY = ("docker", "pydantic", "ruamel", "rich", "torch", "torchvision", "requests", "numpy")


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        check=False,
        timeout=60,
    )


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str, name: str = "scenario.yaml") -> str:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return str(tmp_path / name)

    return write


@pytest.fixture
def runs(tmp_path: Path) -> str:
    return str(tmp_path / "runs")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line runs on the fake engine."""
    monkeypatch.setattr(docker_engine, "DockerEngine", FakeEngine)


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever opens an engine fails."""

    def refuse() -> None:
        raise AssertionError("an engine was opened")

    monkeypatch.setattr(docker_engine, "DockerEngine", refuse)


def test_help_imports_nothing_heavy() -> None:
    shown = python("-X", "importtime", "-m", "fedtest", "--help")
    assert shown.returncode == 0
    assert "Exit codes: 0 passed" in shown.stdout
    modules = {line.rpartition("|")[2].strip() for line in shown.stderr.splitlines()}
    assert "fedtest.cli" in modules
    assert not {name for name in modules if name.split(".")[0] in HEAVY}


@pytest.mark.parametrize("arguments", [[], ["nosuch"], ["run"], ["run", "x", "--nosuch"]])
def test_a_wrong_command_line_is_usage(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == ExitCode.USAGE
    assert "usage: fedtest" in capsys.readouterr().err


@pytest.mark.usefixtures("fake")
def test_run_leaves_junit_xml_and_writes_it_where_it_is_wanted(
    file: Callable[[str], str], runs: str, tmp_path: Path
) -> None:
    wanted = tmp_path / "report.xml"
    name = file(scenario("exit 3", "exit: {process: work, code: 0}"))
    assert main(["run", name, "--runs", runs, "--quiet", "--junit", str(wanted)]) == 1
    text = wanted.read_text(encoding="utf-8")
    assert (Path(runs) / "latest" / "junit.xml").read_text(encoding="utf-8") == text
    assert "<failure" in text


@pytest.mark.usefixtures("no_engine")
def test_junit_xml_that_could_not_be_written_is_told_before_the_run(
    file: Callable[[str], str], runs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["run", file(scenario("true")), "--runs", runs, "--junit", "nosuch/report.xml"]
    assert main(command) == ExitCode.USAGE
    assert "there is no directory nosuch" in capsys.readouterr().err
    command[-1] = str(Path(runs).parent)
    assert main(command) == ExitCode.USAGE
    assert "it is a directory" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["run"], ["run", "--dry-run"], ["validate"]])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not a scenario"),
        ("fedtest: [", "not YAML"),
        (scenario("true").replace("eth0", "much-too-long-name"), "interface name"),
        (scenario("true", "exit: {process: wrok, code: 0}"), 'did you mean "work"?'),
    ],
)
def test_a_file_that_does_not_validate_is_a_message_with_its_place(
    file: Callable[[str], str],
    capsys: pytest.CaptureFixture[str],
    command: list[str],
    text: str,
    said: str,
) -> None:
    assert main([*command, file(text)]) == ExitCode.USAGE
    shown = capsys.readouterr().err
    assert said in shown
    assert re.search(r"scenario\.yaml:\d+:\d+: ", shown)
    assert "Traceback" not in shown


def test_a_file_that_is_not_there_is_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "/nosuch/scenario.yaml"]) == ExitCode.USAGE
    assert "/nosuch/scenario.yaml: no such file" in capsys.readouterr().err


def test_a_pipe_is_not_said_to_be_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    assert main(["run", str(tmp_path / "pipe.yaml")]) == ExitCode.USAGE
    assert "pipe.yaml: is a pipe or a device" in capsys.readouterr().err


def test_validate_looks_at_every_file(
    file: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    bad, good = file("x: 1", "bad.yaml"), file(scenario("true"), "good.yaml")
    assert main(["validate", bad, good]) == ExitCode.USAGE
    assert f"{good}: scenario small is valid" in capsys.readouterr().out
    assert main(["validate", good]) == ExitCode.PASSED


@pytest.mark.usefixtures("no_engine")
def test_a_dry_run_prints_the_plan_without_an_engine_or_a_directory(
    file: Callable[[str], str], runs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--dry-run", "--runs", runs, file(scenario("echo hello"))]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert [host["name"] for host in plan["hosts"]] == ["a", "b"]
    assert "chosen when the run starts" in plan["note"]
    assert not Path(runs).exists()


@pytest.mark.usefixtures("no_engine")
def test_a_dry_run_says_nothing_of_examples_where_all_subnets_are_fixed(
    file: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    text = scenario("true")
    for number, name in enumerate(("mgmt", "data")):
        text = text.replace(f"{name}: {{}}", f"{name}: {{subnet: 10.66.{number}.0/24}}")
    assert main(["run", "--dry-run", file(text)]) == 0
    assert "note" not in json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("engine", ["docker", "auto"])
def test_no_engine_is_invalid_and_told_with_what_was_tried(
    file: Callable[[str], str], runs: str, tmp_path: Path, engine: str
) -> None:
    nobody = f"unix://{tmp_path}/nobody.sock"
    path = file(scenario("true"))
    shown = python("-m", "fedtest", "run", "--engine", engine, "--runs", runs, path,
                   DOCKER_HOST=nobody)  # fmt: skip
    assert shown.returncode == ExitCode.INVALID
    assert "nobody.sock" in shown.stdout
    assert "Traceback" not in shown.stdout + shown.stderr
    assert (Path(runs) / "latest" / "result.json").is_file()


@pytest.mark.parametrize("command", ["engine", "clean"])
def test_other_commands_without_an_engine_are_invalid_too(command: str, tmp_path: Path) -> None:
    nobody = f"unix://{tmp_path}/nobody.sock"
    shown = python("-m", "fedtest", command, "--engine", "docker", DOCKER_HOST=nobody)
    assert shown.returncode == ExitCode.INVALID
    assert "nobody.sock" in shown.stderr
    assert "Traceback" not in shown.stderr


@pytest.fixture
def gone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A docker context is chosen that is not there."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", "")
    monkeypatch.setenv("DOCKER_CONTEXT", "nobody")


@pytest.mark.usefixtures("gone")
@pytest.mark.parametrize("way", ["--quiet", "--json"])
def test_a_run_takes_no_other_engine_than_the_one_that_was_chosen(
    file: Callable[[str], str], runs: str, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = file(scenario("echo it ran"))
    assert main(["run", way, "--runs", runs, path]) == ExitCode.INVALID
    shown = capsys.readouterr().out
    assert "nobody" in shown
    assert "--engine netns" in shown
    assert "it ran" not in shown


@pytest.mark.usefixtures("gone")
@pytest.mark.parametrize("command", ["engine", "clean"])
def test_nor_does_any_other_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command]) == ExitCode.INVALID
    assert "nobody" in capsys.readouterr().err


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(
    ("script", "code"), [("true", ExitCode.PASSED), ("exit 1", ExitCode.FAILED)]
)
def test_a_run_exits_by_its_verdict(
    file: Callable[[str], str],
    runs: str,
    script: str,
    code: ExitCode,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", "--runs", runs, file(scenario(script, EXIT))]) == code
    assert (
        capsys.readouterr().out.splitlines()[-1].startswith(f"{code.name.lower()} small on fake 0")
    )


@pytest.mark.usefixtures("fake")
def test_json_prints_the_result_file(
    file: Callable[[str], str], runs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["run", "--json", "--runs", runs, file(scenario("true", EXIT))])
    written = Path(runs) / "latest" / "result.json"
    assert capsys.readouterr().out == written.read_text(encoding="utf-8")


@pytest.mark.usefixtures("fake")
def test_a_run_prints_first_and_last_lines_and_verbose_all(
    file: Callable[[str], str], runs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name = file(scenario("seq 1 100", EXIT))
    for more, lines in (([], 6), (["--verbose"], 100)):
        main(["run", *more, "--runs", runs, name])
        assert len(re.findall(r"^a work\| \d+$", capsys.readouterr().out, re.MULTILINE)) == lines
    for other in ("--quiet", "--json"):
        with pytest.raises(SystemExit) as ended:
            main(["run", "--verbose", other, "--runs", runs, name])
        assert ended.value.code == ExitCode.USAGE


@pytest.mark.usefixtures("fake")
def test_quiet_prints_one_line_of_a_run_that_passed(
    file: Callable[[str], str], runs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["run", "--quiet", "--runs", runs, file(scenario("echo hello", EXIT))])
    assert len(capsys.readouterr().out.splitlines()) == 1


@pytest.mark.usefixtures("fake")
def test_a_directory_for_runs_that_is_a_file_is_usage(
    file: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = file(scenario("true"))
    assert main(["run", "--runs", path, path]) == ExitCode.USAGE
    assert "--runs DIR" in capsys.readouterr().err


def test_our_own_error_is_told_as_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> int:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(cli_machine, "clean", fail)
    assert main(["clean"]) == ExitCode.INTERNAL
    assert "fedtest's own error: ZeroDivisionError: oops" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", "../..", "*", "20261130-024502-fat-b05fbef0"])
def test_what_cannot_be_a_runs_id_is_not_looked_for(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["clean", name]) == ExitCode.USAGE
    assert f"not a run's id: {name!r}" in capsys.readouterr().err


def test_what_is_stuck_on_one_engine_keeps_nobody_from_looking_at_the_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Stuck(FakeEngine):
        def sweep(self, deadline: float) -> NoReturn:
            raise EngineError("its network is in use", remedy="Wait.")

    class Other(FakeEngine):
        def sweep(self, deadline: float) -> Mapping[str, int]:
            return {"0dead": 2}

    monkeypatch.setattr(docker_engine, "DockerEngine", Stuck)
    monkeypatch.setattr(netns_engine, "NetnsEngine", lambda *_: Other())
    assert main(["clean", "1gone"]) == ExitCode.INVALID
    told = capsys.readouterr()
    assert "run 0dead: removed 2 hosts and networks" in told.out
    assert "run 1gone: removed 0" in told.out
    assert "its network is in use" in told.err


def test_what_is_stuck_on_both_engines_is_told_of_both(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Stuck(FakeEngine):
        def __init__(self, what: str) -> None:
            super().__init__()
            self.what = what

        def sweep(self, deadline: float) -> NoReturn:
            raise EngineError(f"{self.what} is in use", remedy="Wait.")

    monkeypatch.setattr(docker_engine, "DockerEngine", lambda: Stuck("a network"))
    monkeypatch.setattr(netns_engine, "NetnsEngine", lambda *_: Stuck("a directory"))
    assert main(["clean"]) == ExitCode.INVALID
    told = capsys.readouterr().err
    assert "a network is in use" in told
    assert "a directory is in use" in told


@pytest.mark.parametrize("own", [RuntimeError("SchemaError: KeyboardInterrupt"), SystemExit(0)])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_that_a_library_makes_its_own_error_of_is_one(
    number: signal.Signals,
    own: BaseException,
    file: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As pydantic does within an import."""

    def load(_: str) -> None:
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt as error:
            raise own from error

    monkeypatch.setattr("fedtest.scenario.load.load", load)
    assert main(["run", file("x: 1")]) == 130
    assert capsys.readouterr().err == f"fedtest: interrupted by {number.name}\n"


def test_ctrl_c_before_a_run_is_interrupted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli_machine, "clean", interrupt)
    assert main(["clean"]) == ExitCode.INTERRUPTED
    assert capsys.readouterr().err == "fedtest: interrupted\n"


def test_a_user_of_the_module_gets_the_exit_code(file: Callable[[str], str]) -> None:
    shown = python("-m", "fedtest", "validate", file("x: 1"))
    assert shown.returncode == ExitCode.USAGE
    assert "Traceback" not in shown.stderr


UNREAD = """
import sys
from fedtest.engine.docker import engine
from fedtest.engine.fake import FakeEngine
engine.DockerEngine = FakeEngine
from fedtest.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_message_that_cannot_be_written_leaves_the_exit_code() -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "fedtest", "validate", "nosuch.yaml"],
            stderr=full,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=False,
        )
    assert done.returncode == ExitCode.USAGE


def test_a_run_whose_output_nobody_reads_comes_to_its_end(
    file: Callable[[str], str], runs: str
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", UNREAD, "run", "--runs", runs, file(scenario("echo hello", EXIT))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    with process:
        assert process.stdout
        process.stdout.close()
        assert process.stderr
        assert process.stderr.read() == ""
    assert process.returncode == ExitCode.INTERRUPTED
    result = json.loads((Path(runs) / "latest" / "result.json").read_text(encoding="utf-8"))
    assert result["verdict"] == "passed"
