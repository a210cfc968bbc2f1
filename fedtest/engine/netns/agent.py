"""The first process of a host: starts commands in it, waits for them, tells what it sees.

It is forked from the run's keeper, so it costs no interpreter's start. Another
one of these runs beside each host that scripts are run for, in the host's
network but not among its processes.

A connection is one order. `start` and `probe` are answered by the process id,
and once more, with its status, when the process has ended. With `tied` the
process is killed when the connection ends: who wanted it waits no more.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import sys
from typing import TYPE_CHECKING, Any

from fedtest.engine.netns import channel
from fedtest.engine.netns.elsewhere import NEW_USERS, drop_capabilities, leave, map_ids
from fedtest.engine.netns.look import describe

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from fedtest.engine.netns.channel import Message

# What Docker leaves to root in a container, and SYS_PTRACE, as ours have it there.
ROOTS = frozenset((0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 19, 27, 29, 31))
_PATIENCE = 5.0


class Agent:
    """Serves one host, or what is beside one, until it is killed."""

    def __init__(
        self, listener: socket.socket, keeper: socket.socket, members: Sequence[int],
        *, beside: bool, mapped: bool,
    ) -> None:  # fmt: skip
        self._listener = listener
        self._keeper = keeper
        self._members = members
        self._beside = beside
        self._mapped = mapped
        self._waiting: dict[int, socket.socket] = {}
        self._selector = selectors.DefaultSelector()

    def serve(self) -> None:
        """For ever; the host ends with it."""
        woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for file in (woken, self._listener, self._keeper):
            self._selector.register(file, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is woken or key.fileobj == woken:
                    os.read(woken, 512)
                elif key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj is self._keeper:
                    os._exit(0)  # It says nothing any more: it is gone.
                else:
                    self._abandon(key.fileobj)
            self._reap()

    def _reap(self) -> None:
        """Also those that were left to the host's first process."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            connection = self._waiting.pop(pid, None)
            if connection is not None:
                with contextlib.suppress(KeyError):
                    self._selector.unregister(connection)
                code = os.waitstatus_to_exitcode(status)
                with connection, contextlib.suppress(OSError):
                    channel.send(connection, {"status": code if code >= 0 else 128 - code})

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        connection.settimeout(_PATIENCE)
        try:
            order, files = channel.receive(connection)
        except (channel.Gone, OSError, ValueError):
            connection.close()
            return
        given: list[int] = []
        try:
            answer, given = self._obey(order, files, connection)
        except (OSError, ValueError, LookupError) as error:
            answer = {"error": str(error)}
        finally:
            for descriptor in files:
                os.close(descriptor)
        with contextlib.suppress(OSError):
            channel.send(connection, answer, given)
        for descriptor in given:
            os.close(descriptor)
        if connection not in self._waiting.values():
            connection.close()
        elif order.get("tied"):
            self._selector.register(connection, selectors.EVENT_READ)

    def _abandon(self, connection: Any) -> None:
        """Nobody waits for this process any more, who would have ended it."""
        self._selector.unregister(connection)
        for pid, its in self._waiting.items():
            if its is connection:
                _signal(pid, signal.SIGKILL)

    def _obey(
        self, order: Message, files: list[int], connection: socket.socket
    ) -> tuple[Message, list[int]]:
        """The answer, and open files that go with it."""
        match order["do"]:
            case "start":
                child: Callable[[], None] = lambda: self._become(order)  # noqa: E731 - two of a kind
            case "probe":
                child = lambda: _probe(order["request"])  # noqa: E731
            case "look":
                return {"text": describe(order.get("files", ()))}, []
            case "join":
                return self._join()
            case "signal":
                there = [pid for pid in order["pids"] if _signal(pid, order["number"])]
                return {"there": there}, []
            case other:
                raise ValueError(f"nobody knows how to {other}")
        pid = self._fork(child, files)
        self._waiting[pid] = connection
        return {"pid": pid}, []

    def _join(self) -> tuple[Message, list[int]]:
        """What somebody outside needs in order to start a process here."""
        names = [*(("user",) if self._mapped else ()), "mnt", "net", "uts", "ipc", "pid"]
        flags = os.O_RDONLY | os.O_CLOEXEC
        opened = [os.open(f"/proc/self/ns/{name}", flags) for name in names]
        # Our control groups are the run's, not the host's: theirs are open here already.
        groups = [os.dup(descriptor) for descriptor in self._members]
        return {"namespaces": names, "rights": sorted(ROOTS)}, opened + groups

    def _fork(self, child: Callable[[], None], files: list[int]) -> int:
        """A child that leads a session; its standard output and error are `files`."""
        pid = os.fork()
        if pid:
            return pid
        try:
            os.setsid()
            nothing = os.open(os.devnull, os.O_RDONLY)
            for number, descriptor in enumerate((nothing, *files)):
                os.dup2(descriptor, number)
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGINT, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            child()
        except BaseException as error:  # noqa: BLE001 - whatever it is, this is its end
            os.write(2, f"fedtest: {error}\n".encode(errors="replace"))
        os._exit(126)

    def _become(self, order: Message) -> None:
        """Be the command, as its user."""
        argv, env = order["argv"], order["env"]
        for descriptor in self._members:
            os.write(descriptor, b"0")
        os.umask(0o022)
        if not self._beside:
            drop_capabilities(ROOTS)
        self._change_user(order["uid"], order["gid"], order.get("groups", []))
        try:
            os.chdir(order.get("directory") or "/")
        except OSError:
            os.chdir("/")
        try:
            os.execvpe(argv[0], argv, env)  # noqa: S606 - that is what it is for
        except FileNotFoundError:
            os.write(2, f"fedtest: {argv[0]}: not found\n".encode())
            os._exit(127)
        except OSError as error:
            os.write(2, f"fedtest: {argv[0]}: {error.strerror}\n".encode())
            os._exit(126)

    def _change_user(self, uid: int, gid: int, groups: list[int]) -> None:
        if self._mapped:
            # One user is all that there is: he is root here, or whom the process
            # is to be, in a user namespace of its own, without root's rights.
            if (uid, gid) != (0, 0):
                leave(NEW_USERS)
                map_ids(uid, gid, 0, 0)
            return
        os.setgroups(groups)
        os.setgid(gid)
        os.setuid(uid)


def _signal(pid: int, number: int) -> bool:
    """Whether there was anybody to get it."""
    if pid <= 1:
        return False
    for send in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError):
            send(pid, number)
            return True
    return False


def _probe(request: Any) -> None:
    """Look at the host's files, network and processes: as the module does that is made for it."""
    import runpy  # noqa: PLC0415 - only those who look need it

    sys.argv = ["fedtest.probe", request]
    runpy.run_module("fedtest.probe", run_name="__main__", alter_sys=True)
    sys.stdout.flush()
    os._exit(0)
