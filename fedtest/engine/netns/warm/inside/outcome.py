"""How a program ends: what the interpreter does with an exception that nobody caught."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def of(program: Callable[..., Any], *args: object) -> tuple[int, bool]:
    """Run a program and say what it has to say; its status, and whether Ctrl-C ended it.

    The traceback begins with the program, not with us.
    """
    try:
        try:
            program(*args)
        except SystemExit:
            raise
        except BaseException as error:  # noqa: BLE001 - all that there are
            caught = error
        else:
            _forget_file()
            return 0, False
        report(caught.with_traceback(caught.__traceback__ and caught.__traceback__.tb_next))
    except SystemExit as error:  # of the program, or of its hook
        return _status(error), False
    _forget_file()
    return 1, isinstance(caught, KeyboardInterrupt)


def _status(error: SystemExit) -> int:
    """As CPython's `handle_system_exit`."""
    code = error.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF if -(1 << 63) <= code < 1 << 63 else 0xFF
    if sys.stderr is not None:
        sys.stderr.write(f"{code}\n")
    return 1


def report(error: BaseException) -> None:
    """As CPython's `PyErr_Print`."""
    kind, trace = type(error), error.__traceback__
    sys.last_type, sys.last_value, sys.last_traceback = kind, error, trace
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    hook = getattr(sys, "excepthook", None)
    if hook is None:
        _say("sys.excepthook is missing\n")
        sys.__excepthook__(kind, error, trace)
        return
    sys.audit("sys.excepthook", hook, kind, error, trace)
    try:
        hook(kind, error, trace)
    except SystemExit:
        raise
    except BaseException as again:  # noqa: BLE001 - as above
        second = again
    else:
        return
    _say("Error in sys.excepthook:\n")
    second = second.with_traceback(second.__traceback__ and second.__traceback__.tb_next)
    sys.__excepthook__(type(second), second, second.__traceback__)
    _say("\nOriginal exception was:\n")
    sys.__excepthook__(kind, error, trace)


def _say(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(text)


def _forget_file() -> None:
    """A script has no `__file__` any more when its exit handlers run."""
    main = vars(sys.modules["__main__"])
    if main.get("__spec__") is None:
        main.pop("__file__", None)
        main.pop("__cached__", None)
