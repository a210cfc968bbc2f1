"""What every engine must hold to. One suite, run on the fake and on each real engine.

A subclass gives the fixture `engine`; what a test makes is destroyed after it.
"""

from __future__ import annotations

import hashlib
import secrets
import signal
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine_plans import DEADLINE, HOSTS, Listener, shell, two_networks
from fedtest.engine.base import Engine, ProcessKey, RunTag
from fedtest.engine.examine import Examination
from fedtest.engine.owner import Owner
from fedtest.errors import EngineError, SubnetTaken
from fedtest.plan import Plan, ProcessPlan
from fedtest.run.readback import compare, compare_again

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fedtest.engine.snapshot import Snapshot

__all__ = ["DEADLINE", "HOSTS", "EngineContract", "Listener", "RealEngineContract", "shell",
           "two_networks"]  # fmt: skip


class EngineContract:
    """The behaviour; `engine` is the subclass's."""

    shares_addresses = True
    """Whether runs have one range of addresses between them, so that a subnet can be taken."""

    @pytest.fixture
    def run(self, engine: Engine) -> Iterator[RunTag]:
        tag = RunTag(secrets.token_hex(4), "contract", Owner.me())
        yield tag
        engine.destroy(tag.id, DEADLINE)

    @staticmethod
    def up(engine: Engine, run: RunTag, plan: Plan) -> Mapping[str, Snapshot]:
        prepared = engine.prepare(plan, run, lambda _: None)
        return engine.realise(plan, run, prepared, lambda _: None, DEADLINE)

    def made(
        self, engine: Engine, run: RunTag, names: Mapping[str, tuple[str, str]] = HOSTS
    ) -> tuple[Plan, Mapping[str, Snapshot]]:
        """Two hosts, on subnets that no other test holds just now."""
        while True:
            plan = two_networks(names)
            try:
                return plan, self.up(engine, run, plan)
            except SubnetTaken:
                engine.destroy(run.id, DEADLINE)

    def test_every_interface_is_named_and_addressed_as_planned(
        self, engine: Engine, run: RunTag
    ) -> None:
        plan, snapshots = self.made(engine, run)
        compare(plan, snapshots)
        assert {"eth0", "enps1"} <= set(snapshots["a"].interfaces)

    def test_names_that_engines_give_in_another_order_can_be_asked_for(
        self, engine: Engine, run: RunTag
    ) -> None:
        compare(*self.made(engine, run, {"a": ("eth1", "eth0"), "b": ("eth0", "eth1")}))

    def test_realising_again_changes_nothing(self, engine: Engine, run: RunTag) -> None:
        plan, first = self.made(engine, run)
        again = self.up(engine, run, plan)
        compare(plan, again)
        assert {host: one.boot for host, one in first.items()} == {
            host: one.boot for host, one in again.items()
        }

    def test_a_host_that_was_restarted_gets_its_names_back(
        self, engine: Engine, run: RunTag
    ) -> None:
        plan, before = self.made(engine, run)
        engine.power(run, {"a": "off"}, DEADLINE)
        again = self.up(engine, run, plan)
        compare(plan, again)
        assert again["a"].born != before["a"].born
        compare_again(plan, again, engine.observe(run, ["a", "b"], DEADLINE))

    def test_a_restart_ends_the_hosts_processes_and_no_others(
        self, engine: Engine, run: RunTag
    ) -> None:
        self.made(engine, run)
        listener = Listener()
        on_a, on_b = shell("sleep 60", "a"), shell("sleep 60", "b")
        pids = engine.start(run, [on_a, on_b], listener, DEADLINE)
        engine.power(run, {"a": "off"}, DEADLINE)
        assert listener.wait_exit(ProcessKey("a", "p")) == 128 + signal.SIGKILL
        assert ProcessKey("b", "p") not in listener.status
        engine.signal(run, {ProcessKey("b", "p"): pids[ProcessKey("b", "p")]}, signal.SIGKILL)
        assert listener.wait_exit(ProcessKey("b", "p")) == 128 + signal.SIGKILL

    def test_a_host_that_is_paused_stands_still_and_then_goes_on(
        self, engine: Engine, run: RunTag
    ) -> None:
        self.made(engine, run)
        listener = Listener()
        key = ProcessKey("a", "p")
        tick = "read -r now _ < /proc/uptime; echo $now; sleep 0.05; i=$((i+1))"
        ticks = shell(f"i=0; while [ $i -lt 40 ]; do {tick}; done")
        engine.start(run, [ticks], listener, DEADLINE)
        listener.wait("the first tick", lambda: "\n" in listener.text(key))
        for wanted in ("paused", "paused"):  # Saying it twice is no error.
            engine.power(run, {"a": wanted}, DEADLINE)
        assert key not in listener.status
        held = time.monotonic() + 1.0
        while time.monotonic() < held:
            assert key not in listener.status
        engine.power(run, {"a": "on", "b": "on"}, DEADLINE)
        assert listener.wait_exit(key) == 0
        times = [float(line) for line in listener.text(key).split()]
        assert max(after - before for before, after in pairwise(times)) >= 0.9

    def test_a_host_that_is_off_cannot_be_paused_or_let_go_on(
        self, engine: Engine, run: RunTag
    ) -> None:
        self.made(engine, run)
        engine.power(run, {"a": "paused"}, DEADLINE)
        for wanted in ("off", "off"):
            engine.power(run, {"a": wanted}, DEADLINE)
        for wrong in ("paused", "on"):
            with pytest.raises(EngineError, match=r"host a"):
                engine.power(run, {"a": wrong}, DEADLINE)

    def test_observe_tells_the_same_as_realise(self, engine: Engine, run: RunTag) -> None:
        plan, before = self.made(engine, run)
        after = engine.observe(run, ["a", "b"], DEADLINE)
        compare(plan, after)
        compare_again(plan, before, after)

    def test_output_comes_by_stream_and_the_status_last(self, engine: Engine, run: RunTag) -> None:
        self.made(engine, run)
        listener = Listener()
        key = ProcessKey("a", "p")
        plan = shell('echo "out $WORD"; echo err >&2; exit 7', WORD="word")
        engine.start(run, [plan], listener, DEADLINE)
        assert listener.wait_exit(key) == 7
        assert listener.text(key) == "out word\n"
        assert listener.text(key, "stderr") == "err\n"

    def test_output_is_binary_and_whole(self, engine: Engine, run: RunTag) -> None:
        self.made(engine, run)
        listener = Listener()
        key = ProcessKey("a", "p")
        engine.start(run, [shell("head -c 3000000 /dev/zero; printf '\\377'")], listener, DEADLINE)
        assert listener.wait_exit(key) == 0
        assert listener.streams[key, "stdout"] == bytes(3_000_000) + b"\xff"

    def test_a_command_that_is_not_there_ends_with_127(self, engine: Engine, run: RunTag) -> None:
        self.made(engine, run)
        listener = Listener()
        plan = ProcessPlan("p", "a", ("/nosuch",), (), "1000:1000", None)
        engine.start(run, [plan], listener, DEADLINE)
        assert listener.wait_exit(ProcessKey("a", "p")) == 127
        assert "/nosuch" in listener.text(ProcessKey("a", "p"), "stderr")

    def test_a_signal_reaches_the_process_and_its_descendants(
        self, engine: Engine, run: RunTag
    ) -> None:
        self.made(engine, run)
        listener = Listener()
        key = ProcessKey("a", "p")
        pids = engine.start(run, [shell("sleep 60 & echo $!; wait")], listener, DEADLINE)
        listener.wait("the child's id", lambda: "\n" in listener.text(key))
        assert set(engine.signal(run, pids, signal.SIGTERM)) == {key}
        assert listener.wait_exit(key) == 128 + signal.SIGTERM
        child = int(listener.text(key))
        gone = shell(f"while kill -0 {child}; do sleep 0.05; done", name="gone")
        engine.start(run, [gone], listener, DEADLINE)
        assert listener.wait_exit(ProcessKey("a", "gone")) == 0

    def test_a_signal_to_what_has_ended_is_no_error(self, engine: Engine, run: RunTag) -> None:
        self.made(engine, run)
        listener = Listener()
        pids = engine.start(run, [shell("exit 0")], listener, DEADLINE)
        listener.wait_exit(ProcessKey("a", "p"))
        assert not engine.signal(run, pids, signal.SIGTERM)

    def test_the_sockets_of_a_plain_users_process_are_known_as_its(
        self, engine: Engine, run: RunTag
    ) -> None:
        self.made(engine, run)
        listener = Listener()
        key = ProcessKey("a", "p")
        script = (
            "import socket, time; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen();"
            "print(s.getsockname()[1], flush=True); time.sleep(60)"
        )
        pids = engine.start(run, [shell(f'exec python3 -c "{script}"')], listener, DEADLINE)
        listener.wait("the port", lambda: "\n" in listener.text(key))
        port = int(listener.text(key))
        sockets = engine.observe(run, ["a"], DEADLINE)["a"].sockets
        engine.signal(run, pids, signal.SIGKILL)
        assert [item.state for item in sockets if item.session == pids[key]] == ["listen"]
        assert [item.local_port for item in sockets if item.session == pids[key]] == [port]

    def test_a_child_left_behind_does_not_hide_the_end(self, engine: Engine, run: RunTag) -> None:
        self.made(engine, run)
        listener = Listener()
        engine.start(run, [shell("sleep 20 & exit 3")], listener, DEADLINE)
        assert listener.wait_exit(ProcessKey("a", "p")) == 3

    def test_files_of_a_host_are_looked_at_from_beside_it(
        self, engine: Engine, run: RunTag
    ) -> None:
        self.made(engine, run)
        listener = Listener()
        name = f"/tmp/fedtest-{run.id}"
        script = (
            f"printf hello > {name}; chmod 600 {name}; ln -s {name} {name}.link; mkfifo {name}.p"
        )
        engine.start(run, [shell(script)], listener, DEADLINE)
        assert listener.wait_exit(ProcessKey("a", "p")) == 0
        paths = (name, f"{name}.link", f"{name}.p", f"{name}.nosuch", "/tmp")
        try:
            found = engine.examine(run, {"a": Examination(files=paths)}, DEADLINE)["a"].files
        finally:
            engine.start(run, [shell(f"rm -f {name}*", name="rm")], listener, DEADLINE)
            listener.wait_exit(ProcessKey("a", "rm"))
        assert [found[path].kind for path in paths] == ["file", "file", "other", None, "directory"]
        assert (found[name].size, found[f"{name}.link"].content) == (5, b"hello")
        assert found[name].sha256 == hashlib.sha256(b"hello").hexdigest()

    def test_what_a_python_process_does_is_told_and_it_goes_on(
        self, engine: Engine, run: RunTag
    ) -> None:
        self.made(engine, run)
        listener = Listener()
        key = ProcessKey("a", "p")
        script = (
            "import socket\ndef waits_for_ever():\n one, two = socket.socketpair()\n"
            " print('waits', flush=True)\n two.recv(1)\nwaits_for_ever()"
        )
        plan = ProcessPlan("p", "a", ("python3", "-c", script), (), "1000:1000", None)
        pids = engine.start(run, [plan], listener, DEADLINE)
        listener.wait("its first line", lambda: "waits" in listener.text(key))
        told = engine.examine(run, {"a": Examination(stacks=True)}, DEADLINE)["a"].stacks
        assert f"process {pids[key]}, state S" in told
        assert "waits_for_ever (<string>:5)" in told
        assert key not in listener.status
        engine.signal(run, pids, signal.SIGKILL)
        assert listener.wait_exit(key) == 128 + signal.SIGKILL

    def test_a_restarted_host_can_be_looked_at_again(self, engine: Engine, run: RunTag) -> None:
        plan, _ = self.made(engine, run)
        wanted = {"a": Examination(files=("/etc/hostname",))}
        engine.examine(run, wanted, DEADLINE)
        engine.power(run, {"a": "off"}, DEADLINE)
        self.up(engine, run, plan)
        assert engine.examine(run, wanted, DEADLINE)["a"].files["/etc/hostname"].kind == "file"

    def test_a_host_that_is_not_there_is_an_error(self, engine: Engine, run: RunTag) -> None:
        self.made(engine, run)
        with pytest.raises(EngineError, match="nosuch"):
            engine.observe(run, ["nosuch"], DEADLINE)
        with pytest.raises(EngineError, match="nosuch"):
            engine.examine(run, {"nosuch": Examination()}, DEADLINE)

    def test_a_script_for_the_network_of_a_host_that_is_not_there_is_an_error(
        self, engine: Engine, run: RunTag
    ) -> None:
        self.made(engine, run)
        with pytest.raises(EngineError, match="nosuch"):
            engine.condition(run, {"nosuch": "true"}, DEADLINE)

    def test_destroy_removes_all_of_a_run_and_can_be_repeated(
        self, engine: Engine, run: RunTag
    ) -> None:
        self.made(engine, run)
        assert engine.destroy(run.id, DEADLINE) == 4
        assert engine.destroy(run.id, DEADLINE) == 0
        with pytest.raises(EngineError):
            engine.observe(run, ["a"], DEADLINE)

    def test_destroy_leaves_other_runs_alone(self, engine: Engine, run: RunTag) -> None:
        other = RunTag(secrets.token_hex(4), "contract", Owner.me())
        plan, _ = self.made(engine, run)
        try:
            self.made(engine, other)
        finally:
            engine.destroy(other.id, DEADLINE)
        compare(plan, engine.observe(run, ["a", "b"], DEADLINE))

    def test_a_subnet_of_another_run_is_refused(self, engine: Engine, run: RunTag) -> None:
        other = RunTag(secrets.token_hex(4), "contract", Owner.me())
        plan, _ = self.made(engine, run)
        if not self.shares_addresses:
            try:
                compare(plan, self.up(engine, other, plan))
            finally:
                engine.destroy(other.id, DEADLINE)
            return
        with pytest.raises(SubnetTaken) as caught:
            self.up(engine, other, plan)
        assert caught.value.subnet in {network.subnet for network in plan.networks}
        assert engine.destroy(other.id, DEADLINE) <= len(plan.networks)


class RealEngineContract(EngineContract):
    """What needs a network namespace that a kernel keeps; for every engine but the fake."""

    def test_a_script_for_a_hosts_network_takes_effect_there_and_nowhere_else(
        self, engine: Engine, run: RunTag
    ) -> None:
        self.made(engine, run)
        scripts = {"a": "ip link set dev enps1 mtu 1400 && echo done", "b": "true"}
        told = engine.condition(run, scripts, DEADLINE)
        assert told == {"a": "done\n", "b": ""}
        seen = engine.observe(run, ["a", "b"], DEADLINE)
        assert seen["a"].interfaces["enps1"].mtu == 1400
        assert {item.mtu for item in seen["b"].interfaces.values() if item.name != "lo"} == {1500}

    def test_a_script_never_runs_in_the_machines_own_network(
        self, engine: Engine, run: RunTag
    ) -> None:
        self.made(engine, run)
        told = engine.condition(run, {"a": "readlink /proc/self/ns/net"}, DEADLINE)
        assert told["a"].strip() != str(Path("/proc/self/ns/net").readlink())

    def test_iproute2_iptables_and_python_are_at_hand_for_a_script(
        self, engine: Engine, run: RunTag
    ) -> None:
        self.made(engine, run)
        script = "tc qdisc show >/dev/null && iptables -S && python3 -c 'print(6 * 7)'"
        assert engine.condition(run, {"a": script}, DEADLINE)["a"].endswith("42\n")

    def test_a_script_that_fails_is_an_error_with_its_words(
        self, engine: Engine, run: RunTag
    ) -> None:
        self.made(engine, run)
        with pytest.raises(EngineError, match=r"host a: no such thing"):
            engine.condition(run, {"a": "echo no such thing >&2; exit 3"}, DEADLINE)

    def test_a_script_inside_a_host_changes_its_files(self, engine: Engine, run: RunTag) -> None:
        self.made(engine, run)
        change = "echo 10.9.8.7 elsewhere >> /etc/hosts; hostname"
        told = engine.condition(run, {"a": change, "b": "hostname"}, DEADLINE, inside=True)
        assert told == {"a": "a\n", "b": "b\n"}
        after = engine.observe(run, ["a", "b"], DEADLINE)
        assert [host for host in after if "elsewhere" in after[host].hosts_file] == ["a"]
        failing = {"a": "echo no such thing >&2; exit 3"}
        with pytest.raises(EngineError, match=r"host a.*no such thing"):
            engine.condition(run, failing, DEADLINE, inside=True)

    def test_what_a_script_leaves_running_outlives_it_and_not_its_host(
        self, engine: Engine, run: RunTag
    ) -> None:
        plan, _ = self.made(engine, run)
        left = "sleep 600 </dev/null >/dev/null 2>&1 & echo $!"
        pid = engine.condition(run, {"a": left}, DEADLINE)["a"].strip()
        alive = f"kill -0 {pid} && echo yes || echo no"
        assert engine.condition(run, {"a": alive}, DEADLINE)["a"] == "yes\n"
        engine.power(run, {"a": "off"}, DEADLINE)
        self.up(engine, run, plan)
        assert engine.condition(run, {"a": alive}, DEADLINE)["a"] == "no\n"

    def test_a_script_reaches_the_network_of_a_host_that_was_restarted(
        self, engine: Engine, run: RunTag
    ) -> None:
        plan, _ = self.made(engine, run)
        engine.condition(run, {"a": "ip link set dev enps1 mtu 1300"}, DEADLINE)
        engine.power(run, {"a": "off"}, DEADLINE)
        self.up(engine, run, plan)
        engine.condition(run, {"a": "ip link set dev enps1 mtu 1400"}, DEADLINE)
        assert engine.observe(run, ["a"], DEADLINE)["a"].interfaces["enps1"].mtu == 1400

    def test_what_was_made_for_scripts_is_removed_with_the_run(
        self, engine: Engine, run: RunTag
    ) -> None:
        self.made(engine, run)
        engine.condition(run, {"a": "true"}, DEADLINE)
        assert engine.destroy(run.id, DEADLINE) >= 4
        assert engine.destroy(run.id, DEADLINE) == 0
