"""The end of a program that was forked: all that is its own is torn down, and no more.

An interpreter takes apart every module there is. Of those that came with the
fork this would only be copying pages in order to throw them away: half a second
of CPU a process for torch's. So this does what `Py_FinalizeEx` does, for the
program's own modules and objects; where a thread still runs that would see it
happen, or output cannot be written, the interpreter does it all.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import gc
import os
import signal
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any, NoReturn

from fedtest.engine.netns.warm.inside import kernel

if TYPE_CHECKING:
    from types import ModuleType

_kept: list[object] = []
_here: frozenset[str] = frozenset()
"""Modules that came with the fork."""

# In the order of CPython's `finalize_modules`.
_NONE_AT_THE_END = (
    *("path", "argv", "ps1", "ps2", "last_type", "last_value", "last_traceback", "last_exc"),
    *("path_hooks", "path_importer_cache", "meta_path", "__interactivehook__"),
)


def remember() -> None:
    """Called before the fork."""
    global _here  # noqa: PLW0603 - a process has one
    kernel.cut_exit_short()
    # What came with the fork is the zygote's, and so is what to do at its end: torch would take
    # all that it registered out of its tables again, 60 ms of copying pages in each process.
    registry: dict[Any, Any] = getattr(weakref.finalize, "_registry", {})
    for finalizer in registry:
        finalizer.atexit = False
    _here = frozenset(sys.modules) - {"__main__", "__mp_main__"}


def end(status: int, *, interrupted: bool) -> None:
    """End this process; returns where the interpreter must do it."""
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001
    if _thread._count() > 0:  # noqa: SLF001 - counts those of C, too
        return
    atexit._run_exitfuncs()  # noqa: SLF001
    if not _flush():
        return
    _tear_down()
    if not _flush():
        return
    if interrupted:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    kernel.leave(status)


def _flush() -> bool:
    """Whether all went out."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not getattr(stream, "closed", False):
            try:
                stream.flush()
            except Exception:  # noqa: BLE001 - whatever it is, the interpreter will meet it, too
                return False
    return True


def _tear_down() -> None:
    if gc.isenabled():
        gc.collect()
    for name in _NONE_AT_THE_END:
        if hasattr(sys, name):
            setattr(sys, name, None)
    sys.stdin, sys.stdout, sys.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__
    own: list[weakref.ref[ModuleType]] = []
    for name, module in list(sys.modules.items()):
        # Nothing can be imported any more, not even to show a line of source.
        sys.modules[name] = None  # type: ignore[assignment]
        if name in _here:
            _kept.append(module)
        else:
            with contextlib.suppress(TypeError):  # Something else may have been put there.
                own.append(weakref.ref(module))
    del module
    gc.collect()
    for reference in reversed(own):
        alive = reference()
        if alive is not None:
            _clear(vars(alive))
        del alive
    gc.collect()


def _clear(names: dict[str, object]) -> None:
    """As CPython's `_PyModule_Clear`: what has one underscore first, builtins never."""
    for name in list(names):
        if name.startswith("_") and not name.startswith("__"):
            names[name] = None
    for name in list(names):
        if not (name.startswith("_") and not name.startswith("__")) and name != "__builtins__":
            names[name] = None


def unreachable() -> NoReturn:
    """For whom a type checker asks."""
    raise SystemExit
