"""Every kind of check on real hosts: one scenario in which all hold, and one in which none does.

A check that cannot fail proves nothing, so each kind is in both.
"""

# ruff: noqa: E501 - a line of a scenario is one thing

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import CommandLine

HOSTS = """
fedtest: 1
name: checks
deadline: 60s
networks: {mgmt: {}, data: {}}
hosts:
  a: {nics: {mgmt: mgmt0, data: eth0}}
  b: {nics: {mgmt: mgmt0, data: enps1}}
groups: {pair: {members: [a, b], network: data, port: 5000}}
processes:
  server:
    hosts: [a]
    run:
      - python3
      - -uc
      - |
        import socket
        from fedtest.values import report
        listening = socket.create_server(("${{ nics.data.ip }}", 5000))
        print("ready")
        received = looked = 0
        while not (piece := (peer := listening.accept()[0]).recv(65536)):
            pass  # It was one who tries whether we can be reached.
        while piece:
            received += len(piece)
            report("received", received)
            while received >= 500_000 and looked < 5:
                looked += not listening.accept()[0].recv(1)
                if looked == 5:
                    peer.sendall(b"go on")
            piece = peer.recv(65536)
        print(f"received={received} bytes")
  client:
    hosts: [b]
    run:
      - python3
      - -uc
      - |
        import socket, sys, time
        from fedtest.values import report
        while True:
            try:
                peer = socket.create_connection(("${{ pair.master }}", 5000))
                break
            except ConnectionRefusedError:
                time.sleep(0.05)
        peer.sendall(bytes(500_000))
        peer.recv(5)  # When we have been looked at.
        peer.sendall(bytes(500_000))
        report("received", 1_000_000)
        with open("/tmp/model", "w") as file:
            file.write("weights: 1\\n")
        print("closing", file=sys.stderr)
  doomed: {hosts: [b], run: "echo cannot go on >&2; kill -KILL $$"}
  both:
    hosts: pair
    run: [python3, -c, "from fedtest.values import report; report('rank', ${{ pair.rank }}); report('same', 'x')"]
checks:
"""

HOLD = """
  - exit: {process: server, code: 0}
  - exit: {process: doomed, code: "!= 0"}
  - exit: {process: doomed, signal: KILL}
  - log: {process: server, match: "received=(?P<n>[0-9]+)", where: {n: "== 1000000"}, count: 1}
  - log: {process: doomed, match: "cannot go on", stream: stderr, within: 20s}
  - log: {process: server, order: [ready, "received="]}
  - log: {process: client, absent: Traceback}
  - value: {process: server, name: received, each: "== 1000000"}
  - value: {process: server, name: received, monotonic: increasing}
  - value: {process: server, name: received, across: {sum: ">= 1000000"}}
  - value: {process: both, name: same, across: equal}
  - value: {process: both, name: rank, across: {within: 1}}
  - value: {process: both, name: rank, across: {sum: "== 1"}}
  - bytes: {host: b, network: data, direction: tx, min: 1MB}
  - bytes: {host: b, network: data, direction: tx, peer: a, min: 1MB}
  - bytes: {host: a, network: data, direction: rx, peer: b, min: 1MB}
  - bytes: {host: b, network: mgmt, direction: tx, peer: a, max: 10kB}
  - packets: {host: a, network: data, direction: tx, peer: b, min: 10}
  - packets: {host: a, network: data, direction: rx, min: 10}
  - packets: {host: b, network: mgmt, direction: tx, max: 100}
  - sockets: {process: client, local: "${{ nics.data.ip }}", remote: data}
  - sockets: {process: server, listen: {port: 5000, local: "${{ nics.data.ip }}"}}
  - files: {host: b, path: /tmp/model, min: 1B, max: 1kB, match: "(?m)^weights: [0-9]$"}
  - files: {host: b, path: /tmp/model, sha256: d129b4b463fb5cce63635455b4d866dd07bbd2c1e5c1535cfe59b638ce7422ff}
  - files: {host: a, path: /tmp/model, exists: false}
  - files: {group: pair, path: /etc/hosts, match: "^127.0.0.1"}
  - reach: {from: a, to: b, port: 5000, reachable: false}
  - time: {from: {host: a, log: ready}, to: {process: server, state: exited}, within: 40s}
  - done: {within: 50s}
  - {reach: {from: b, to: a, network: data, port: 5000}, eventually: 20s}
  - {reach: {from: b, to: a, network: mgmt, port: 5000, reachable: false}, always: true}
  - {bytes: {host: b, network: data, direction: tx, min: 400kB}, eventually: 20s}
  - {value: {process: server, name: received, each: "<= 1000000"}, always: true}
  - {packets: {host: a, network: data, direction: tx, min: 10}, eventually: 20s}
  - {packets: {host: b, network: mgmt, direction: tx, max: 100}, always: true}
  - {sockets: {process: client, remote: data}, eventually: 20s}
  - {sockets: {process: server, listen: {port: 5000, local: "${{ nics.data.ip }}"}}, always: true}
  - {files: {host: b, path: /tmp/model}, eventually: 40s}
  - {files: {host: a, path: /tmp/model, exists: false}, always: true}
"""

FAIL = """
  - exit: {process: server, code: "!= 0"}
  - exit: {process: client, signal: TERM}
  - log: {process: server, match: "received=(?P<n>[0-9]+)", where: {n: "< 1000000"}}
  - log: {process: doomed, match: "cannot go on", stream: stdout}
  - log: {process: server, order: ["received=", ready]}
  - log: {process: doomed, absent: "cannot go on"}
  - value: {process: server, name: received, each: "< 1000000"}
  - value: {process: server, name: received, monotonic: decreasing}
  - value: {process: server, name: received, across: {sum: "> 1000000"}}
  - value: {process: both, name: rank, across: equal}
  - value: {process: both, name: rank, across: {within: 0.5}}
  - value: {process: both, name: unheard-of, each: "== 1"}
  - {value: {process: server, name: received, each: ">= 2000000"}, eventually: 1s}
  - log: {process: server, match: ready, count: "> 1"}
  - log: {process: server, match: "received=", within: 1ms}
  - bytes: {host: b, network: mgmt, direction: tx, min: 1MB}
  - packets: {host: b, network: mgmt, direction: tx, min: 100}
  - bytes: {host: b, network: data, direction: tx, peer: a, max: 500kB}
  - packets: {group: pair, network: mgmt, direction: rx, peer: a, min: 100}
  - sockets: {process: client, local: "${{ nics.mgmt.ip }}"}
  - sockets: {process: client, remote: mgmt}
  - sockets: {process: server, listen: {port: 5000, local: "0.0.0.0"}}
  - files: {group: pair, path: /tmp/model}
  - files: {host: b, path: /tmp/model, exists: false}
  - files: {host: b, path: /tmp/model, match: "biases"}
  - files: {host: b, path: /tmp/model, min: 1kB}
  - files: {host: b, path: /tmp/model, max: 1B}
  - files: {host: b, path: /tmp/model, sha256: "0000000000000000000000000000000000000000000000000000000000000000"}
  - reach: {from: b, to: a, port: 5000}
  - time: {from: {host: a, log: ready}, to: {process: server, state: exited}, within: 500ms}
  - time: {from: {process: client, log: closing}, to: {process: doomed, state: exited}, within: 9s}
  - done: {within: 500ms}
  - {reach: {from: b, to: a, network: mgmt, port: 5000}, eventually: 20s}
  - {reach: {from: b, to: a, network: data, port: 5000, reachable: false}, always: true}
  - {bytes: {host: b, network: data, direction: tx, max: 100kB}, always: true}
  - {value: {process: server, name: received, each: "<= 600000"}, always: true}
  - {packets: {host: b, network: mgmt, direction: tx, min: 1000}, eventually: 20s}
  - {packets: {host: b, network: data, direction: tx, max: 10}, always: true}
  - {sockets: {process: server, listen: {port: 5001}}, eventually: 20s}
  - {sockets: {process: client, remote: mgmt}, always: true}
  - {files: {host: a, path: /tmp/model}, eventually: 20s}
  - {files: {host: b, path: /etc/hosts, match: "no such line"}, always: true}
"""


def checked(fedtest: CommandLine, checks: str, code: int) -> list[dict[str, Any]]:
    done = fedtest("run", fedtest.scenario("checks", HOSTS + checks))
    assert done.code == code, done.out + done.err
    assert done.result["problems"] == [], done.out
    found: list[dict[str, Any]] = done.result["checks"]
    # Behind those that were asked for are those of processes that no `exit` check is about.
    return found[: checks.count("\n  - ")]


def test_checks_that_hold(fedtest: CommandLine) -> None:
    assert [check for check in checked(fedtest, HOLD, 0) if not check["passed"]] == []


def test_checks_that_do_not_hold_are_noticed_and_explained(fedtest: CommandLine) -> None:
    done = fedtest("run", fedtest.scenario("checks", HOSTS + FAIL))
    assert done.code == 1, done.out + done.err
    found = done.result["checks"][: FAIL.count("\n  - ")]
    assert [check for check in found if check["passed"]] == []
    said = " ".join(done.out.split())
    for check in found:
        assert check["expected"]
        assert check["found"]
        assert all(" ".join(line.split()) in said for line in check["details"])
    # What was expected, what was found, and the lines of the log around it.
    for words in (
        "NO no line of doomed has 'cannot go on' b: 1 line",
        "b: the first of 1: > cannot go on",
        'a: the first of 1: > ready fedtest-value {"name": "received"',
        "a: a line matches, but has n = 1000000",
        "b reported no unheard-of reported were: rank, same",
        "server listens at any address, port 5001",
    ):
        assert words in said
    assert "never judged" not in said


@pytest.mark.parametrize(
    ("check", "words"),
    [
        ("log: {process: server, match: ready, since: {host: b, log: '('}}", "regular expression"),
        ("packets: {host: b, network: dta, direction: tx, min: 1}", 'did you mean "data"'),
    ],
)
def test_checks_of_what_cannot_be_are_errors_of_the_scenario(
    fedtest: CommandLine, check: str, words: str
) -> None:
    done = fedtest("run", fedtest.scenario("checks", f"{HOSTS}  - {check}\n"))
    assert done.code == 2
    assert words in done.err


@pytest.mark.docker
def test_looking_from_beside_needs_nothing_of_a_hosts_own_image(fedtest: CommandLine) -> None:
    text = """
fedtest: 1
name: bare
image: debian:trixie-slim
networks: {lan: {}}
hosts: {a: {nics: {lan: eth0}}, b: {nics: {lan: eth0}}}
processes: {p: {hosts: [a], run: "umask 077; echo hidden > /tmp/file; ln -s /tmp/file /tmp/link"}}
checks:
  - files: {host: a, path: /tmp/link, match: hidden}
  - files: {host: a, path: /etc/debian_version}
  - reach: {from: a, to: b, port: 80, reachable: false}
"""
    done = fedtest("run", fedtest.scenario("bare", text))
    assert done.code == 0, done.out + done.err
    assert done.result["checks"][2]["found"] == "Connection refused"
