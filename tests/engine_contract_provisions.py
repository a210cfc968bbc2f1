"""What every engine gives to hosts beside networks. One suite, for the fake and the real ones."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from engine_contract import DEADLINE, HOSTS, EngineContract, Listener, shell, two_networks
from fedtest.engine.base import ProcessKey, RunTag
from fedtest.engine.owner import Owner
from fedtest.engine.settings import sysctl_file
from fedtest.errors import NotAsPlanned, SubnetTaken
from fedtest.plan_provisions import FilePlan, LimitsPlan, MountPlan, TmpfsPlan
from fedtest.run.provisions import verify
from fedtest.run.readback import compare

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from fedtest.engine.base import Engine
    from fedtest.engine.snapshot import Snapshot
    from fedtest.plan import Plan

KEEPALIVE = ("net.ipv4.tcp_keepalive_time", "77")


class ProvisionsContract:
    """The behaviour; `engine` is the subclass's."""

    @pytest.fixture
    def run(self, engine: Engine) -> Iterator[RunTag]:
        tag = RunTag(secrets.token_hex(4), "contract", Owner.me())
        yield tag
        engine.destroy(tag.id, DEADLINE)

    @staticmethod
    def up(engine: Engine, run: RunTag, plan: Plan) -> Mapping[str, Snapshot]:
        return EngineContract.up(engine, run, plan)

    def given(
        self, engine: Engine, run: RunTag, **fields: Any
    ) -> tuple[Plan, Mapping[str, Snapshot]]:
        """Hosts a and b, the first with what it is given; read back."""
        while True:
            plan = two_networks(HOSTS)
            plan = replace(plan, hosts=(replace(plan.hosts[0], **fields), *plan.hosts[1:]))
            try:
                there = self.up(engine, run, plan)
            except SubnetTaken:
                engine.destroy(run.id, DEADLINE)
                continue
            compare(plan, there)
            verify(engine, run, plan, there, DEADLINE)
            return plan, there

    def said(self, engine: Engine, run: RunTag, script: str) -> str:
        """What a plain user's shell in host a prints."""
        listener = Listener()
        engine.start(run, [shell(script, name="said")], listener, DEADLINE)
        status = listener.wait_exit(ProcessKey("a", "said"))
        assert status == 0, listener.text(ProcessKey("a", "said"), "stderr")
        return listener.text(ProcessKey("a", "said"))

    def test_limits_and_settings_are_read_back(self, engine: Engine, run: RunTag) -> None:
        limits = LimitsPlan(0.5, 64_000_000, 100)
        _, there = self.given(engine, run, limits=limits, sysctls=(KEEPALIVE,))
        assert there["a"].settings[sysctl_file(KEEPALIVE[0])].strip() == KEEPALIVE[1]
        assert there["a"].oom_kills == 0
        assert sysctl_file(KEEPALIVE[0]) not in there["b"].settings

    def test_realising_again_reads_them_back_again(self, engine: Engine, run: RunTag) -> None:
        plan, _ = self.given(engine, run, limits=LimitsPlan(pids=100), sysctls=(KEEPALIVE,))
        verify(engine, run, plan, self.up(engine, run, plan), DEADLINE)

    def test_all_that_a_host_is_given_is_there_after_a_restart(
        self, engine: Engine, run: RunTag, tmp_path: Path
    ) -> None:
        plan, _ = self.given(
            engine,
            run,
            limits=LimitsPlan(memory=64_000_000),
            sysctls=(KEEPALIVE,),
            files=(FilePlan("/srv/x/y", "content", None, "0600", "1000:1000"),),
            mounts=(MountPlan("/mnt/live", str(tmp_path), write=False),),
            tmpfs=(TmpfsPlan("/scratch", 5_000_000),),
        )
        engine.power(run, {"a": "off"}, DEADLINE)
        verify(engine, run, plan, self.up(engine, run, plan), DEADLINE)

    def test_files_and_whole_directories_are_put_there(
        self, engine: Engine, run: RunTag, tmp_path: Path
    ) -> None:
        (tmp_path / "below" / "deep").mkdir(parents=True)
        (tmp_path / "below" / "deep" / "é ä.bin").write_bytes(bytes(range(256)) * 1000)
        (tmp_path / "tool").write_text("#!/bin/sh\n", encoding="utf-8")
        (tmp_path / "tool").chmod(0o755)
        files = (
            FilePlan("/etc/app/config.ini", "a = ü\n", None, "0640", "1000:1000"),
            FilePlan("/opt/tree", None, str(tmp_path), None, "0:0"),
            FilePlan("/opt/secret-tool", None, str(tmp_path / "tool"), "0700", "1000:0"),
            FilePlan("/opt/named", "x", None, "0644", "root"),
            FilePlan("/opt/empty", "", None, "0644", "7:8"),
        )
        self.given(engine, run, files=files)


class RealProvisionsContract(ProvisionsContract):
    """What needs a host that is really there; for every engine but the fake."""

    def test_processes_see_the_files(self, engine: Engine, run: RunTag) -> None:
        files = (FilePlan("/etc/app/config.ini", "a = ü\n", None, "0640", "1000:1000"),)
        self.given(engine, run, files=files)
        said = self.said(engine, run, "cat /etc/app/config.ini; stat -c %a:%u /etc/app/config.ini")
        assert said == "a = ü\n640:1000\n"

    def test_what_processes_made_of_the_files_outlives_a_restart(
        self, engine: Engine, run: RunTag
    ) -> None:
        files = tuple(
            FilePlan(f"/home/fedtest/{name}", "given\n", None, "0644", "1000:1000")
            for name in ("state", "spare", "untouched")
        )
        plan, _ = self.given(engine, run, files=files)
        self.said(engine, run, "echo mine > ~/state; rm ~/spare")
        engine.power(run, {"a": "off"}, DEADLINE)
        self.up(engine, run, plan)
        said = self.said(engine, run, "cd; ls s* u*; cat state untouched")
        assert said == "state\nuntouched\nmine\ngiven\n"

    def test_a_directory_of_this_machine_is_seen_as_it_changes(
        self, engine: Engine, run: RunTag, tmp_path: Path
    ) -> None:
        tmp_path.chmod(0o777)
        mounts = (
            MountPlan("/mnt/live", str(tmp_path), write=False),
            MountPlan("/mnt/out", str(tmp_path), write=True),
        )
        self.given(engine, run, mounts=mounts)
        (tmp_path / "later").write_text("here", encoding="utf-8")
        script = "cat /mnt/live/later; ! touch /mnt/live/x 2>/dev/null && echo back > /mnt/out/y"
        assert self.said(engine, run, script) == "here"
        assert (tmp_path / "y").read_text(encoding="utf-8") == "back\n"

    def test_a_directory_that_the_engine_does_not_see_is_refused_and_not_made(
        self, engine: Engine, run: RunTag, tmp_path: Path
    ) -> None:
        missing = tmp_path / "missing"
        with pytest.raises(NotAsPlanned, match="does not see") as caught:
            self.given(engine, run, mounts=(MountPlan("/mnt/x", str(missing), write=False),))
        assert "files" in caught.value.remedy
        assert not missing.exists()

    def test_a_small_file_system_is_everybodys_and_fills_up(
        self, engine: Engine, run: RunTag
    ) -> None:
        self.given(engine, run, tmpfs=(TmpfsPlan("/scratch", 2_000_000),))
        script = "head -c 1900000 /dev/zero > /scratch/a && ! head -c 200000 /dev/zero > /scratch/b"
        self.said(engine, run, f"{script} 2>/dev/null")

    def test_a_setting_is_the_hosts_alone(self, engine: Engine, run: RunTag) -> None:
        self.given(engine, run, sysctls=(KEEPALIVE, ("kernel.shmmni", "128")))
        names = "/proc/sys/net/ipv4/tcp_keepalive_time /proc/sys/kernel/shmmni"
        assert self.said(engine, run, f"cat {names}") == "77\n128\n"

    @pytest.mark.parametrize(
        ("name", "value", "why"),
        [
            ("net.ipv4.no_such_thing", "1", "does not have it"),
            ("net.ipv4.tcp_keepalive_time", "soon", "does not take 'soon'"),
        ],
    )
    def test_a_setting_that_cannot_be_made_is_told_by_name(
        self, engine: Engine, run: RunTag, name: str, value: str, why: str
    ) -> None:
        with pytest.raises(NotAsPlanned, match=f"host a: sysctl {name}: .*{why}"):
            self.given(engine, run, sysctls=((name, value),))

    def test_an_owner_that_the_image_does_not_know_is_told_by_name(
        self, engine: Engine, run: RunTag
    ) -> None:
        with pytest.raises(NotAsPlanned, match="no user is called nosuch"):
            self.given(engine, run, files=(FilePlan("/x", "x", None, "0644", "nosuch"),))

    def test_more_processors_than_there_are_is_no_limit(self, engine: Engine, run: RunTag) -> None:
        with pytest.raises(NotAsPlanned, match="host a: cpus: "):
            self.given(engine, run, limits=LimitsPlan(cpus=1000))

    def test_a_process_that_takes_more_memory_is_killed_and_counted(
        self, engine: Engine, run: RunTag
    ) -> None:
        self.given(engine, run, limits=LimitsPlan(memory=64_000_000))
        listener = Listener()
        engine.start(run, [shell("exec python3 -c 'bytearray(200_000_000)'")], listener, DEADLINE)
        assert listener.wait_exit(ProcessKey("a", "p")) == 137
        assert (engine.observe(run, ["a"], DEADLINE)["a"].oom_kills or 0) >= 1
        assert engine.observe(run, ["b"], DEADLINE)["b"].oom_kills == 0

    def test_no_more_processes_than_the_limit(self, engine: Engine, run: RunTag) -> None:
        self.given(engine, run, limits=LimitsPlan(pids=32))
        script = (
            "import subprocess, sys\n"
            "some = []\n"
            "try:\n"
            "  while len(some) < 100: some.append(subprocess.Popen(['sleep', '60']))\n"
            "except OSError: pass\n"
            "print(len(some))\n"
            "[one.kill() for one in some]\n"
        )
        made = int(self.said(engine, run, f'exec python3 -c "{script}"'))
        assert 10 < made < 32
