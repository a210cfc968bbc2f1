"""Build contexts, the builder's log, locks: what needs no engine."""

import fcntl
import os
import tarfile
from pathlib import Path

import pytest

from fedtest.engine.docker.build import BuildLog
from fedtest.engine.docker.context import (
    NODE_SIDE,
    SPY,
    STARTED_WITH,
    directory_context,
    node_context,
    text_context,
)
from fedtest.engine.docker.images import _telling
from fedtest.errors import DeadlineError, ImageError, InvalidError
from fedtest.locks import lock
from fedtest.plan import BuildSpec


def names(context):
    with context, tarfile.open(fileobj=context.file) as tar:
        return tar.getnames()


def spec(root, dockerfile="Dockerfile"):
    return BuildSpec(str(root), str(root / dockerfile))


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "Dockerfile").write_text("FROM scratch\n")
    (root / "src" / "a.py").write_text("a")
    (root / "junk.log").write_text("junk")
    return root


def digest(root):
    with directory_context(spec(root)) as context:
        return context.digest


def test_the_node_context_has_the_node_side_and_no_more():
    found = names(node_context())
    assert {"Dockerfile", "fedtest/__init__.py", "fedtest/values.py"} <= set(found)
    assert SPY in found  # What hangs is told of by it.
    assert {f"{STARTED_WITH}/fedtest_tcpstore.{end}" for end in ("py", "pth")} <= set(found)
    tops = {*(f"fedtest/{part}" for part in NODE_SIDE), STARTED_WITH, "Dockerfile"}
    assert {"/".join(name.split("/")[:2]) for name in found} == tops
    assert not any("__pycache__" in name for name in found)


def test_dockerignore_lets_in_what_the_node_context_has():
    lines = (Path(__file__).parents[2] / ".dockerignore").read_text().splitlines()
    wanted = {*(f"!fedtest/{part}" for part in NODE_SIDE), f"!{STARTED_WITH}"}
    assert {line for line in lines if line.startswith("!")} == wanted


def test_the_same_content_has_the_same_digest(project):
    before = digest(project)
    os.utime(project / "src" / "a.py", (1, 1))
    (project / "src" / "a.py").chmod(0o600)
    assert digest(project) == before


@pytest.mark.parametrize("change", ["content", "name", "mode", "more"])
def test_other_content_has_another_digest(project, change):
    before, file = digest(project), project / "src" / "a.py"
    if change == "content":
        file.write_text("b")
    elif change == "name":
        file.rename(file.with_name("b.py"))
    elif change == "mode":
        file.chmod(0o755)
    else:
        (project / "new").touch()
    assert digest(project) != before


def test_dockerignore_is_respected(project):
    (project / ".dockerignore").write_text("# comment\n\n*.log\n")
    found = names(directory_context(spec(project)))
    assert "src/a.py" in found
    assert "junk.log" not in found
    before = digest(project)
    (project / "junk.log").write_text("other junk")
    assert digest(project) == before


def test_a_dockerfile_outside_of_the_context_travels_along(project, tmp_path):
    other = tmp_path / "Other"
    other.write_text("FROM scratch\n")
    context = directory_context(BuildSpec(str(project), str(other)))
    assert context.dockerfile in names(context)


def test_links_stay_links_and_second_names_stay_files(project):
    (project / "soft").symlink_to("src/a.py")
    (project / "hard").hardlink_to(project / "src" / "a.py")
    with directory_context(spec(project)) as context, tarfile.open(fileobj=context.file) as tar:
        assert tar.getmember("soft").issym()
        assert tar.getmember("hard").isreg()
        assert tar.getmember("src/a.py").isreg()


def test_what_is_not_there_is_an_image_error(project):
    with pytest.raises(ImageError, match="no Dockerfile"):
        directory_context(spec(project, "None"))
    with pytest.raises(ImageError, match="not a directory"):
        directory_context(spec(project / "none"))


def log_of(*messages, times=(0.0,)):
    told, clock = [], iter(times)
    last = [0.0]

    def now():
        last[0] = next(clock, last[0])
        return last[0]

    log = BuildLog(told.append, now)
    for message in messages:
        log.feed(message)
    return log, told


def test_steps_are_told_on_one_line():
    _, told = log_of({"stream": "Step 1/2 : RUN a   &&  b"}, {"stream": "\n"})
    assert told == ["step 1/2: RUN a && b"]


def test_a_long_step_tells_where_it_is():
    log, told = log_of(
        {"stream": "Step 1/1 : RUN x\n"},
        {"stream": "early\n"},
        {"stream": "late\n"},
        times=(0, 0, 1, 9),
    )
    assert told == ["step 1/1: RUN x", "step 1/1, 9 s: late"]
    assert list(log.tail)[-1] == "late"


def test_the_image_comes_from_the_message_that_is_meant_for_machines():
    log, _ = log_of({"aux": {"ID": "sha256:ab"}}, {"stream": "Successfully built ab\n"})
    assert log.image == "sha256:ab"
    assert log.error is None


def test_a_failure_has_the_reason_and_the_end_of_the_log():
    log, _ = log_of({"stream": "\x1b[31mE: no\x1b[0m such package"}, {"error": "status 100"})
    text = log.failure("x", log.error).message
    assert "building x: status 100" in text
    assert "  E: no such package" in text


def test_the_log_kept_is_bounded():
    log, _ = log_of(*({"stream": f"{n}\n"} for n in range(1000)))
    assert len(log.tail) == 40


def test_telling_versions_are_found_with_and_without_architecture():
    listing = "libtorch2.6:amd64\t2.6.0\npython3-torch\t2.6.0+dfsg\npython3-yaml\t6\n"
    assert _telling(listing) == {"libtorch2.6": "2.6.0", "python3-torch": "2.6.0+dfsg"}


def test_text_context_is_a_dockerfile_alone():
    assert names(text_context("FROM x\n")) == ["Dockerfile"]


@pytest.fixture
def private(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "fedtest"


@pytest.mark.usefixtures("private")
def test_a_lock_that_is_held_says_by_whom_and_ends():
    told = []
    with lock("x", "building", 5, told.append):
        assert not told
        with (
            pytest.raises(DeadlineError, match=f"process {os.getpid()}, building"),
            lock("x", "building too", 0.05, told.append),
        ):
            pass
    assert told == [f"waiting for process {os.getpid()}, building"]
    with lock("x", "again", 0.05, told.append):
        pass


def test_a_lock_ends_with_its_holder(private):
    private.mkdir(mode=0o700)
    child = os.fork()
    if child == 0:
        descriptor = os.open(private / "x.lock", os.O_RDWR | os.O_CREAT)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os._exit(0)
    os.waitpid(child, 0)
    with lock("x", "after a death", 0.05, pytest.fail):
        pass


def test_a_directory_that_others_can_write_is_refused(private):
    private.mkdir()
    private.chmod(0o777)
    with pytest.raises(InvalidError, match="alone"), lock("x", "x", 1, pytest.fail):
        pass
