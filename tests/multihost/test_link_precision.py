"""Delay and jitter on real hosts, packet by packet: what programs get is what was asked for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from fedtest import values

if TYPE_CHECKING:
    from conftest import CommandLine

PACKETS = 400
APART = 0.025  # seconds: more than jitter can bring two packets together
LINKS = {
    "plain": "",
    "ms1": "delay: 1ms",
    "ms5": "delay: 5ms",
    "ms20": "delay: 20ms",
    "ms200": "delay: 200ms",
    "jitter": "delay: 20ms, jitter: 10ms",
    "same": "delay: 20ms, jitter: 10ms",
}

# One clock for all hosts: that of the machine since it was started.
RECEIVE = f"""
import json, selectors, socket, struct, sys, time
ends = dict(zip(sys.argv[1::2], sys.argv[2::2]))
found = {{name: [] for name in ends}}
with selectors.DefaultSelector() as ready:
    for name, address in ends.items():
        end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        end.bind((address, 6000))
        ready.register(end, selectors.EVENT_READ, name)
    print("listening", flush=True)
    while any(len(each) < {PACKETS} for each in found.values()):
        for key, _ in ready.select():
            (sent,) = struct.unpack("d", key.fileobj.recv(100))
            found[key.data].append(1000 * (time.monotonic() - sent))
for name, each in found.items():
    each.sort()
    for part in (0.05, 0.5, 0.95):
        value = each[round(part * (len(each) - 1))]
        print("fedtest-value", json.dumps({{"name": f"{{name}} {{part}}", "value": value}}))
"""
SEND = f"""
import socket, struct, sys, time
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
    for _ in range({PACKETS}):
        for address in sys.argv[1:]:
            end.sendto(struct.pack("d", time.monotonic()), (address, 6000))
            time.sleep({APART} / len(sys.argv[1:]))
"""


def scenario() -> str:
    address = {name: f"${{{{ hosts.a.nics.{name}.ip }}}}" for name in LINKS}
    ends = [word for name in LINKS for word in (name, address[name])]
    receive = ["python3", "-c", RECEIVE, *ends]
    send = ["python3", "-c", SEND, *address.values()]
    networks = "\n".join(
        f"  {name}: {{link: {{rate: 100mbit{', ' + link if link else ''}}}}}"
        for name, link in LINKS.items()
    )
    here, there = (
        ", ".join(f"{name}: {prefix}{number}" for number, name in enumerate(LINKS))
        for prefix in ("eth", "ib")
    )
    return f"""
fedtest: 1
name: precision
networks:
{networks}
hosts:
  a: {{nics: {{{here}}}}}
  b: {{nics: {{{there}}}}}
processes:
  receive: {{hosts: [a], run: {json.dumps(receive)}, deadline: 90s}}
  send:
    hosts: [b]
    after: {{process: receive, log: listening}}
    run: {json.dumps(send)}
    deadline: 60s
checks:
  - exit: {{process: receive}}
"""


@pytest.mark.netns  # the same programs delay on every engine
@pytest.mark.measures
def test_delays_from_1_to_200_ms_and_jitter_are_what_was_asked_for(fedtest: CommandLine) -> None:
    done = fedtest("run", fedtest.scenario("precision", scenario()))
    assert done.code == 0, done.out + done.err
    found = reported(fedtest)
    base = found["plain 0.5"]
    for milliseconds in (1, 5, 20, 200):
        delay = found[f"ms{milliseconds} 0.5"] - base
        # A tenth of a millisecond: a processor is told late of what it is to let go.
        assert delay == pytest.approx(milliseconds, rel=0.05, abs=0.1), found
        earliest = found[f"ms{milliseconds} 0.05"] - found["plain 0.05"]
        assert earliest > 0.95 * milliseconds - 0.05, found
    # Evenly between 10 and 30 ms: nine of ten are so far from each other. Five to six standard
    # deviations of what 400 packets tell are let pass. A packet of one link waits for none of
    # the other: it would be later, and the differences fewer.
    # How much later than due a packet may come where the machine is busy: a delay without jitter
    # tells, of the same minute.
    late = found["ms20 0.95"] - found["ms20 0.05"]
    for link in ("jitter", "same"):
        assert found[f"{link} 0.5"] - base == pytest.approx(20, abs=2.5 + late), found
        width = found[f"{link} 0.95"] - found[f"{link} 0.05"]
        assert 0.9 * 0.9 * 20 <= width <= 0.9 * 1.1 * 20 + late, found
        assert found[f"{link} 0.05"] - base == pytest.approx(11, abs=1.3), found


def reported(fedtest: CommandLine) -> dict[str, float]:
    log = (fedtest.runs / "latest" / "logs" / "a.receive.log").read_text(encoding="utf-8")
    found = filter(None, map(values.parse, log.splitlines()))
    return {name: float(value or 0) for name, value in found}
