"""Makes the interpreter of a forked process what a fresh one would be, and runs the program.

Where that cannot be, the process executes a fresh interpreter instead: all else
of it is in place by then.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.machinery
import linecache
import os
import runpy
import sys
import warnings
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fedtest.engine.netns.warm.inside import child, ending, fresh, outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import CodeType

# What `-m` calls.
_run_module: Callable[[str], object] = vars(runpy)["_run_module_as_main"]

_changes: dict[str, tuple[str | None, str]] = {}
_main: dict[str, Any] = {}
_main_names: list[str] = []
"""multiprocessing knows it by another name, too."""
_path: dict[str, bool] = {}
_files: dict[str, str] = {}


def changed_at_start(given: Mapping[str, str]) -> dict[str, str]:
    """What of the environment starting the interpreter has changed: LC_CTYPE, maybe."""
    for name, value in os.environ.items():
        if given.get(name) != value:
            _changes[name] = (given.get(name), value)
    return {name: value for name, (_, value) in _changes.items()}


def remember() -> None:
    """What of this interpreter a program is to find, or must not differ in."""
    _path.update({entry: os.path.isdir(entry) for entry in sys.path})
    for name, module in list(sys.modules.items()):
        origin = getattr(getattr(module, "__spec__", None), "origin", None)
        # What is built in or frozen is found before any directory is looked at.
        if "." not in name and isinstance(origin, str) and origin not in ("built-in", "frozen"):
            _files[name] = origin
    # Now, for to look at a module is to write to its page, and that is a copy in each process.
    main_module = sys.modules["__main__"]
    _main_names.extend(name for name, item in sys.modules.items() if item is main_module)
    main = vars(main_module)
    _main.update({name: value for name, value in main.items() if name.startswith("__")})
    _forget_directories()
    ending.remember()
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is not None:
            stream.flush()


def _forget_directories() -> None:
    """Other mounts, other directories: what was found of them says nothing any more.

    Before the fork, where it is freed once and not in each process; and after it.
    """
    sys.path_importer_cache.clear()
    importlib.invalidate_caches()
    linecache.clearcache()


def run(message: Mapping[str, Any], fds: Sequence[int]) -> None:
    """Be the process that was asked for. Returns, raises or exits as its program does."""
    given = child.Descriptors(message, fds)
    try:
        child.become(message, given)
        env = _environment(message)
        code, directory, reason = _program(message)
        if reason:
            child.report(given, pid=os.getpid(), warm=False, reason=reason)
            child.execute(message["interpreter"], message["argv"], env)
    except OSError as error:
        child.report(given, error=str(error))
        os._exit(127)
    child.report(given, pid=os.getpid(), warm=True, reason="")
    _prepare(message, env, directory)
    if code is None:
        status, interrupted = outcome.of(_run_module, message["module"])
    else:
        status, interrupted = outcome.of(exec, code, vars(sys.modules["__main__"]))
    del code
    ending.end(status, interrupted=interrupted)
    sys.excepthook = lambda *_: None  # All was said.
    raise KeyboardInterrupt if interrupted else SystemExit(status)


def _environment(message: Mapping[str, Any]) -> dict[str, str]:
    """As given, and as a shell and the start of the interpreter would have left it."""
    env: dict[str, str] = dict(message["env"])
    if message["shell"] and not _is_here(env.get("PWD", "")):
        env["PWD"] = os.getcwd()
    for name, (before, after) in _changes.items():
        if env.get(name) == before:
            env[name] = after
    return env


def _is_here(directory: str) -> bool:
    try:
        return directory.startswith("/") and os.path.samefile(directory, ".")
    except OSError:
        return False


def _program(message: Mapping[str, Any]) -> tuple[CodeType | None, str, str]:
    """The code of a file, the directory that goes first in `sys.path`, and why it starts cold."""
    code: CodeType | None = None
    for entry, there in _path.items():
        if os.path.isdir(entry) != there:
            return None, "", f"{entry}, of sys.path, is not what it was during the imports"
    if message["module"] is not None:
        directory = os.getcwd()
    else:
        try:
            code = _compile(message["file"])
        except (OSError, SyntaxError, ValueError) as error:
            # The interpreter itself says it best.
            return None, "", f"{message['file']} cannot be run: {error}"
        directory = os.path.dirname(os.path.realpath(message["file"]))
    if sys.flags.safe_path:
        return code, "", ""
    try:
        reason = _shadowed(directory)
    except OSError as error:
        reason = f"{directory}, first of sys.path, cannot be looked at: {error}"
    return code, directory, reason


def _compile(file: str) -> CodeType:
    if not os.path.isfile(file) or file.endswith(".pyc"):
        raise ValueError("it is not a source file")
    with open(file, "rb") as stream:
        source = stream.read()
    absolute = os.path.join(os.getcwd(), file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compile(source, absolute, "exec", dont_inherit=True)
    return compile(source, absolute, "exec", dont_inherit=True)


def _shadowed(directory: str) -> str:
    """Whether a fresh interpreter would have found another module under a name imported here."""
    suffixes = importlib.machinery.all_suffixes()
    for entry in os.listdir(directory):
        name = entry.partition(".")[0]
        if name not in _files and name not in ("sitecustomize", "usercustomize"):
            continue
        path = f"{directory}/{entry}"
        candidates = [path] if entry != name else [f"{path}/__init__{end}" for end in suffixes]
        if entry != name and entry.removeprefix(name) not in suffixes:
            continue
        for candidate in candidates:
            if os.path.isfile(candidate) and not _same(candidate, _files.get(name)):
                return f"{candidate} hides {name}, which is imported already"
    return ""


def _same(left: str, right: str | None) -> bool:
    try:
        return right is not None and os.path.samefile(left, right)
    except OSError:
        return False


def _prepare(message: Mapping[str, Any], env: Mapping[str, str], directory: str) -> None:
    os.environ.clear()
    os.environ.update(env)
    fresh.streams(unbuffered=message["unbuffered"])
    sys.orig_argv[:] = message["argv"]
    sys.argv[:] = ["-m" if message["file"] is None else message["file"], *message["args"]]
    _forget_directories()
    if directory:
        sys.path.insert(0, directory)
    # A new one: the old is frozen, and so would be any circle of objects that goes through it.
    new = ModuleType("__main__")
    for name in _main_names:
        del sys.modules[name]
    ending.begin()
    sys.modules.update(dict.fromkeys(_main_names, new))
    main = vars(new)
    main.update(_main)
    main["__builtins__"] = builtins
    if "__annotations__" in main:
        main["__annotations__"] = {}
    if message["file"] is not None:
        file = os.path.join(os.getcwd(), message["file"])
        main["__loader__"] = importlib.machinery.SourceFileLoader("__main__", file)
        main["__file__"] = file
        main["__cached__"] = None
    fresh.randomness()
    fresh.modules()
