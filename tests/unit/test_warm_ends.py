"""A program that started warm ends as it would have in a fresh interpreter."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING

import pytest

from fedtest.engine.netns.warm.client import Zygote
from fedtest.engine.netns.warm.inside import threads
from warmth import PATIENCE, PYTHON, Warmth, environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    zygote = Zygote.start(str(PYTHON), ("json", "decimal"), environment(), deadline=PATIENCE)
    yield zygote
    zygote.close()


@pytest.fixture
def warmth(zygote: Zygote, tmp_path: Path) -> Warmth:
    return Warmth(zygote, tmp_path)


IMPORTS = """
import sys
sys.path.insert(0, ".")
import json, decimal, colorsys, importlib
def ask(name):
    try: print(type(importlib.import_module(name)))
    except ImportError as error: print(type(error), error)
class T:
    def __del__(self):
        try: import json
        except ImportError as error: print(type(error), error)
        try: from . import json
        except (ImportError, KeyError, TypeError) as error: print(type(error), error)
        for name in ("decimal", "colorsys", "__main__", "unheard.of"): ask(name)
        print([sys.modules.get(name) for name in ("json", "decimal", "colorsys", "__main__")])
t = T()
"""

PROGRAMS = {
    "normally": "print('said')",
    "with a status": "import sys; sys.exit(7)",
    "with a large status": "import sys; sys.exit(256 + 5)",
    "with text for a status": "import sys; sys.exit('good-bye')",
    "with nothing for a status": "raise SystemExit",
    "with an object for a status": "raise SystemExit([1, 2])",
    "at once": "import os; print('unseen', end=''); os._exit(9)",
    "while a thread of a library waits for Python's lock": (
        "import ctypes, sys, threading\n"
        "begun = threading.Event()\n"
        "libc = ctypes.PyDLL(None)\n"
        "thread = ctypes.c_ulong()\n"
        "@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)\n"
        "def work(_):\n"
        "    begun.set()\n"
        "    import time; time.sleep(0.5)\n"
        "ctypes.CDLL(None).pthread_create(ctypes.byref(thread), None, work, None)\n"
        "begun.wait()\n"
        "class Joins:\n"
        "    def __del__(self, libc=libc, thread=thread):\n"
        "        libc.pthread_join(thread, None)\n"
        "joins = Joins() if sys.version_info < (3, 14) else None  # whose end is a standstill\n"
    ),
    "by an exception": "def f():\n    raise ValueError('no\\nway')\nf()",
    "by a chain of exceptions": (
        "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise KeyError('x') from error"
    ),
    "by a group of exceptions": "raise ExceptionGroup('two', [ValueError(1), KeyError(2)])",
    "by an exception with a note": "e = ValueError(1); e.add_note('noted'); raise e",
    "by an exception of its own": "class Own(Exception): pass\nraise Own(1)",
    "by a missing module": "import nowhere",
    "by a syntax error of its own": "print('never')\nx = = 1\n",
    "by a null byte": "print(1)\0",
    "by a wrong encoding": "# coding: nonsense\n",
    "by a syntax error in what it compiles": "exec('x = = 1')",
    "by KeyboardInterrupt": "raise KeyboardInterrupt",
    "by a signal": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "by abort": "import os; os.abort()",
    "with exit handlers": (
        "import atexit, sys\n"
        "atexit.register(lambda: print('last', '__file__' in globals(), sys.argv))\n"
        "atexit.register(lambda: 1 / 0)\n"
        "print('first')"
    ),
    "with exit handlers after an exception": (
        "import atexit, sys\n"
        "atexit.register(lambda: print('last', '__file__' in globals(), sys.last_type))\n"
        "raise ValueError"
    ),
    "with a thread still running": (
        "import threading, time\n"
        "threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()\n"
        "print('main')"
    ),
    "with an exception in a thread": (
        "import threading\n"
        "thread = threading.Thread(target=lambda: 1 / 0, name='t'); thread.start(); thread.join()"
    ),
    "with a hook for exceptions": (
        "import sys\n"
        "sys.excepthook = lambda *a: print(a[0], a[1], a[2].tb_lineno, sys.exc_info())\n"
        "raise ValueError(3)"
    ),
    "with a broken hook": (
        "import sys\ndef hook(*a): 1 / 0\nsys.excepthook = hook\nraise ValueError(3)"
    ),
    "with a hook that exits": (
        "import sys\nsys.excepthook = lambda *a: sys.exit(5)\nraise ValueError(3)"
    ),
    "without a hook": "import sys\ndel sys.excepthook\nraise ValueError(3)",
    "with objects that are torn down": (
        "class T:\n    def __del__(self): print('gone')\nt = T()\nprint('here')"
    ),
    "with objects in circles that are torn down": (
        "import sys\nclass T:\n    def __init__(self): self.me = self\n"
        "    def __del__(self): print('gone', sys.meta_path, T)\n"
        "T()\nt = [T() for _ in range(2)]\nprint('here')"
    ),
    "with objects of another module that are torn down": (
        "import sys; sys.path.insert(0, '.'); import other; mine = other.T('mine'), other.f"
    ),
    "with a daemon thread": (
        "import threading, time\ndef tick():\n    while True: time.sleep(0.001)\n"
        "threading.Thread(target=tick, daemon=True).start()\n"
        "import atexit; atexit.register(print, 'handler')\n"
        "class T:\n    def __del__(self): print('gone')\nt = T()\nraise SystemExit(6)"
    ),
    "with a pool of threads": (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "pool = ThreadPoolExecutor(2)\npool.submit(print, 'worked')"
    ),
    "with finalizers": (
        "import weakref\nclass T: pass\nt = T()\nweakref.finalize(t, print, 'finalized')"
    ),
    "with imports when it is torn down": IMPORTS,
    "with imports, when what was there was taken out": (
        f"import json, sys\ndel sys.modules['json']\n{IMPORTS}\nimport decimal\n"
        "del sys.modules['decimal']\n"
    ),
    "with imports, when its main module was put anew": (
        "import sys, colorsys\nmain = sys.modules.pop('__main__')\nsys.modules['__main__'] = main\n"
        f"del main\n{IMPORTS}"
    ),
    "with an object that complains when torn down": (
        "class T:\n    def __del__(self): 1 / 0\nt = T()"
    ),
    "with a file that nobody closed": (
        "import atexit, os\nf = open('written', 'w'); f.write('x' * 100)\n"
        "class T:\n    def __del__(self): print(os.path.getsize('written'))\nt = T()"
    ),
    "with C's own output": "import ctypes\nctypes.CDLL(None).printf(b'from C')",
    "with a handler of C's": (
        "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.strdup.restype = ctypes.c_void_p\n"
        "text = ctypes.c_void_p(libc.strdup(b'at exit'))\n"
        "libc.__cxa_atexit(libc.puts, text, None)\nprint('first')"
    ),
    "with a huge status": "raise SystemExit(1 << 70)",
    "with a negative status": "raise SystemExit(-1)",
    "with output that nobody takes": "import os, sys\nos.close(1)\nprint('x')",
    "with a warning": "import warnings\nwarnings.warn('careful')\nx = 1 is 1",
    "reading its input": "import sys; print(sys.stdin.read().upper()); print(input())",
    "in a forked child": (
        "import os, sys\npid = os.fork()\n"
        "sys.exit(3) if pid == 0 else print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"
    ),
    "with standard output and errors interleaved": (
        "import sys\nfor i in range(3): print('o', i); print('e', i, file=sys.stderr)"
    ),
    "by quit": "quit(4)",
    "with loggers": (
        "import logging\nlogging.basicConfig(level='INFO'); logging.info('told')\n"
        "logging.getLogger('x').exception('no exception')"
    ),
}


OTHER = """
class T:
    def __init__(self, name): self.name = name
    def __del__(self): print('gone', self.name, end='!')
_first = T('first')
second = T('second')
def f(): return second
"""

# Where an interpreter cannot run it, the error is best said by one itself.
COLD = ("by a syntax error of its own", "by a null byte", "by a wrong encoding")


@pytest.mark.parametrize("how", PROGRAMS)
@pytest.mark.parametrize("way", ["program.py", "-m program"])
def test_a_program_ends(warmth: Warmth, how: str, way: str) -> None:
    warmth.write("program.py", PROGRAMS[how])
    warmth.write("other.py", OTHER)
    argv = ["python", *way.split()]
    cold = warmth.cold(argv, stdin=b"in\nput\n")
    warm = warmth.warm(argv, stdin=b"in\nput\n", expect=way[0] == "-" or how not in COLD)
    assert warm == cold


@pytest.mark.parametrize(
    ("argv", "warm"),
    [
        (["python", "-m", "nowhere"], True),
        (["python", "-m", "json.nowhere"], True),
        (["python", "-m", "json"], True),
        (["python", "-m", ""], True),
        (["python", "-m", "json.tool", "nowhere"], True),
        (["python", "nowhere.py"], False),
        (["python", "."], False),
    ],
    ids=str,
)
def test_what_is_not_there_is_complained_of_in_the_same_words(
    warmth: Warmth, argv: list[str], warm: bool
) -> None:
    cold = warmth.cold(argv)
    assert cold.status != 0
    assert warmth.warm(argv, expect=warm) == cold


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGUSR1])
@pytest.mark.parametrize("way", ["program.py", "-m program"])
def test_a_program_takes_signals(warmth: Warmth, number: signal.Signals, way: str) -> None:
    warmth.write(
        "program.py",
        "import atexit, os, signal\n"
        "atexit.register(lambda: print('handler'))\n"
        "os.read(os.open('gate', os.O_RDONLY), 1)\n",
    )
    os.mkfifo(warmth.directory / "gate")

    def strike(pid: int) -> None:
        # Opening the gate waits until the program is at it. Closing it ends its wait: a signal
        # that comes when Python has looked for some, and does not wait yet, interrupts nothing.
        gate = os.open(warmth.directory / "gate", os.O_WRONLY)
        os.kill(pid, number)
        os.close(gate)

    cold = warmth.cold(["python", *way.split()], then=strike)
    warm = warmth.warm(["python", *way.split()], then=strike)
    assert warm.status == cold.status == 128 + number
    assert warm.out == cold.out
    assert warm.err.splitlines()[-1:] == cold.err.splitlines()[-1:]


@pytest.mark.parametrize("way", ["program.py", "-u program.py"])
def test_what_was_printed_before_a_kill_is_as_much_as_buffers_let_through(
    warmth: Warmth, way: str
) -> None:
    warmth.write("program.py", "import os; print('printed'); os.kill(os.getpid(), 9)")
    outcome = warmth.same(["python", *way.split()])
    assert (outcome.status, outcome.out) == (137, "printed\n" if "-u" in way else "")


def test_an_end_waits_until_threads_have_let_go_of_what_they_were_at() -> None:
    """One that asks for Python's lock in a destructor just then would have C++ give up on us."""
    worked, over = threading.Event(), threading.Event()

    def work() -> None:
        end = time.thread_time() + 0.05
        while time.thread_time() < end:
            pass
        worked.set()
        over.wait()

    thread = threading.Thread(daemon=True, target=work)
    thread.start()
    threads.let_finish(30)
    assert worked.is_set()
    over.set()
    thread.join()
