"""Hosts without Docker: apart from each other and from the machine, and gone without a trace."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from node_python import node

import plain_user
from engine_contract import DEADLINE, HOSTS, Listener, shell, two_networks
from fedtest.engine.base import ProcessKey
from fedtest.engine.netns import limits, state
from fedtest.engine.netns.engine import NetnsEngine
from fedtest.errors import DeadlineError
from fedtest.plan_provisions import MountPlan

if TYPE_CHECKING:
    from conftest import CommandLine

    from fedtest.engine.base import Engine, RunTag

pytestmark = pytest.mark.netns

BRIDGES = Path("/proc/sys/net/bridge")


def up(engine: Engine, run: RunTag) -> None:
    plan = two_networks(HOSTS)
    engine.realise(plan, run, engine.prepare(plan, run, print), print, DEADLINE)


def said(engine: Engine, run: RunTag, script: str, host: str = "a", user: str = "") -> str:
    plan = shell(script, host)
    if user:
        plan = type(plan)(plan.name, plan.host, plan.argv, plan.env, user, None)
    listener = Listener()
    engine.start(run, [plan], listener, DEADLINE)
    assert listener.wait_exit(ProcessKey(host, "p")) == 0, listener.text(
        ProcessKey(host, "p"), "stderr"
    )
    return listener.text(ProcessKey(host, "p"))


def test_every_namespace_is_the_hosts_own(engine: Engine, run: RunTag) -> None:
    up(engine, run)
    script = "for n in net mnt uts pid ipc; do readlink /proc/self/ns/$n; done"
    told = [said(engine, run, script, host).split() for host in ("a", "b")]
    own = Path("/proc/self/ns")
    machine = [str((own / name).readlink()) for name in ("net", "mnt", "uts", "pid", "ipc")]
    for one, other, here in zip(*told, machine, strict=True):
        assert len({one, other, here}) == 3


def test_a_host_has_its_own_files_where_the_scenario_writes_and_no_others(
    engine: Engine, run: RunTag, tmp_path: Path
) -> None:
    (tmp_path / "of the machine").touch()
    up(engine, run)
    for place in ("/tmp", "/var/tmp", "/dev/shm", "~"):
        said(engine, run, f"echo mine > {place}/file")
        said(engine, run, f"test ! -e {place}/file", "b")
    for place in ("/", "/etc", "/usr/bin", "/var/lib", "/sys", "/proc/sys/kernel"):
        for user in ("1000:1000", "0:0"):
            said(engine, run, f"! touch {place}/fedtest-was-here 2>/dev/null", user=user)
        assert not Path(place, "fedtest-was-here").exists()
    said(engine, run, "touch /home/fedtest-was-here /root/fedtest-was-here", user="0:0")
    assert not [place for place in ("/home", "/root") if Path(place, "fedtest-was-here").exists()]
    said(engine, run, f"test ! -e '{tmp_path}/of the machine'")
    assert said(engine, run, "ps -e -o pid= | wc -l; hostname; id -u").split()[1:] == ["a", "1000"]


def test_the_users_python_works_and_is_the_one_that_runs_fedtest_or_was_asked_for(
    engine: Engine, run: RunTag
) -> None:
    up(engine, run)
    more = "pydantic, " if node().own else ""
    script = f"python3 -c 'import sys, {more}fedtest; print(sys.executable, fedtest.__file__)'"
    executable, package = said(engine, run, script).split()
    assert Path(executable).parent == Path(node().executable).parent
    assert Path(package).is_file()


def test_what_root_makes_in_a_host_is_no_device(
    engine: Engine, run: RunTag, tmp_path: Path
) -> None:
    plan = two_networks(HOSTS)
    host = replace(plan.hosts[0], mounts=(MountPlan("/mnt/out", str(tmp_path), write=True),))
    plan = replace(plan, hosts=(host, *plan.hosts[1:]))
    engine.realise(plan, run, engine.prepare(plan, run, print), print, DEADLINE)
    for place in ("/dev", "/dev/shm", "/tmp", "/root", "/run", "/mnt/out"):
        # It would be /dev/zero.
        made = f"mknod {place}/made c 1 5; head -c 1 {place}/made | wc -c"
        assert said(engine, run, made, user="0:0").strip() == "0"
    assert said(engine, run, "head -c 1 /dev/zero | wc -c", user="0:0").strip() == "1"


def test_a_script_that_nobody_waits_for_any_more_is_ended(engine: Engine, run: RunTag) -> None:
    up(engine, run)
    script = "echo $$ > /tmp/pid; sleep 600; true"
    for inside in (True, False):
        with pytest.raises(DeadlineError):
            engine.condition(run, {"a": script}, 3.0, inside=inside)
        gone = "pid=$(cat /tmp/pid) && while kill -0 $pid; do :; done 2>/dev/null"
        engine.condition(run, {"a": gone}, DEADLINE, inside=inside)


def test_nothing_is_added_to_the_machines_own_namespaces(engine: Engine, run: RunTag) -> None:
    def machine() -> tuple[object, ...]:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
        rules = subprocess.run(["iptables-save"], capture_output=True, text=True, check=False)
        return (
            # Others may make and remove what is theirs meanwhile.
            [line for line in mounts if "fedtest" in line],
            [path.name for path in Path("/sys/class/net").iterdir()
             if re.fullmatch(r"(br|p)\d+|eth[1-9]|enps1|mgmt0", path.name)],
            [line for line in rules.stdout.splitlines() if "fedtest" in line],
        )  # fmt: skip

    before = machine()
    up(engine, run)
    engine.condition(run, {"a": "iptables -A INPUT -j ACCEPT", "b": "true"}, DEADLINE)
    assert machine() == before
    engine.destroy(run.id, DEADLINE)
    assert machine() == before


def test_what_a_host_wrote_outlives_its_restart_but_not_what_was_in_memory(
    engine: Engine, run: RunTag
) -> None:
    plan = two_networks(HOSTS)
    prepared = engine.prepare(plan, run, print)
    engine.realise(plan, run, prepared, print, DEADLINE)
    said(engine, run, "echo saved > ~/checkpoint; echo lost > /dev/shm/buffer")
    engine.power(run, {"a": "off"}, DEADLINE)
    engine.realise(plan, run, prepared, print, DEADLINE)
    assert said(engine, run, "cat ~/checkpoint; ls /dev/shm") == "saved\n"


def test_another_process_with_the_same_tag_sees_the_same_hosts(engine: Engine, run: RunTag) -> None:
    up(engine, run)
    other = NetnsEngine()
    try:
        assert said(other, run, "hostname", "b") == "b\n"
        other.power(run, {"a": "paused"}, DEADLINE)
        engine.power(run, {"a": "on"}, DEADLINE)
        assert other.destroy(run.id, DEADLINE) == 4
    finally:
        other.close()
    assert engine.destroy(run.id, DEADLINE) == 0


def test_a_way_out_is_refused_with_the_engine_that_has_one(fedtest: CommandLine) -> None:
    text = (
        "fedtest: 1\nname: out\nnetworks: {lan: {internal: false}}\n"
        "hosts: {a: {nics: {lan: eth0}}}\nprocesses: {p: {hosts: [a], run: 'true'}}\n"
    )
    done = fedtest("run", fedtest.scenario("out", text))
    assert done.code == 3
    assert "--engine docker" in done.out


def test_many_hosts_are_told_of_each_other_and_few_find_each_other(fedtest: CommandLine) -> None:
    """The kernel's own table of neighbours has one limit for the whole machine."""
    many = "\n".join(f"  h{n}: {{nics: {{wide: eth0, {'narrow: eth1' if n < 2 else ''}}}}}"
                     for n in range(17))  # fmt: skip
    text = f"""
fedtest: 1
name: many
networks: {{wide: {{}}, narrow: {{}}}}
resolve: wide
hosts:
{many}
processes:
  p:
    hosts: [h0, h1]
    run: >-
      ip neigh show dev eth0 | grep -c 02:42:.*extern_learn; ip neigh show dev eth1 | wc -l;
      python -m fedtest.probe.echo -W 5 h16 && ip neigh show dev eth0 | grep -c .
checks:
  - exit: {{process: p, code: 0}}
  - log: {{process: p, match: "^16$"}}
  - log: {{process: p, match: "^0$"}}
"""
    done = fedtest("run", fedtest.scenario("many", text))
    assert done.code == 0, done.out
    logs = fedtest.runs / "latest" / "logs"
    for name in ("h0", "h1"):
        said = (logs / f"{name}.p.log").read_text(encoding="utf-8").splitlines()
        assert (said[0], said[1], said[-1]) == ("16", "0", "16")


def test_more_hosts_than_there_may_be_files_open_at_first(fedtest: CommandLine) -> None:
    """The runner allows itself more, and its hosts' processes have what it was started with."""
    names = [f"h{number}" for number in range(20)]
    hosts = "\n".join(f"  {name}: {{nics: {{lan: eth0}}}}" for name in names)
    text = f"""
fedtest: 1
name: files
preload: [resource]
networks: {{lan: {{}}}}
hosts:
{hosts}
processes:
  cold: {{hosts: [{", ".join(names)}], run: ulimit -Sn; sleep 2}}
  warm: {{hosts: [h0], run: python ~/p.py}}
groups: {{all: {{members: [h0, h1]}}}}
checks:
  - exit: {{process: cold, code: 0}}
  - exit: {{process: warm, code: 0}}
  - log: {{process: cold, match: "^64$"}}
  - log: {{process: warm, match: "^64$"}}
"""
    program = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    given = f"{{nics: {{lan: eth0}}, files: {{/home/fedtest/p.py: {{content: '{program}'}}}}}}"
    text = text.replace("h0: {nics: {lan: eth0}}", f"h0: {given}").replace("~/p.py", "p.py")
    run = fedtest.start(
        "run", fedtest.scenario("files", text), before=("prlimit", "--nofile=64:4096")
    )
    done = fedtest.end(run)
    assert done.code == 0, done.out + done.err


def test_the_end_of_a_run_is_the_end_of_all_its_processes(engine: Engine, run: RunTag) -> None:
    up(engine, run)
    engine.start(run, [shell(f": {run.id}; sleep 600 & setsid sleep 600")], Listener(), DEADLINE)
    engine.condition(run, {"b": f": {run.id}; sleep 600 >/dev/null 2>&1 &"}, DEADLINE)
    keeper = state._keeper(state.RunPlace(run.id).path)
    assert keeper is not None
    assert len(below(keeper.pid)) >= 6
    pids = below(keeper.pid)
    engine.destroy(run.id, DEADLINE)
    assert [pid for pid in pids if alive(pid)] == []
    assert limits.tops(run.id) == []


def test_no_packet_filter_looks_at_what_bridges_carry(engine: Engine, run: RunTag) -> None:
    """Nor is the machine's own setting another: some rely on it."""
    if not BRIDGES.exists():
        pytest.skip("this kernel has no packet filter for bridges, or did not load it")
    machines = {path.name: path.read_text(encoding="ascii") for path in BRIDGES.iterdir()}
    up(engine, run)
    keeper = state._keeper(state.RunPlace(run.id).path)
    assert keeper is not None
    names = [f"{BRIDGES}/bridge-nf-call-{what}tables" for what in ("ip", "ip6", "arp")]
    command = ["nsenter", f"--net=/proc/{keeper.pid}/ns/net", "cat", *names]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.split() == ["0", "0", "0"]
    after = {path.name: path.read_text(encoding="ascii") for path in BRIDGES.iterdir()}
    assert after == machines


def below(keeper: int) -> list[int]:
    """It and its descendants."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            text = path.read_text(encoding="utf-8", errors="replace")
            parents[int(path.parent.name)] = int(text.rpartition(")")[2].split()[1])
    found = [keeper]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def alive(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_a_plain_user_keeps_to_the_contract_too() -> None:
    """By a user namespace: the same suite, run as a user who has no rights at all."""
    here = Path(__file__).parent
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
             "--rootdir", str(here.parents[1]), "-c", str(here.parents[1] / "pyproject.toml"),
             str(here / "test_engine_netns.py")]  # fmt: skip
    # Not pytest's own directory: that is closed to others, by every session anew.
    with tempfile.TemporaryDirectory() as home:
        done = plain_user.run(words, Path(home))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout
