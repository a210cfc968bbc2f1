"""A program that started warm finds the interpreter that a fresh one would be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fedtest.engine.netns.warm.client import Zygote
from warmth import PATIENCE, PYTHON, Warmth, environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PRELOAD = ("json", "decimal", "multiprocessing.spawn", "tempfile", "logging", "threading")


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    zygote = Zygote.start(str(PYTHON), PRELOAD, environment(), deadline=PATIENCE)
    yield zygote
    zygote.close()


@pytest.fixture
def warmth(zygote: Zygote, tmp_path: Path) -> Warmth:
    return Warmth(zygote, tmp_path)


SEEN = (
    "sys.argv",
    "sys.path",
    "sys.flags",
    "sys.orig_argv",
    "sys.executable",
    "(sys.prefix, sys.exec_prefix, sys.base_prefix, sys._base_executable)",
    "sys.warnoptions, sys._xoptions",
    "sorted(globals())",
    "(__name__, __spec__ and __spec__.name, __spec__ and __spec__.origin, __package__)",
    "__file__, __cached__, __doc__, __annotations__",
    "type(__loader__), getattr(__loader__, 'name', None), getattr(__loader__, 'path', None)",
    "type(__builtins__), sys.modules['__main__'].__dict__ is globals()",
    "[key for key in ('fedtest', 'fedtest.engine') if key in sys.modules]",
    "sorted(os.environ.items())",
    "os.environb == {os.fsencode(k): os.fsencode(v) for k, v in os.environ.items()}",
    "sorted(subprocess.run(['env'], capture_output=True, text=True).stdout.splitlines())",
    "os.getcwd()",
    "os.umask(0)",
    "os.getresuid(), os.getresgid(), os.getgroups()",
    "sorted(fd for fd in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{fd}'))",
    "os.getsid(0) == os.getpgid(0)",
    "{s: signal.getsignal(s) for s in signal.valid_signals()}",
    "signal.pthread_sigmask(signal.SIG_BLOCK, [])",
    "[line for line in open('/proc/self/status') if line[:4] in ('SigB', 'SigI', 'SigC')]",
    "signal.set_wakeup_fd(-1)",
    "locale.setlocale(locale.LC_ALL), locale.getpreferredencoding()",
    "sys.getfilesystemencoding(), sys.getdefaultencoding()",
    "[(s.name, s.mode, s.encoding, s.errors) for s in (sys.stdin, sys.stdout, sys.stderr)]",
    "[(s.line_buffering, s.write_through) for s in (sys.stdin, sys.stdout, sys.stderr)]",
    "[(type(s.buffer), s.isatty(), s.seekable()) for s in (sys.stdin, sys.stdout, sys.stderr)]",
    "[(s.newlines, s.buffer.name) for s in (sys.stdin, sys.stdout, sys.stderr)]",
    "sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__, sys.stdin is sys.__stdin__",
    "(threading.main_thread() is threading.current_thread(), threading.active_count())",
    "threading.get_native_id() == threading.main_thread().native_id == os.getpid()",
    "gc.isenabled(), gc.get_threshold(), sys.getswitchinterval(), sys.getrecursionlimit()",
    "sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__",
    "[hasattr(sys, name) for name in ('last_type', 'last_value', 'ps1')]",
    "warnings.filters",
    "multiprocessing.current_process().name, multiprocessing.process.ORIGINAL_DIR",
    "tempfile.gettempdir()",
    "faulthandler.is_enabled()",
    "[type(hook) for hook in sys.meta_path], len(sys.path_hooks)",
    "open('/proc/self/comm').read()",
    "open('/proc/self/cmdline').read().rstrip('\\0')",
    "pickle.loads(pickle.dumps(Thing(3))).number, pickle.dumps(Thing)",
    "inspect.getsource(Thing)",
    "resource.getrlimit(resource.RLIMIT_NOFILE), os.nice(0)",
    "os.access('/proc/self/fd/1', os.W_OK), os.stat('/proc/self/fd').st_uid == os.getuid()",
)

PROGRAM = '''
"""A program."""
import faulthandler, gc, inspect, locale, multiprocessing, os, pickle, resource, signal
import subprocess, sys, tempfile, threading, warnings
import multiprocessing.process

class Thing:
    def __init__(self, number): self.number = number

for seen in SEEN:
    print(seen, "=>", ascii(eval(seen)))
'''.replace("SEEN", repr(SEEN))

WAYS = (
    "python program.py one 'two words' --three",
    "python ./program.py",
    "python -u sub/program.py -m x",
    "exec python -m program one",
    "python -m package -u",
    "python -m package.inner",
    "python linked.py",
    "A='b c' PYTHONUNBUFFERED=1 python program.py",
    ["python", "program.py", "$HOME", "*"],
    ["PYTHON", "-m", "package", ""],
)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_what_a_program_sees_is_what_it_sees_in_a_fresh_interpreter(
    warmth: Warmth, way: str | list[str]
) -> None:
    for name in ("program.py", "sub/program.py", "package/__main__.py", "package/inner.py"):
        warmth.write(name, PROGRAM)
    warmth.write("package/__init__.py", "")
    (warmth.directory / "linked.py").symlink_to("sub/program.py")
    if isinstance(way, list):
        way = [str(PYTHON) if word == "PYTHON" else word for word in way]
    cold, warm = warmth.cold(way), warmth.warm(way)
    # One by one, so that a failure says what it is that differs.
    for one, other in zip(cold.out.splitlines(), warm.out.splitlines(), strict=True):
        assert other == one
    assert cold.out.count("=>") == len(SEEN)
    assert (warm.status, warm.err) == (cold.status, cold.err) == (0, "")
