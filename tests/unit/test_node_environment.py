"""The node environment is made once, whole or not at all, from where it is smallest."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from fedtest.cli import main
from fedtest.engine.netns.node import environment, index, install
from fedtest.errors import PythonError

if TYPE_CHECKING:
    from collections.abc import Iterator

TAG = "py3-none-any"
UV = """#!{python}
import os, subprocess, sys, time
from pathlib import Path
words = sys.argv[1:]
if words[0] == "venv":
    command = [words[words.index("--python") + 1], "-I", "-m", "venv", "--without-pip", words[-1]]
    sys.exit(subprocess.call(command))
place = Path(words[words.index("--python") + 1]).parent.parent
assert list(place.iterdir()) and Path(os.environ["TMPDIR"]).parent == place
with open({log!r}, "a") as file:
    index = os.environ.get("UV_DEFAULT_INDEX")
    file.write((f"from {{index}} " if index else "") + " ".join(words[4:]) + "\\n")
if os.path.exists({log!r} + ".fails"):
    print("No solution found\\nthe disk is full")
    sys.exit(2)
(site,) = place.glob("lib/python*/site-packages")
(site / "torch").mkdir(exist_ok=True)
(site / "torch/__init__.py").write_text("")
while os.path.exists({log!r} + ".hangs"):
    Path({log!r} + ".hanging").write_text(str(os.getpid()))
    time.sleep(0.05)
(site / "torchvision").mkdir(exist_ok=True)
(site / "torchvision/__init__.py").write_text("")
"""


class Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def wheel(directory: Path, name: str, version: str) -> None:
    """A package whose module says its version."""
    file = f"{name}-{version}-{TAG}.whl"
    info = f"{name}-{version}.dist-info"
    (directory / name).mkdir(parents=True)
    with zipfile.ZipFile(directory / name / file, "w") as archive:
        archive.writestr(f"{name}/__init__.py", f"__version__ = {version!r}\n")
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        archive.writestr(f"{info}/METADATA", metadata)
        tags = f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {TAG}\n"
        archive.writestr(f"{info}/WHEEL", tags)
        scripts = f"[console_scripts]\n{name}run = {name}:run\n"
        archive.writestr(f"{info}/entry_points.txt", scripts)
        archive.writestr(f"{info}/RECORD", f"{info}/RECORD,,\n")
    (directory / name / "index.html").write_text(f'<a href="{file}">{file}</a>', encoding="utf-8")


@pytest.fixture
def wheels(tmp_path: Path) -> Iterator[str]:
    """An index of the shape of the one of CPU wheels, on loopback."""
    wheel(tmp_path / "index/whl/cpu", "torch", "2.9.0+cpu")
    wheel(tmp_path / "index/whl/cpu", "torchvision", "0.24.0+cpu")
    handler = partial(Silent, directory=str(tmp_path / "index"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/whl/cpu"
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    # A port of this machine's where nobody listens.
    monkeypatch.setenv(index.VARIABLE, "http://127.0.0.1:9/whl/cpu")
    return tmp_path / "cache" / "fedtest" / "node"


@pytest.fixture
def uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installer that writes down what it is asked for; its log, which need not be there yet."""
    log = tmp_path / "uv.log"
    program = tmp_path / "bin" / "uv"
    program.parent.mkdir()
    program.write_text(UV.format(python=sys.executable, log=str(log)), encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    return log


def started(further: str = "") -> subprocess.Popen[str]:
    """Another process that wants the environment, and prints where it is."""
    code = (
        "import sys; from fedtest.engine.netns.node.environment import provide;"
        "print(provide(lambda text: None, sys.argv[1]).executable)"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, further],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def until(path: Path) -> None:
    end = time.monotonic() + 60
    while not path.exists() or not path.read_text(encoding="utf-8"):
        assert time.monotonic() < end, f"{path} does not come"
        time.sleep(0.01)


def test_it_comes_from_the_index_of_cpu_wheels_where_that_answers(
    wheels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By pip, with all that pip does; what a user has set for another index does not count."""
    monkeypatch.setattr(install, "tools", lambda: ["pip"])
    monkeypatch.setenv(index.VARIABLE, wheels)
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "http://127.0.0.1:9/simple")
    said: list[str] = []
    python = environment.provide(said.append)
    assert python.modules == {"torch", "torchvision"}
    assert python.versions["torch"] == "2.9.0+cpu"
    assert not any("PyPI" in line for line in said)
    (made,) = environment.made()
    assert made.source == wheels
    assert made.size > 0
    # A long path is not in the first line itself: the kernel reads 127 bytes of that.
    head = (made.place / "bin" / "torchrun").read_text(encoding="utf-8").splitlines()[:2]
    assert f"{made.place}/bin/python" in "".join(head)
    assert made.place.stat().st_mode & 0o777 == 0o755
    # Now it is there, and nobody asks the index again.
    monkeypatch.setattr(install, "install", None)
    said.clear()
    assert environment.provide(said.append).executable == python.executable
    assert said == []


def test_where_that_index_does_not_answer_it_is_said_how_big_it_gets_before_it_begins(
    uv: Path,
) -> None:
    said: list[str] = []
    environment.provide(said.append)
    assert uv.read_text(encoding="utf-8") == "torch>=2.2 torchvision>=0.17\n"
    (why, size) = said[1:3]
    assert "http://127.0.0.1:9/whl/cpu, cannot be used: [Errno 111] Connection refused" in why
    assert "from PyPI: about 5.5 GB on x86_64" in size
    (made,) = environment.made()
    assert made.source == "PyPI"
    # What an installer unpacks lies on the same disk, and does not stay.
    assert not (made.place / install.SCRATCH).exists()


def test_an_index_that_has_nothing_for_this_python_is_no_dead_end(
    uv: Path, wheels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the installer says of it is told, and the next source is tried."""
    monkeypatch.setenv(index.VARIABLE, wheels)
    monkeypatch.setattr(install, "tools", lambda: ["uv"])
    fails = Path(f"{uv}.fails")
    fails.touch()
    said: list[str] = []

    def note(text: str) -> None:
        said.append(text)
        if text.startswith("uv, from "):
            fails.unlink()

    environment.provide(note)
    first, second = uv.read_text(encoding="utf-8").splitlines()
    assert first.startswith(f"from {wheels} torch")
    assert second.startswith("torch")
    assert f"uv, from {wheels}: No solution found\nthe disk is full" in said


def test_a_password_in_the_address_of_an_index_is_for_the_installer_alone(
    uv: Path, wheels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "why_not", lambda _: "")
    monkeypatch.setattr(install, "tools", lambda: ["uv"])
    monkeypatch.setenv(index.VARIABLE, wheels.replace("://", "://me:secret@"))
    said: list[str] = []
    environment.provide(said.append)
    assert uv.read_text(encoding="utf-8").startswith("from http://me:secret@127.0.0.1:")
    (made,) = environment.made()
    assert made.source == wheels.replace("://", "://***@")
    assert "secret" not in "".join(said)


def test_where_none_can_be_had_the_installers_last_words_are_told(
    uv: Path, monkeypatch: pytest.MonkeyPatch, own_cache: Path
) -> None:
    monkeypatch.setattr(install, "tools", lambda: ["uv"])
    Path(f"{uv}.fails").touch()
    with pytest.raises(PythonError, match="the disk is full") as caught:
        environment.provide(lambda _: None)
    assert "--python PATH" in caught.value.remedy
    assert caught.value.exit_code == 3
    assert list(own_cache.glob("env-*")) == []


def test_a_full_disk_is_noticed_before_anything_is_fetched(
    uv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "_ROOM", 10**18)
    with pytest.raises(PythonError, match=r"has [0-9.]+ GB free, and 1000000000\.0 GB are needed"):
        environment.provide(lambda _: None)
    assert not uv.exists()


def test_two_that_want_it_at_once_make_one(uv: Path, own_cache: Path) -> None:
    both = [started(), started()]
    paths = {process.communicate(timeout=60)[0] for process in both}
    assert len(paths) == 1
    assert len(list(own_cache.glob("env-*"))) == 1
    assert len(uv.read_text(encoding="utf-8").splitlines()) == 1


def test_what_was_killed_in_the_middle_is_taken_for_nothing(uv: Path, own_cache: Path) -> None:
    hangs = Path(f"{uv}.hangs")
    hangs.touch()
    process = started()
    until(Path(f"{uv}.hanging"))
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    (left,) = own_cache.glob("env-*")
    assert list(left.glob("lib/python*/site-packages/torch"))
    assert environment.made() == []
    assert environment.present() is None
    # What it had started ended with it.
    installer = int(Path(f"{uv}.hanging").read_text(encoding="utf-8"))
    end = time.monotonic() + 60
    while running(installer):
        assert time.monotonic() < end
        time.sleep(0.01)
    hangs.unlink()
    environment.provide(lambda _: None)
    assert not left.exists()
    (made,) = environment.made()
    assert made.python.modules == {"torch", "torchvision"}


def test_who_interrupts_it_leaves_nothing(uv: Path, own_cache: Path) -> None:
    Path(f"{uv}.hangs").touch()
    process = started()
    until(Path(f"{uv}.hanging"))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert list(own_cache.glob("env-*")) == []
    assert not running(int(Path(f"{uv}.hanging").read_text(encoding="utf-8")))


def running(pid: int) -> bool:
    with contextlib.suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        return state != "Z"
    return False


def test_with_further_requirements_it_is_another(uv: Path, tmp_path: Path) -> None:
    plain = environment.provide(lambda _: None)
    file = tmp_path / "more.txt"
    file.write_text("fedlab==1.3.0\n", encoding="utf-8")
    assert main(["image", "--engine", "netns", "--requirements", str(file)]) == 0
    assert len(environment.made()) == 2
    more = environment.present("fedlab==1.3.0")
    assert more is not None
    assert more.executable != plain.executable
    assert uv.read_text(encoding="utf-8").splitlines()[-1].startswith("-r ")
    assert environment.present("fedlab==1.2.0") is None


@pytest.mark.usefixtures("uv")
def test_it_is_shown_and_removed(capsys: pytest.CaptureFixture[str]) -> None:
    python = environment.provide(lambda _: None)
    assert main(["image", "--engine", "netns"]) == 0
    assert capsys.readouterr().out == f"{python.executable}\n"
    assert main(["clean", "--images", "--engine", "netns"]) == 0
    assert f"removed {Path(python.executable).parents[1]}, 0.0 GB" in capsys.readouterr().out
    assert environment.made() == []
    assert not Path(python.executable).exists()
    assert main(["clean", "--images", "--engine", "netns"]) == 0
    assert "nothing to remove" in capsys.readouterr().out


@pytest.mark.usefixtures("uv")
def test_one_that_a_run_uses_is_not_removed() -> None:
    python = environment.provide(lambda _: None)
    held = environment.hold(python)
    said: list[str] = []
    assert environment.remove(said.append) == []
    assert said == [f"left alone, a run uses it: {Path(python.executable).parents[1]}"]
    os.close(held)
    assert [made.python for made in environment.remove(said.append)] != []
    with pytest.raises(PythonError, match="was removed just now"):
        environment.hold(python)
