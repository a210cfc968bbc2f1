"""Processes that start warm in hosts: all that an engine must do, and as they would be cold."""

from __future__ import annotations

import json
import os
import select
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from conftest import left_behind

from engine_contract import DEADLINE, Listener, RealEngineContract, shell
from fedtest.engine.base import ProcessKey
from fedtest.engine.examine import Examination
from fedtest.engine.netns.engine import NetnsEngine
from fedtest.engine.netns.warm_starter import WarmStarter
from fedtest.plan import ProcessPlan

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from conftest import CommandLine

    from fedtest.engine.base import Engine, RunTag
    from fedtest.engine.snapshot import Snapshot
    from fedtest.plan import Plan

pytestmark = pytest.mark.netns

FILE = "/home/fedtest/program.py"


def python(
    *words: str, host: str = "a", name: str = "p", user: str = "1000:1000", **env: str
) -> ProcessPlan:
    """A process that can start warm; the program that `written` wrote if no words say another."""
    argv = ("python", *(words or (FILE,)))
    return ProcessPlan(name, host, argv, tuple(env.items()), user, None)


def written(engine: Engine, run: RunTag, text: str, host: str = "a", path: str = FILE) -> None:
    """A program that is in this host only."""
    engine.condition(run, {host: f"cat > {path} <<'EOF'\n{text}\nEOF"}, DEADLINE, inside=True)


def both(
    engine: Engine, run: RunTag, text: str, plan: ProcessPlan | None = None
) -> tuple[str, str]:
    """What a program says, warm and cold."""
    wanted = plan or python()
    written(engine, run, text)
    listener = Listener()
    other = NetnsEngine()
    said = []
    try:
        for name, starter in (("warm", engine), ("cold", other)):
            key = ProcessKey(wanted.host, name)
            starter.start(run, [replace(wanted, name=name)], listener, DEADLINE)
            assert listener.wait_exit(key) == 0, listener.text(key, "stderr")
            assert key not in starter.cold_starts()
            said.append(listener.text(key))
    finally:
        other.close()
    return said[0], said[1]


class TestWarmEngine(RealEngineContract):
    """The contract, with a process of every kind started warm beside it."""

    shares_addresses = False

    @pytest.fixture
    def engine(self) -> Iterator[NetnsEngine]:
        engine = NetnsEngine(WarmStarter())
        yield engine
        engine.close()

    @staticmethod
    def up(engine: Engine, run: RunTag, plan: Plan) -> Mapping[str, Snapshot]:
        plan = replace(plan, preload=("json", "decimal"), processes=(python(),))
        prepared = engine.prepare(plan, run, lambda _: None)
        return engine.realise(plan, run, prepared, lambda _: None, DEADLINE)

    def test_modules_are_there_already(self, engine: Engine, run: RunTag) -> None:
        self.made(engine, run)
        warm, cold = both(engine, run, "import sys; print('decimal' in sys.modules)")
        assert (warm, cold) == ("True\n", "False\n")

    @pytest.mark.parametrize("user", ["1000:1000", "0:0"])
    def test_a_process_is_what_it_would_be_cold(
        self, engine: Engine, run: RunTag, user: str
    ) -> None:
        self.made(engine, run)
        text = (
            "import os, re, resource, socket, sys\n"
            "print(os.getuid(), os.getgid(), os.getgroups(), os.getcwd(), sys.argv, sys.path)\n"
            "env = dict(os.environ)\n"
            "print(env.get('WORD'), sorted(env.items()), oct(os.umask(0)))\n"
            "print(sys.executable, sys.flags, sys.orig_argv, __file__, os.getppid())\n"
            "print(os.getpid() == os.getsid(0) == os.getpgid(0))\n"
            "print(sorted(os.listdir('/proc/self/fd')))\n"
            "spaces = ('cgroup', 'ipc', 'mnt', 'net', 'pid', 'pid_for_children', 'uts')\n"
            "print([os.readlink(f'/proc/self/ns/{name}') for name in spaces])\n"
            "print(open('/proc/self/cgroup').read(), sys.stdin.read() == '')\n"
            "status = open('/proc/self/status').read()\n"
            "print(re.findall('^(?:Cap.*|NoNewPrivs.*|Seccomp:.*|Sig...:.*)', status, re.M))\n"
            "print(open('/proc/self/uid_map').read(), open('/proc/self/gid_map').read())\n"
            "print(socket.gethostname(), [name for _, name in socket.if_nameindex()])\n"
            "print(resource.getrlimit(resource.RLIMIT_NOFILE), os.path.exists('/tmp/x'))\n"
            "open('/tmp/mine', 'a').close(); print(os.stat('/tmp/mine').st_uid)\n"
            "for path in ('/etc/mine', '/usr/mine', '/proc/sys/kernel/hostname'):\n"
            "  try: open(path, 'w').close()\n"
            "  except OSError as error: print(error)\n"
            "  else: raise SystemExit(path)\n"
        )
        plan = python("-u", FILE, "one", "two words", user=user, WORD="word")
        warm, cold = both(engine, run, text, plan)
        # A parent outside of the host is none.
        assert warm.replace(" 0\nTrue", " 1\nTrue", 1) == cold

    def test_output_goes_by_stream_and_the_status_comes_last(
        self, engine: Engine, run: RunTag
    ) -> None:
        self.made(engine, run)
        for host in ("a", "b"):
            text = f"import sys; print('out'); print('err', file=sys.stderr); sys.exit('{host}')"
            written(engine, run, text, host)
        listener = Listener()
        engine.start(run, [python(), python(host="b")], listener, DEADLINE)
        for host in ("a", "b"):
            key = ProcessKey(host, "p")
            assert listener.wait_exit(key) == 1
            assert listener.text(key) == "out\n"
            assert listener.text(key, "stderr") == f"err\n{host}\n"
        assert engine.cold_starts() == {}

    def test_a_module_and_a_command_of_a_shell(self, engine: Engine, run: RunTag) -> None:
        self.made(engine, run)
        written(engine, run, "import os; print(__name__, os.environ['A'])")
        listener = Listener()
        plan = shell("A='x y' exec python3 -m program".replace("exec python3", "python"))
        engine.start(run, [plan], listener, DEADLINE)
        assert listener.wait_exit(ProcessKey("a", "p")) == 0
        assert listener.text(ProcessKey("a", "p")) == "__main__ x y\n"
        assert engine.cold_starts() == {}

    def test_what_cannot_start_warm_starts_cold_and_why_is_told(
        self, engine: Engine, run: RunTag
    ) -> None:
        self.made(engine, run)
        written(engine, run, "import json; print(json.__file__)")
        listener = Listener()
        for name, plan in {
            "shell": shell("true; true"),
            "other": python(PYTHONHASHSEED="1"),
            "nowhere": python("/home/fedtest/nosuch.py"),
        }.items():
            engine.start(run, [replace(plan, name=name)], listener, DEADLINE)
            expected = 2 if name == "nowhere" else 0
            assert listener.wait_exit(ProcessKey("a", name)) == expected
        told = {key.process: why for key, why in engine.cold_starts().items()}
        assert told["shell"] == "the shell has more to do than to start one command"
        assert told["other"].startswith("PYTHONHASHSEED acts before the program runs")
        assert "nosuch.py cannot be run" in told["nowhere"]
        written(engine, run, "", path="/home/fedtest/json.py")
        engine.start(run, [python()], listener, DEADLINE)
        assert listener.wait_exit(ProcessKey("a", "p")) == 0
        assert listener.text(ProcessKey("a", "p")) == "/home/fedtest/json.py\n"
        assert "hides json" in engine.cold_starts()[ProcessKey("a", "p")]

    def test_a_signal_reaches_a_warm_process_and_its_descendants(
        self, engine: Engine, run: RunTag
    ) -> None:
        self.made(engine, run)
        written(
            engine, run,
            "import os, time\npid = os.fork()\nif pid: print(pid, flush=True)\ntime.sleep(60)",
        )  # fmt: skip
        listener = Listener()
        key = ProcessKey("a", "p")
        pids = engine.start(run, [python()], listener, DEADLINE)
        listener.wait("the child's id", lambda: "\n" in listener.text(key))
        child = listener.text(key).strip()
        engine.signal(run, pids, signal.SIGTERM)
        assert listener.wait_exit(key) == 128 + signal.SIGTERM
        gone = shell(f"while kill -0 {child} 2>/dev/null; do sleep 0.05; done", name="gone")
        engine.start(run, [gone], listener, DEADLINE)
        assert listener.wait_exit(ProcessKey("a", "gone")) == 0

    def test_the_sockets_of_a_warm_process_are_known_as_its(
        self, engine: Engine, run: RunTag
    ) -> None:
        self.made(engine, run)
        written(
            engine, run,
            "import socket, time; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()\n"
            "print(s.getsockname()[1], flush=True); time.sleep(60)",
        )  # fmt: skip
        listener = Listener()
        key = ProcessKey("a", "p")
        pids = engine.start(run, [python()], listener, DEADLINE)
        listener.wait("the port", lambda: "\n" in listener.text(key))
        sockets = engine.observe(run, ["a"], DEADLINE)["a"].sockets
        engine.signal(run, pids, signal.SIGKILL)
        found = [(item.state, item.local_port) for item in sockets if item.session == pids[key]]
        assert found == [("listen", int(listener.text(key)))]

    def test_what_a_warm_process_does_is_told_and_it_goes_on(
        self, engine: Engine, run: RunTag
    ) -> None:
        self.made(engine, run)
        text = "import time\ndef sleeps_for_long():\n    print('sleeps', flush=True)"
        written(engine, run, f"{text}\n    time.sleep(600)\nsleeps_for_long()")
        listener = Listener()
        key = ProcessKey("a", "p")
        pids = engine.start(run, [python()], listener, DEADLINE)
        listener.wait("its first line", lambda: "sleeps" in listener.text(key))
        told = engine.examine(run, {"a": Examination(stacks=True)}, DEADLINE)["a"].stacks
        assert f"process {pids[key]}, state S" in told
        assert "sleeps_for_long (program.py:4)" in told
        assert key not in listener.status
        engine.signal(run, pids, signal.SIGKILL)
        assert listener.wait_exit(key) == 128 + signal.SIGKILL
        assert engine.cold_starts() == {}

    def test_a_warm_process_ends_with_its_host_and_starts_again_in_the_next(
        self, engine: Engine, run: RunTag
    ) -> None:
        plan, _ = self.made(engine, run)
        text = "import os, time; print(os.uname().nodename, flush=True); time.sleep(60)"
        written(engine, run, text)
        written(engine, run, text, "b")
        key, other = ProcessKey("a", "p"), ProcessKey("b", "p")
        listener = Listener()
        engine.start(run, [python(), python(host="b")], listener, DEADLINE)
        listener.wait("first lines", lambda: listener.text(key) + listener.text(other) == "a\nb\n")
        engine.power(run, {"a": "off"}, DEADLINE)
        assert listener.wait_exit(key) == 128 + signal.SIGKILL
        assert other not in listener.status
        self.up(engine, run, plan)
        again = Listener()
        engine.start(run, [python()], again, DEADLINE)
        again.wait("its first line", lambda: again.text(key) == "a\n")
        engine.destroy(run.id, DEADLINE)
        assert again.wait_exit(key) == listener.wait_exit(other) == 128 + signal.SIGKILL
        assert engine.cold_starts() == {}

    def test_a_warm_process_stands_still_with_its_host(self, engine: Engine, run: RunTag) -> None:
        self.made(engine, run)
        written(
            engine, run,
            "import time\nfor _ in range(40): print(time.monotonic(), flush=True); time.sleep(.05)",
        )  # fmt: skip
        listener = Listener()
        key = ProcessKey("a", "p")
        engine.start(run, [python()], listener, DEADLINE)
        listener.wait("the first tick", lambda: "\n" in listener.text(key))
        engine.power(run, {"a": "paused"}, DEADLINE)
        said = listener.text(key)
        gate, _ = os.pipe()
        select.select([gate], [], [], 0.5)
        assert listener.text(key) == said
        engine.power(run, {"a": "on"}, DEADLINE)
        assert listener.wait_exit(key) == 0

    def test_a_directory_that_is_closed_to_its_user(self, engine: Engine, run: RunTag) -> None:
        self.made(engine, run)
        engine.condition(run, {"a": "mkdir -m 700 /tmp/closed"}, DEADLINE, inside=True)
        text = "import os; print(os.getcwd())"
        written(engine, run, text)
        listener = Listener()
        for home in ("/tmp/closed", "/nosuch"):
            engine.start(run, [python(HOME=home)], listener, DEADLINE)
            assert listener.wait_exit(ProcessKey("a", "p")) == 0
            listener.status.clear()

    def test_the_zygote_s_end_is_told_and_the_next_process_starts_cold(
        self, engine: Engine, run: RunTag
    ) -> None:
        self.made(engine, run)
        written(engine, run, "import sys; print('decimal' in sys.modules)")
        (zygote,) = zygotes(os.getpid())
        # Opened before: who waits for it may be quicker than we are.
        process = os.pidfd_open(zygote)
        signal.pidfd_send_signal(process, signal.SIGKILL)
        ends(process)
        listener = Listener()
        engine.start(run, [python()], listener, DEADLINE)
        assert listener.wait_exit(ProcessKey("a", "p")) == 0
        assert listener.text(ProcessKey("a", "p")) == "False\n"
        assert "ended" in engine.cold_starts()[ProcessKey("a", "p")]


def zygotes(parent: int) -> list[int]:
    """Those that this process started."""
    found = []
    for path in Path("/proc").glob(f"{parent}/task/*/children"):
        for pid in map(int, path.read_text(encoding="ascii").split()):
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            found += [pid] if words.startswith(b"fedtest-zygote") else []
    return found


def ends(process: int) -> None:
    """Waits for the end of the process that the descriptor stands for, and closes it."""
    assert select.select([process], [], [], DEADLINE)[0], "a process does not end"
    os.close(process)


SCENARIO = """
fedtest: 1
name: warm
deadline: 60s
preload: [decimal, nosuchmodule]
networks: {data: {}}
hosts:
  a: {nics: {data: eth0}, files: {/home/fedtest/p.py: {content: "PROGRAM"}}}
  b: {nics: {data: eth0}, files: {/home/fedtest/p.py: {content: "PROGRAM"}}}
groups: {all: {members: [a, b]}}
processes:
  p: {hosts: all, run: python p.py}
  q: {hosts: all, run: true; true}
checks:
  - exit: {process: p, code: 0}
"""
PROGRAM = "import sys; print('warm' if 'decimal' in sys.modules else 'cold', flush=True)"


@pytest.mark.parametrize("way", ["warm", "cold"])
def test_a_run_starts_warm_but_for_what_was_told(fedtest: CommandLine, way: str) -> None:
    name = fedtest.scenario("s", SCENARIO.replace("PROGRAM", PROGRAM))
    done = fedtest("run", name, *(["--cold"] if way == "cold" else []))
    assert done.code == 0, done.out
    logs = fedtest.runs / "latest" / "logs"
    assert {path.read_text() for path in logs.glob("*.p.log")} == {f"{way}\n"}
    lines = (fedtest.runs / "latest" / "events.jsonl").read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in lines]
    told = {item["process"] for item in events if item["kind"] == "started" and "cold" in item}
    if way == "warm":
        assert told == {"q"}
        assert "has imported decimal" in done.out
        assert "not imported ahead: nosuchmodule: it is not installed" in done.out
        assert "q on a, b starts cold: the shell has more to do" in done.out
    else:
        assert told == set()
        assert "imported" not in done.out


def test_nothing_is_left_of_a_run_that_was_killed(fedtest: CommandLine) -> None:
    program = f"{PROGRAM}; import time; time.sleep(600)"
    name = fedtest.scenario("s", SCENARIO.replace("PROGRAM", program))
    process = fedtest.start("run", name)
    assert process.stdout is not None
    for line in process.stdout:
        if "p| warm" in line:
            break
    else:
        pytest.fail("its processes did not start")
    (zygote,) = zygotes(process.pid)
    children = [
        int(pid)
        for pid in Path(f"/proc/{zygote}/task/{zygote}/children").read_text("ascii").split()
    ]
    assert len(children) == 2
    # Opened while they certainly run: the zygote ends with the run, and may be quicker than we are.
    watched = [os.pidfd_open(pid) for pid in (zygote, *children)]
    process.kill()
    fedtest.end(process)
    (run_id,) = fedtest.run_ids()
    other = NetnsEngine()
    assert other.destroy(run_id, DEADLINE) == 3
    other.close()
    for item in watched:
        ends(item)
    assert left_behind(run_id) == []
