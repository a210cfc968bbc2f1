"""Processes from a zygote as the kernel and the engine know them, and what it cannot give."""

from __future__ import annotations

import os
import subprocess
import tempfile
import textwrap
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fedtest.engine.netns.warm.client import Start, Zygote
from fedtest.errors import DeadlineError, EngineError
from warmth import PATIENCE, PYTHON, Warmth, environment, pipes

if TYPE_CHECKING:
    from collections.abc import Iterator

SYSTEM = Path("/usr/bin/python3")
"""An interpreter that every user may read."""

ROOT = os.geteuid() == 0


@pytest.fixture
def zygote() -> Iterator[Zygote]:
    """One of each test's own, for some are hard on it."""
    zygote = Zygote.start(str(PYTHON), ("json", "tempfile"), environment(), deadline=PATIENCE)
    yield zygote
    zygote.close()


@pytest.fixture
def warmth(zygote: Zygote, tmp_path: Path) -> Warmth:
    return Warmth(zygote, tmp_path)


@contextmanager
def devnull() -> Iterator[tuple[int, int, int]]:
    fd = os.open("/dev/null", os.O_RDWR)
    yield fd, fd, fd
    os.close(fd)


def test_many_side_by_side(warmth: Warmth) -> None:
    warmth.write("program.py", "import os, sys; sys.exit(int(os.environ['RANK']))")
    with devnull() as streams:
        starts = [
            Start(warmth.command("python program.py", RANK=str(n)), str(warmth.directory), *streams)
            for n in range(40)
        ]
        children = warmth.zygote.spawn(starts, PATIENCE)
    assert all(child.warm for child in children)
    assert [child.ended.result(PATIENCE) for child in children] == list(range(40))
    assert len({child.pid for child in children}) == 40


def test_each_leads_a_session(warmth: Warmth) -> None:
    warmth.write("program.py", "input()")
    reader, writer = os.pipe()
    child = warmth.spawn("python program.py", reader, reader, 2)
    assert os.getsid(child.pid) == os.getpgid(child.pid) == child.pid == child.pid_inside
    os.close(writer)
    os.close(reader)
    assert child.ended.result(PATIENCE) == 1


def test_neither_the_zygote_nor_others_keep_a_stream_open(warmth: Warmth) -> None:
    warmth.write("wait.py", "input()")
    warmth.write("end.py", "print('said')")
    reader, writer = os.pipe()
    with pipes(b"") as ((_, out, err), collect):
        waiting = warmth.spawn("python wait.py", reader, out, err)
        # That the output of this one comes to its end says that nobody else has it open.
        assert warmth.warm("python end.py").out == "said\n"
        os.close(writer)
        os.close(reader)
        collect(lambda: None)
    assert waiting.ended.result(PATIENCE) == 1


def test_the_zygote_keeps_nothing_of_processes_that_ended(warmth: Warmth) -> None:
    warmth.write("program.py", "")
    fds = Path(f"/proc/{warmth.zygote.pid}/fd")
    before = len(list(fds.iterdir()))
    for _ in range(5):
        warmth.warm("python program.py")
    assert len(list(fds.iterdir())) == before
    assert not Path(f"/proc/{warmth.zygote.pid}/task/{warmth.zygote.pid}/children").read_text()


def test_file_mode_mask(warmth: Warmth) -> None:
    warmth.write("program.py", "open('made', 'w').close()")
    assert warmth.warm("python program.py", umask=0o077).status == 0
    assert (warmth.directory / "made").stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(not ROOT, reason="only root may become somebody else")
@pytest.mark.skipif(not SYSTEM.exists(), reason="there is no system's Python")
def test_another_user() -> None:
    env = environment(SYSTEM)
    zygote = Zygote.start(str(SYSTEM), ("json",), env, deadline=PATIENCE)
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        warmth = Warmth(zygote, Path(directory), env)
        warmth.write(
            "program.py",
            "import os, json\n"
            "print(os.getresuid(), os.getresgid(), os.getgroups(), os.stat('/proc/self').st_uid)\n"
            "print([l for l in open('/proc/self/status') if l[:3] in ('Cap', 'NoN', 'Gro')])\n"
            "print(os.access('/dev/stdout', os.W_OK), open('/dev/stdout', 'w').write('x'))\n",
        )
        outcome = warmth.same(["python3", "program.py"], uid=65534, gid=65533, groups=())
    zygote.close()
    assert outcome.out.splitlines()[0].startswith("x(65534, 65534, 65534)") or (
        outcome.out.startswith("(65534, 65534, 65534)")
    )


@contextmanager
def namespaces(*options: str) -> Iterator[tuple[int, dict[str, int]]]:
    """A process id and what it lives in, open."""
    script = "hostname inside; echo up; exec sleep 1000"
    holder = subprocess.Popen(
        ["unshare", *options, "--fork", "--kill-child", "sh", "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stderr is not None
    with holder, holder.stdout, holder.stderr:
        if holder.stdout.readline() != "up\n":
            pytest.skip(f"namespaces cannot be had: {holder.stderr.read()}")
        (first,) = Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text().split()
        names = [option.strip("-") for option in options]
        short = {"mount": "mnt", "user": "user", "net": "net", "uts": "uts", "ipc": "ipc"}
        fds = {
            short.get(name, name): os.open(f"/proc/{first}/ns/{short.get(name, name)}", os.O_RDONLY)
            for name in names
            if name in short or name == "pid"
        }
        yield int(first), fds
        for fd in fds.values():
            os.close(fd)
        holder.kill()


PLACES = ("--mount", "--net", "--uts", "--ipc", "--pid", "--mount-proc")


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(PLACES, marks=pytest.mark.skipif(not ROOT, reason="only root may")),
        ("--user", "--map-root-user", *PLACES),
    ],
    ids=["as root", "in a user namespace"],
)
def test_namespaces(warmth: Warmth, options: tuple[str, ...]) -> None:
    warmth.write(
        "program.py",
        "import os, socket, sys\n"
        "print(socket.gethostname(), [name for _, name in socket.if_nameindex()], os.getpid())\n"
        "print(os.readlink('/proc/self'), os.getppid(), os.getsid(0), os.getcwd(), os.getuid())\n"
        "print(*sorted(os.readlink(f'/proc/self/ns/{n}') for n in os.listdir('/proc/self/ns')))\n"
        "pid = os.fork()\n"
        "if pid == 0: sys.exit(4)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) + 3)\n",
    )
    with namespaces(*options) as (first, fds):
        with pipes(b"") as (streams, collect):
            child = warmth.spawn("python program.py", *streams, namespaces=fds)
            out, err = collect(lambda: None)
        assert child.ended.result(PATIENCE) == 7, err
        lines = out.splitlines()
        inside = child.pid_inside
        assert lines[0] == f"inside ['lo'] {inside}"
        assert lines[1] == f"{inside} 0 {inside} {warmth.directory} 0"
        assert inside != child.pid
        own = [str(Path(f"/proc/{first}/ns/{name}").readlink()) for name in fds]
        assert set(own) <= set(lines[2].split())
        # The next one is where the zygote is.
        assert "inside" not in warmth.warm("python program.py").out


@pytest.mark.skipif(not ROOT, reason="only root may")
def test_a_process_ends_with_its_pid_namespace(warmth: Warmth) -> None:
    warmth.write("program.py", "input()")
    reader, writer = os.pipe()
    with namespaces(*PLACES) as (first, fds):
        child = warmth.spawn("python program.py", reader, reader, 2, namespaces=fds)
        os.kill(first, 9)
        assert child.ended.result(PATIENCE) == 137
    os.close(reader)
    os.close(writer)


@pytest.mark.skipif(not ROOT, reason="only root may")
def test_a_root_directory(warmth: Warmth) -> None:
    root = os.open("/", os.O_PATH)
    warmth.write("program.py", "import os; print(os.getcwd())")
    outcome = warmth.warm("python program.py", root=root)
    os.close(root)
    assert outcome.out == f"{warmth.directory}\n"


def test_a_process_that_cannot_be_set_up_is_an_error_and_not_a_process(warmth: Warmth) -> None:
    warmth.write("program.py", "")
    command = warmth.command("python program.py")
    with devnull() as streams:
        for start, words in (
            (Start(command, "/nowhere", *streams), "No such file or directory"),
            (Start(command, "/", *streams, namespaces={"net": streams[0]}), "the net namespace"),
            (Start(command, "/", *streams, namespaces={"pid": streams[0]}), "the pid namespace"),
            (Start(command, "/", *streams, namespaces={"user": streams[0]}), "user namespace"),
        ):
            with pytest.raises(EngineError, match=words):
                warmth.zygote.spawn([start], PATIENCE)
    assert warmth.warm("python program.py").status == 0


def test_whoever_waits_is_told_at_once_when_the_zygote_dies(warmth: Warmth) -> None:
    warmth.write("program.py", "input()")
    reader, writer = os.pipe()
    child = warmth.spawn("python program.py", reader, reader, 2)
    os.kill(warmth.zygote.pid, 9)
    with pytest.raises(EngineError, match=r"ended \(status -9\)"):
        child.ended.result(PATIENCE)
    # The process itself lives, and can be ended.
    assert Path(f"/proc/{child.pid}").exists()
    os.close(writer)
    os.close(reader)
    command = warmth.command("python program.py")
    assert "ended (status -9)" in warmth.zygote.why_not(command, str(warmth.directory))
    with devnull() as streams, pytest.raises(EngineError, match=r"ended \(status -9\)"):
        warmth.zygote.spawn([Start(command, "/", *streams)], PATIENCE)


def test_a_zygote_that_stands_still_is_waited_for_no_longer_than_said(warmth: Warmth) -> None:
    warmth.write("program.py", "")
    command = warmth.command("python program.py")
    os.kill(warmth.zygote.pid, 19)  # SIGSTOP
    with devnull() as streams, pytest.raises(DeadlineError, match=r"python program.py"):
        warmth.zygote.spawn([Start(command, str(warmth.directory), *streams)], 0.2)
    os.kill(warmth.zygote.pid, 18)  # SIGCONT


def test_a_zygote_ends_with_whoever_started_it() -> None:
    script = textwrap.dedent(
        f"""
        import os
        from fedtest.engine.netns.warm.client import Zygote
        zygote = Zygote.start({str(PYTHON)!r}, ["json"], dict(os.environ), deadline=60)
        print(zygote.pid, flush=True)
        os.kill(os.getpid(), 9)
        """
    )
    told = subprocess.run([PYTHON, "-c", script], capture_output=True, text=True, check=False)
    fd = None
    try:
        fd = os.pidfd_open(int(told.stdout))
    except ProcessLookupError:
        return
    import select

    assert select.select([fd], [], [], PATIENCE)[0]
    os.close(fd)
