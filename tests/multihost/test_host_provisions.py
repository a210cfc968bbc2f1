"""What hosts are given, by scenario: it is there, and it is noticed when it is not."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from conftest import CommandLine, left_behind

from fedtest.engine.docker import labels
from fedtest.engine.docker.client import DockerClient

SECRET = 's3cret "pä$$" word'

GIVEN = """
fedtest: 1
name: given
networks: {net: {}}
env: {WHO: "${{ host.name }}", LEVEL: scenario}
sysctls: {net.ipv4.tcp_keepalive_time: 5}
files: {/etc/app/who.txt: "${{ host.name }} of ${{ ring.size }}\\n"}
hosts:
  lead:
    nics: {net: eth0}
    env: {LEVEL: host}
    files: {/opt/tree: {from: tree, owner: root}}
    mounts: {/mnt/live: tree}
    tmpfs: {/scratch: 2MB, /var/log: 1MB}
    sysctls: {net.ipv4.tcp_keepalive_time: "7"}
  worker: {nics: {net: ens3}, count: 3}
groups: {ring: {members: [lead, worker], network: net}}
processes:
  tell:
    hosts: ring
    run: >-
      echo "rank ${{ ring.rank }} index ${{ host.index }} $WHO $LEVEL $OWN
      $(cat /proc/sys/net/ipv4/tcp_keepalive_time) $(cat /etc/app/who.txt)"
    env: {OWN: "own"}
  look:
    hosts: [lead]
    run: >-
      cat /opt/tree/below/file /mnt/live/below/file && ! touch /mnt/live/x 2>/dev/null &&
      ! head -c 3000000 /dev/zero 2>/dev/null >/scratch/x && touch /var/log/x && echo well
checks:
  - log: {process: tell, host: lead, match: "^rank 0 index 0 lead host own 7 lead of 4$"}
  - log: {process: tell, host: worker-0, match: "^rank 1 index 0 worker-0 scenario own 5 worker-0 "}
  - log: {process: tell, host: worker-2, match: "^rank 3 index 2 worker-2 scenario own 5 worker-2 "}
  - log: {process: look, match: "^herehere"}
  - log: {process: look, match: "well$"}
"""


@pytest.fixture
def tree(fedtest: CommandLine) -> Path:
    directory = fedtest.directory / "tree"
    (directory / "below").mkdir(parents=True)
    (directory / "below" / "file").write_text("here", encoding="utf-8")
    return directory


def test_hosts_have_what_the_scenario_gives_them(fedtest: CommandLine, tree: Path) -> None:
    del tree
    done = fedtest("run", fedtest.scenario("given", GIVEN))
    assert done.code == 0, done.out + done.err
    assert left_behind(done.result["id"]) == []


ONE = """
fedtest: 1
name: one
networks: {net: {}}
hosts: {a: {nics: {net: eth0}%s}}
processes: {p: {hosts: [a], run: %s}}
checks: [%s]
"""
GREEDY = json.dumps("exec python3 -c 'bytearray(300_000_000)'")


@pytest.mark.needs("cgroups")
def test_who_takes_more_memory_is_killed_and_the_result_says_by_what(fedtest: CommandLine) -> None:
    checks = "{exit: {process: p, code: 0}}"
    text = ONE % (", memory: 64MB", GREEDY, checks)
    done = fedtest("run", fedtest.scenario("memory", text))
    assert done.code == 1, done.out + done.err
    (check,) = done.result["checks"]
    assert "137 (SIGKILL)" in check["found"]
    assert (
        "the kernel killed 1 process there for its memory limit of 64000000 bytes"
        in (check["found"])
    )
    assert check["found"] in done.out


def test_without_a_limit_it_is_not(fedtest: CommandLine) -> None:
    done = fedtest("run", fedtest.scenario("memory", ONE % ("", GREEDY, "")))
    assert done.code == 0, done.out + done.err


@pytest.mark.needs("cgroups")
def test_a_tenth_of_a_processor_is_a_tenth_of_one(fedtest: CommandLine) -> None:
    """So little that a process without the limit has more, however busy the machine is."""
    script = (
        "import time; from fedtest.values import report; began = time.monotonic()\n"
        "while time.monotonic() - began < 4: pass\n"
        "report('share', time.process_time() / (time.monotonic() - began))"
    )
    run = json.dumps(["python3", "-c", script])
    share = "{value: {process: p, name: share, each: '%s %s'}}"
    checks = f"{share % ('>=', 0.05)}, {share % ('<=', 0.12)}"
    tenth = fedtest("run", fedtest.scenario("tenth", ONE % (", cpus: 0.1", run, checks)))
    assert tenth.code == 0, tenth.out + tenth.err
    whole = fedtest("run", fedtest.scenario("whole", ONE % ("", run, share % ("<=", 0.12))))
    assert whole.code == 1, whole.out + whole.err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        pytest.param(", cpus: 900", "host a: cpus: ", marks=pytest.mark.needs("cgroups")),
        (", sysctls: {net.ipv4.no_such_thing: 1}", "host a: sysctl net.ipv4.no_such_thing: "),
        (", sysctls: {net.ipv4.tcp_keepalive_time: soon}", "does not take 'soon'"),
        (', files: {/x: {content: "", owner: nosuch}}', "no user is called nosuch"),
    ],
)
def test_what_cannot_be_given_makes_the_run_invalid(
    fedtest: CommandLine, given: str, said: str
) -> None:
    done = fedtest("run", fedtest.scenario("bad", ONE % (given, '"true"', "")))
    assert done.code == 3, done.out + done.err
    assert said in done.result["problems"][0]["message"]
    assert done.result["problems"][0]["remedy"]
    assert left_behind(done.result["id"]) == []


@pytest.mark.docker
@pytest.mark.skipif(os.geteuid() != 0, reason="only root has a mount namespace of its own")
@pytest.mark.parametrize("there", [True, False])
def test_an_engine_that_sees_other_files_than_we_is_noticed(
    fedtest: CommandLine, *, there: bool
) -> None:
    """As where it has a root of its own: in our namespace alone, something else is mounted."""
    outside = fedtest.directory / "outside"
    outside.mkdir()
    source = outside if there else outside / "inner"
    file = fedtest.scenario("other", ONE % (f", mounts: {{/mnt/x: {source}}}", '"true"', ""))
    ours = Path("/proc/self/ns/mnt").readlink()
    script = (
        f'[ "$(readlink /proc/self/ns/mnt)" != "{ours}" ] || exit 9;'
        f"mount --make-rprivate / && mount -t tmpfs none {outside} && mkdir -p {source} &&"
        f' exec "$@"'
    )
    done = fedtest.end(
        fedtest.start("run", file, before=("unshare", "-m", "sh", "-c", script, "sh"))
    )
    assert done.code == 3, done.out + done.err
    (problem,) = done.result["problems"]
    assert ("is not the directory" if there else "does not see the directory") in problem["message"]
    assert "`files` copies" in problem["remedy"]
    assert left_behind(done.result["id"]) == []


SECRETS = """
fedtest: 1
name: hidden
networks: {net: {}}
secrets: {TOKEN: {env: FEDTEST_TRY}, KEY: {file: key.pem}}
hosts:
  a:
    nics: {net: eth0}
    env: {TOKEN: "${{ secrets.TOKEN }}"}
    files: {/etc/app/key: {content: "${{ secrets.KEY }}", mode: "0600"}}
processes:
  p:
    hosts: [a]
    env: {LENGTH: "${{ secrets.KEY }}"}
    run: [python3, -c, "import fedtest_try"]
  waits:
    hosts: [a]
    run: "until [ -e /tmp/done ]; do sleep 0.1; done # ${{ secrets.TOKEN }}"
    deadline: 60s
checks:
  - log: {process: p, match: "token .*"}
  - value: {process: p, name: leak, each: "== x"}
  - files: {host: a, path: /etc/app/key, match: "nowhere"}
  - exit: {process: p, code: 4}
"""
TELL = """
import os, sys, json
sys.path.insert(0, "/")
token, key = os.environ["TOKEN"], open("/etc/app/key").read()
assert len(os.environ["LENGTH"]) == len(key) > 40, key
print("token", token, flush=True)
print(repr(token), json.dumps(token), flush=True)
for char in "split " + token + " end" + chr(10):
    os.write(1, char.encode())
os.write(1, b"x" * 65530 + token.encode() + b"y" * 70000 + b"\\n")
print("fedtest-value " + json.dumps({"name": "leak", "value": "v " + token + " v"}), flush=True)
print("fedtest-value " + json.dumps({"name": token, "value": 1}), flush=True)
print(key, file=sys.stderr, flush=True)
open("/tmp/done", "w").close()
raise ValueError(token)
"""


def inspected_containers(run_ids: list[str]) -> str:
    """All that the engine tells of the containers of these runs."""
    client = DockerClient()
    filters = [{"label": f"{labels.RUN}={run_id}", "status": "running"} for run_id in run_ids]
    found = [item for wanted in filters for item in client.api.containers(filters=wanted)]
    told = [json.dumps(client.api.inspect_container(item["Id"])) for item in found]
    client.close()
    return "".join(told)


def test_a_secret_is_in_no_artifact_and_in_no_container(
    fedtest: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["first line of the key", "second line of the key"]
    (fedtest.directory / "key.pem").write_text("\n".join(lines) + "\n", encoding="utf-8")
    text = SECRETS.replace('"import fedtest_try"', json.dumps(TELL))
    monkeypatch.setenv("FEDTEST_TRY", SECRET)
    running = fedtest.start("run", fedtest.scenario("hidden", text), "--junit", "j.xml")
    inspected = ""
    while fedtest.engine == "docker" and running.poll() is None and not inspected:
        inspected = inspected_containers(fedtest.run_ids())
    done = fedtest.end(running)
    assert done.code == 1, done.out + done.err
    assert inspected or fedtest.engine != "docker"
    artifacts = {
        str(path): path.read_text(encoding="utf-8", errors="replace")
        for path in [*fedtest.runs.rglob("*"), fedtest.directory / "j.xml"]
        if path.is_file()
    }
    artifacts |= {"out": done.out, "err": done.err, "inspect": inspected}
    forms = [SECRET, json.dumps(SECRET)[1:-1], *lines]
    leaks = [(name, form) for name, said in artifacts.items() for form in forms if form in said]
    assert not leaks
    log = (fedtest.runs / "latest" / "logs" / "a.p.log").read_text(encoding="utf-8")
    assert "token ***\n" in log
    assert "split *** end\n" in log
    assert "ValueError: ***" in log
    values = {key: item["values"] for item in done.result["processes"] for key in item["values"]}
    assert values["leak"]["leak"] == "v *** v"
    assert any("***" in str(check) for check in done.result["checks"])


def test_a_secret_that_is_not_there_is_told_before_anything_starts(
    fedtest: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FEDTEST_TRY", raising=False)
    file = fedtest.scenario("hidden", SECRETS)
    assert fedtest("validate", file).code == 0
    dry = fedtest("run", "--dry-run", file)
    assert dry.code == 0
    assert "${{ secrets.TOKEN }}" in dry.out
    began = time.monotonic()
    done = fedtest("run", file)
    assert done.code == 2
    assert "secret TOKEN: the environment has no variable FEDTEST_TRY" in done.err
    assert "secret KEY: there is no file" in done.err
    assert not fedtest.runs.exists()
    assert time.monotonic() - began < 10
