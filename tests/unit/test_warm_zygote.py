"""What a zygote imports, what it refuses, and what its processes do not share."""

from __future__ import annotations

import os
import platform
import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fedtest.engine.netns.warm.client import Zygote
from fedtest.errors import DeadlineError, EngineError
from warmth import PATIENCE, PYTHON, Warmth, environment

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def warm(
    directory: Path, *preload: str, modules: dict[str, str] | None = None, **more: str
) -> Iterator[Warmth]:
    """A zygote that finds `modules`, name -> source, beside those installed."""
    library = directory / "library"
    library.mkdir()
    for name, text in (modules or {}).items():
        (library / f"{name}.py").write_text(text)
    env = environment(PYTHONPATH=str(library), **more)
    zygote = Zygote.start(str(PYTHON), preload, env, deadline=PATIENCE, cwd=str(directory))
    yield Warmth(zygote, directory, env)
    zygote.close()


def test_seeds_are_a_process_s_own(tmp_path: Path) -> None:
    """All but that of hash(), which is in every dictionary there is."""
    program = (
        "import random, secrets, tempfile, uuid, multiprocessing as m\n"
        "print(random.random(), secrets.token_hex(8), uuid.uuid4(), m.current_process().authkey)\n"
        "print(next(tempfile._get_candidate_names()))\n"
        "print(hash('text'))\n"
    )
    with warm(
        tmp_path, "random", "secrets", "tempfile", "uuid", "multiprocessing", "m",
        modules={"m": "import random, tempfile; random.random(); tempfile._get_candidate_names()"},
    ) as warmth:  # fmt: skip
        warmth.write("program.py", program)
        one, two = (warmth.warm("python program.py").out.splitlines() for _ in range(2))
        assert not {*one[0].split()} & {*two[0].split()}
        assert one[1] != two[1]
        assert one[2] == two[2]


def test_what_the_imports_would_finalize_is_the_zygote_s_and_no_process_s(tmp_path: Path) -> None:
    module = "import tempfile; kept = tempfile.TemporaryDirectory(); where = kept.name"
    with warm(tmp_path, "m", modules={"m": module}) as warmth:
        warmth.write("program.py", "import m, os; print(os.path.isdir(m.where), m.where)")
        one, two = (warmth.warm("python program.py").out.split() for _ in range(2))
        assert one == two == ["True", one[1]]
        Path(one[1]).rmdir()


def test_a_seed_of_hash_that_is_asked_for_needs_a_zygote_with_it(tmp_path: Path) -> None:
    with warm(tmp_path, "json", PYTHONHASHSEED="7") as warmth:
        warmth.write("program.py", "import sys; print(hash('text'), sys.flags)")
        warmth.same("python program.py")
        other = warmth.command("python program.py", PYTHONHASHSEED="8")
        reason = warmth.zygote.why_not(other, str(tmp_path))
        assert reason == "PYTHONHASHSEED acts before the program runs and is '8', not '7'"


START_METHODS = """
import multiprocessing, os, sys

class Thing:
    def __init__(self, number): self.number = number

def work(thing):
    return Thing(thing.number + 1), os.getpid() != parent if method == "fork" else __name__

def send(queue): queue.put(sys.argv)

method, parent = sys.argv[1], os.getpid()
if __name__ == "__main__":
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        for thing, where in pool.map(work, [Thing(1), Thing(2)]):
            print(thing.number, where)
    queue = context.Queue()
    process = context.Process(target=send, args=(queue,))
    process.start(); print(queue.get()); process.join(); print(process.exitcode, process.name)
"""


@pytest.mark.parametrize("way", ["program.py", "-m program"])
def test_multiprocessing(tmp_path: Path, way: str) -> None:
    with warm(tmp_path, "multiprocessing.pool", "concurrent.futures") as warmth:
        warmth.write("program.py", START_METHODS)
        for method in ("fork", "spawn", "forkserver"):
            outcome = warmth.same(["python", *way.split(), method])
            assert (outcome.status, outcome.err) == (0, "")


def test_a_module_beside_the_program_that_hides_one_imported_makes_it_start_cold(
    tmp_path: Path,
) -> None:
    with warm(tmp_path, "json", "own", modules={"own": "where = 'library'"}) as warmth:
        warmth.write("program.py", "import json, own; print(json.__file__, own.where)")
        warmth.same("python program.py")
        # Neither hides anything: no package, and the very same module.
        (tmp_path / "decimal").mkdir()
        (tmp_path / "own.py").symlink_to(tmp_path / "library" / "own.py")
        warmth.same("python program.py")
        (tmp_path / "own.py").unlink()
        for hiding in ("own.py", "json/__init__.py", "sitecustomize.py"):
            path = warmth.write(hiding, "where = 'here'")
            for way in ("python program.py", "python -m program"):
                cold = warmth.cold(way)
                assert warmth.warm(way, expect=False) == cold
            path.unlink()


def test_a_start_that_is_cold_after_all_is_like_any_other(tmp_path: Path) -> None:
    with warm(tmp_path, "json") as warmth:
        warmth.write("json.py", "")
        warmth.write(
            "program.py",
            "import os, signal, sys\n"
            "print(sys.argv, sys.orig_argv, sorted(os.environ.items()), sys.path)\n"
            "print({s: signal.getsignal(s) for s in signal.valid_signals()}, os.getpid())\n"
            "print(sorted(os.listdir('/proc/self/fd')))\n".replace(", os.getpid()", ""),
        )
        way = "A=1 python program.py 'x y'"
        cold = warmth.cold(way)
        assert warmth.warm(way, expect=False) == cold
        assert cold.status == 0


def test_an_entry_of_the_path_that_came_later_makes_it_start_cold(tmp_path: Path) -> None:
    with warm(tmp_path, "json", PYTHONDEVMODE="") as warmth:
        warmth.write("program.py", "import mine; print(mine.__file__)")
        warmth.same("python program.py")
        (tmp_path / "library").rename(tmp_path / "away")
        assert warmth.warm("python program.py", expect=False) == warmth.cold("python program.py")


def test_modules_that_are_not_there_are_done_without(tmp_path: Path) -> None:
    modules = {"broken": "import os; os.environ['LEFT'] = 'x'; import decimal; 1 / 0"}
    modules["needs"] = "import nowhere"
    with warm(
        tmp_path, "json", "nowhere", "json.nowhere", "broken", "needs", modules=modules
    ) as warmth:
        assert warmth.zygote.without == {
            "nowhere": "it is not installed",
            "json.nowhere": "it is not installed",
            "broken": "importing broken: ZeroDivisionError: division by zero",
            "needs": "importing needs: No module named 'nowhere'",
        }
        warmth.write("program.py", "import sys, os; print('LEFT' in os.environ)\nimport broken")
        warmth.same("python program.py")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (
            "import threading as t; t.Thread(target=t.Event().wait, daemon=True, name='x').start()",
            "started threads (x)",
        ),
        ("import os; os._exit(3)", "it ended instead"),
        ("import os; print('last words'); os.abort()", "it ended instead"),
        ("import sys; print('so', flush=True); import os; os.kill(os.getpid(), 9)", "instead: so"),
    ],
)
def test_what_cannot_be_forked_from_is_refused(tmp_path: Path, source: str, words: str) -> None:
    with pytest.raises(EngineError) as caught, warm(tmp_path, "bad", modules={"bad": source}):
        pass
    assert words in str(caught.value)


def test_an_import_that_does_not_end_has_a_deadline(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text("import threading; threading.Event().wait()")
    env = environment(PYTHONPATH=str(tmp_path))
    with pytest.raises(DeadlineError, match="importing endless: not done in time"):
        Zygote.start(str(PYTHON), ["endless"], env, deadline=0.5)


def test_no_interpreter(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="cannot be started"):
        Zygote.start(str(tmp_path / "python"), [], {}, deadline=1)


def test_what_the_imports_read_and_printed_is_known(tmp_path: Path) -> None:
    source = (
        "import os\nos.environ.get('ASKED'); os.getenv('GOT'); 'HAD' in os.environ\n"
        "os.environ.copy(); dict(os.environ.items()); list(os.environ)\nprint('imported')"
    )
    with warm(tmp_path, "asks", modules={"asks": source}, GIVEN="1") as warmth:
        assert warmth.zygote.said == "imported\n"
        for name, served in (("ASKED", 0), ("GOT", 0), ("HAD", 0), ("GIVEN", 1), ("RANK", 1)):
            command = warmth.command("python program.py", **{name: "2"})
            assert (not warmth.zygote.why_not(command, str(tmp_path))) is bool(served), name
        # A program's own reading is nobody's business, and its environment is the usual one.
        warmth.write("program.py", "import os; print(type(os.environ), os.environ.get('NEW'))")
        warmth.same("python program.py")


@pytest.mark.parametrize(
    "program",
    [
        "import m",
        "import m; m.weakref.finalize(m.kept, print, 'its own')",
        "import m; del m.kept; m.weakref.finalize(m, print, 'its own')",
        "import m, atexit; f = m.weakref.finalize; f(m, print, 1); atexit.register(f, m, print, 2)",
        "import m, atexit; atexit.register(lambda: m.weakref.finalize(m.kept, print, 'late'))",
    ],
)
def test_finalizers_beside_those_that_came_with_the_imports(tmp_path: Path, program: str) -> None:
    module = (
        "import weakref\nclass Kept: pass\nkept = Kept()\n"
        "weakref.finalize(kept, print, 'gone').atexit = False"
    )
    with warm(tmp_path, "m", modules={"m": module}) as warmth:
        warmth.write("program.py", program)
        warmth.same("python program.py")


@pytest.mark.parametrize("said", ["set_threshold(500, 5, 5)", "disable()", "set_threshold(0)"])
def test_what_imports_tell_the_garbage_collector_holds(tmp_path: Path, said: str) -> None:
    with warm(tmp_path, "m", modules={"m": f"import gc; gc.{said}"}) as warmth:
        warmth.write("program.py", "import gc, m; print(gc.isenabled(), gc.get_threshold())")
        warmth.same("python program.py")


def test_many_processes_share_huge_pages(tmp_path: Path) -> None:
    """Where the kernel has them; and what is written in one is not seen in another."""
    if not Path("/sys/kernel/mm/transparent_hugepage").exists() or kernel() < (6, 1):
        pytest.skip("this kernel does not make huge pages when asked to")
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "m.py").write_text("kept = [[number] for number in range(400_000)]")
    program = "import m\nfor item in m.kept: item[0] += 1\nprint(sum(map(sum, m.kept)))"
    # A busy kernel may have none to give at that moment.
    assert any(huge_kilobytes(tmp_path, program) > 10_000 for _ in range(5))


def huge_kilobytes(tmp_path: Path, program: str) -> int:
    """Of a zygote of many, after it has run the program twice as a fresh interpreter would."""
    env = environment(PYTHONPATH=str(tmp_path / "library"))
    zygote = Zygote.start(
        str(PYTHON), ["m"], env, deadline=PATIENCE, cwd=str(tmp_path), expected=64
    )
    warmth = Warmth(zygote, tmp_path, env)
    warmth.write("program.py", program)
    warmth.same("python program.py")
    warmth.same("python program.py")
    memory = Path(f"/proc/{zygote.pid}/smaps_rollup").read_text(encoding="ascii")
    zygote.close()
    (huge,) = re.findall(r"^AnonHugePages: *([0-9]+) kB$", memory, re.MULTILINE)
    return int(huge)


def kernel() -> tuple[int, ...]:
    return tuple(map(int, re.findall("[0-9]+", platform.release())[:2]))


def test_what_another_zygote_is_needed_for(tmp_path: Path) -> None:
    with warm(tmp_path, "json") as warmth:
        python3 = warmth.command("python3 program.py")
        assert "its interpreter is" in warmth.zygote.why_not(python3, str(tmp_path))
        command = warmth.command("python program.py", PYTHONPATH="src")
        assert "PYTHONPATH" in warmth.zygote.why_not(command, str(tmp_path))
    (tmp_path / "two").mkdir()
    with warm(tmp_path / "two", "json") as warmth:
        command = warmth.command("python program.py", OMP_NUM_THREADS="1")
        assert "OMP_NUM_THREADS" in warmth.zygote.why_not(command, str(tmp_path))


def test_a_relative_path_is_relative_to_one_directory(tmp_path: Path) -> None:
    env = environment(PYTHONPATH="src")
    zygote = Zygote.start(str(PYTHON), ["json"], env, deadline=PATIENCE, cwd=str(tmp_path))
    warmth = Warmth(zygote, tmp_path, env)
    warmth.write("program.py", "import sys; print(sys.path)")
    warmth.same("python program.py")
    reason = zygote.why_not(warmth.command("python program.py"), "/")
    assert reason == "PYTHONPATH has src, which depends on the working directory"
    zygote.close()


@pytest.mark.parametrize("locale", ["C", "POSIX", ""])
def test_a_locale_that_python_changes(tmp_path: Path, locale: str) -> None:
    with warm(tmp_path, "json", LANG=locale) as warmth:
        warmth.write("program.py", "import os, sys; print(sorted(os.environ.items()), sys.stdout)")
        warmth.same("python program.py")


def test_bytes_that_are_not_text(tmp_path: Path) -> None:
    odd = os.fsdecode(b"\xff\xfe")
    with warm(tmp_path, "json") as warmth:
        warmth.write("program.py", "import os, sys; print(ascii(sys.argv), os.environb[b'ODD'])")
        warmth.same(["python", "program.py", odd], env={"ODD": odd})
