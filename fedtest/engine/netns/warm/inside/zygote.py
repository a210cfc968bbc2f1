"""The process that ranks are forked from: it imports, then it forks, and waits for their ends.

It runs nothing in parallel, for a pool of OpenMP's threads would exist in a
forked process in name only, and hang it. `main` returns in forked processes,
too: each is left to the interpreter's own way of ending.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import select
import signal
import socket
import sys
import warnings
from typing import TYPE_CHECKING, Any

from fedtest.engine.netns.warm.inside import child, interpreter, kernel, pages, reads, threads
from fedtest.engine.netns.warm.wire import receive, send

if TYPE_CHECKING:
    from collections.abc import Sequence

Request = tuple[dict[str, Any], list[int]]


def main(root: str, control_fd: int) -> None:
    """Serve the engine at the other end of `control_fd`; in a forked process, be that process."""
    kernel.set_command_line(["fedtest-zygote", sys.executable])
    control = socket.socket(fileno=control_fd)
    first = receive(control)
    if first is None:
        return
    _forget_us(root)
    # If the engine is gone meanwhile, nobody else ends imports that hang.
    signal.alarm(int(first[0]["patience"]) + 1)
    with pages.uncollected():
        told = _preload(first[0]["preload"])
    if "refused" not in told:
        pages.settle(first[0]["expected"])
    told["environment"] = interpreter.changed_at_start(first[0]["env"])
    signal.alarm(0)
    send(control, told)
    if "refused" in told:
        return
    request = _Zygote(control).serve()
    if request is not None:
        interpreter.run(*request)


def _forget_us(root: str) -> None:
    """Leave no trace of how this came here: what is imported from now on is the program's."""
    # First is `root`, then the directory that `-c` begins with.
    sys.path.remove(root)
    if not sys.flags.safe_path:
        sys.path.remove("")
    for name in [name for name in sys.modules if name.partition(".")[0] == "fedtest"]:
        del sys.modules[name]
    sys.path_importer_cache.clear()
    sys.argv[:] = [""]


def _preload(names: Sequence[str]) -> dict[str, Any]:
    """Import, and tell what came of it; `refused` if this process is no good for it."""
    told: dict[str, Any] = {"missing": [], "python": list(sys.version_info[:3])}
    with reads.recorded() as read:
        for name in names:
            try:
                importlib.import_module(name)
            except ModuleNotFoundError as error:
                if error.name not in _parents(name):
                    told.update(refused=f"importing {name}: {error}", module=name)
                    return told
                told["missing"].append(name)
            except BaseException as error:  # noqa: BLE001 - a module may raise what it likes
                told.update(refused=f"importing {name}: {type(error).__name__}: {error}")
                told["module"] = name
                return told
    told["read"] = sorted(read)
    interpreter.remember()
    told["user_site"] = bool(getattr(sys.modules.get("site"), "ENABLE_USER_SITE", False))
    if reason := threads.harmful():
        told["refused"] = reason
    return told


def _parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[: number + 1]) for number in range(len(parts))]


class _Zygote:
    """Forks on request, and tells how each process ended."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._running: dict[int, int] = {}
        """Process id -> number of the request."""
        self._watched: dict[int, int] = {}
        """A process's file descriptor -> its id."""
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._adopts = False

    def _let_go_of(self) -> None:
        """The engine is gone. Who has no parent may never be waited for, so this one waits."""
        self._poll.unregister(self._control)
        with contextlib.suppress(OSError):
            send(self._control, {"left": len(self._running)})
        self._control.close()

    def serve(self) -> Request | None:
        """Until the engine is gone; returns a request in the process forked for it."""
        while self._control.fileno() >= 0 or self._running:
            for fd, _ in self._poll.poll():
                if fd != self._control.fileno():
                    self._reap(fd)
                    continue
                request = receive(self._control)
                if request is None:
                    self._let_go_of()
                    break
                if self._fork(request):
                    return request
                for given in request[1]:
                    os.close(given)
        os._exit(0)  # Nothing of the preloaded needs to be torn down.

    def _fork(self, request: Request) -> bool:
        """True in the new process."""
        message, fds = request
        number = message["id"]
        given = child.Descriptors(message, fds)
        try:
            if "user" in given.namespaces:
                pid = self._fork_twice(given)
            elif "pid" in given.namespaces:
                pid = _fork_into(given.namespaces["pid"])
            else:
                pid = _plain_fork()
        except OSError as error:
            send(self._control, {"id": number, "error": str(error)})
            return False
        if pid == 0:
            self._let_go()
            return True
        self._running[pid] = number
        watch = os.pidfd_open(pid)
        self._watched[watch] = pid
        self._poll.register(watch, select.POLLIN)
        with contextlib.suppress(OSError):  # If it is gone, that is the next thing to be read.
            send(self._control, {"id": number, "pid": pid})
        return False

    def _fork_twice(self, given: child.Descriptors) -> int:
        """A user namespace is entered for good, so a process between enters it and forks."""
        if not self._adopts:
            kernel.adopt_orphans()
            self._adopts = True
        reader, writer = os.pipe()
        between = _plain_fork()
        if between:
            os.close(writer)
            told = b""
            while piece := os.read(reader, 4096):
                told += piece
            os.close(reader)
            os.waitpid(between, 0)
            if not told.isdigit():
                raise OSError(told.decode("utf-8", "replace") or "the process ended at once")
            return int(told)
        try:
            for name in ("user", "pid"):
                if name in given.namespaces:
                    kernel.enter(given.namespaces.pop(name), name)
            pid = _plain_fork()
        except OSError as error:
            os.write(writer, str(error).encode())
            os._exit(1)
        if pid:
            os.write(writer, str(pid).encode())
            os._exit(0)
        os.close(reader)
        os.close(writer)
        return 0

    def _let_go(self) -> None:
        """In a forked process: its descriptors are closed soon, and nobody else's then."""
        self._control.detach()
        self._watched.clear()

    def _reap(self, watch: int) -> None:
        pid = self._watched.pop(watch)
        self._poll.unregister(watch)
        os.close(watch)
        ended = os.waitid(os.P_PID, pid, os.WEXITED)
        if ended is None:
            return
        by_itself = ended.si_code == os.CLD_EXITED
        status = ended.si_status if by_itself else 128 + ended.si_status
        with contextlib.suppress(OSError):
            send(self._control, {"id": self._running.pop(pid), "status": status})


def _plain_fork() -> int:
    with warnings.catch_warnings():
        # Newer versions warn of an import's idle helper thread.
        warnings.simplefilter("ignore")
        return os.fork()


def _fork_into(namespace: int) -> int:
    """Fork into a PID namespace; it is only ever entered by who is forked next."""
    own = os.open("/proc/self/ns/pid", os.O_RDONLY)
    try:
        kernel.enter(namespace, "pid")
        try:
            pid = _plain_fork()
        except OSError:
            kernel.enter(own, "pid")
            raise
        if pid:
            kernel.enter(own, "pid")
        return pid
    finally:
        os.close(own)
