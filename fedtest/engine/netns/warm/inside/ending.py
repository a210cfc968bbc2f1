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
import builtins
import contextlib
import gc
import importlib
import os
import signal
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any, NoReturn, cast

from fedtest.engine.netns.warm.inside import kernel, threads

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

_MAIN = "__main__"
_here: frozenset[str] = frozenset()
"""Modules that came with the fork."""
_others = 0
"""How many there were besides `__main__` when the program began."""
_gone: dict[str, ModuleType | None] = {}
"""What `sys.modules` has at the end; made before the fork, for to name each is to touch it."""
_last_finalizer: object = None
"""Of `weakref.finalize`, at the time of the fork."""

# In the order of CPython's `finalize_modules`.
_NONE_AT_THE_END = (
    *("path", "argv", "ps1", "ps2", "last_type", "last_value", "last_traceback", "last_exc"),
    *("path_hooks", "path_importer_cache", "meta_path", "__interactivehook__"),
)


def remember() -> None:
    """Called before the fork."""
    global _here, _last_finalizer  # noqa: PLW0603 - a process has one
    kernel.cut_exit_short()
    # What came with the fork is the zygote's, and so is what to do at its end: torch would take
    # all that it registered out of its tables again, 60 ms of copying pages in each process.
    registry = _registry()
    for finalizer in registry:
        finalizer.atexit = False
    _last_finalizer = next(reversed(registry), None)
    _here = frozenset(sys.modules) - {_MAIN, "__mp_main__"}
    _gone.update(dict.fromkeys(sys.modules))


def _registry() -> dict[Any, Any]:
    return cast("dict[Any, Any]", getattr(weakref.finalize, "_registry", {}))


def begin() -> None:
    """Called before the program runs, when `__main__` is not there: it and what follows are its."""
    global _others  # noqa: PLW0603 - a process has one
    _others = len(sys.modules)


def end(status: int, *, interrupted: bool) -> None:
    """End this process; returns where the interpreter must do it."""
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001
    # A thread of a library that waits for Python's lock goes away when the interpreter ends; now
    # it would wait for us, and what we take apart for it (a Gloo group that nobody destroyed).
    if _thread._count() > 0 or len(os.listdir("/proc/self/task")) > 1:  # noqa: SLF001
        with contextlib.suppress(KeyboardInterrupt):  # The end is what it asks for.
            threads.let_finish()
        return
    with _without_finalizers():
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


@contextlib.contextmanager
def _without_finalizers() -> Iterator[None]:
    """Those that came with the fork do nothing now; to look through them would copy their pages."""
    registry = _registry()
    if next(reversed(registry), None) is not _last_finalizer:
        yield  # Some are the program's own.
        return
    finalize: Any = weakref.finalize
    finalize._registry = {}  # noqa: SLF001
    try:
        yield
    finally:
        finalize._registry = registry  # noqa: SLF001


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
    modules = cast("dict[str, ModuleType | None]", sys.modules)
    names = _own(modules)
    _gone.update((name, modules[name]) for name in names)
    # Nothing can be imported any more, not even to show a line of source. In the interpreter's
    # own dictionary the others stay; so imports go by what `sys.modules` says.
    sys.modules = cast("dict[str, ModuleType]", _gone)
    builtins.__import__ = importlib.__import__
    for name in names:
        with contextlib.suppress(TypeError):  # Something else may have been put there.
            own.append(weakref.ref(cast("ModuleType", modules[name])))
        modules[name] = _gone[name] = None
    sys.modules = {}
    gc.collect()
    for reference in reversed(own):
        alive = reference()
        if alive is not None:
            _clear(vars(alive))
        del alive
    gc.collect()


def _own(modules: dict[str, ModuleType | None]) -> list[str]:
    """The program's, from `__main__` on; the others' names are not touched, if that can be."""
    found: list[str] = []
    for name in reversed(modules):
        found.append(name)
        if name == _MAIN:
            break
    if len(found) != len(modules) - _others:  # Some were taken out, or `__main__` moved.
        found = [name for name in reversed(modules) if name not in _here]
    return found[::-1]


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
