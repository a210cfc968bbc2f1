"""Hosts for tests of faults: each says whom it hears, so that effects are seen from inside."""

from __future__ import annotations

import json

WATCH = """
import socket, sys, time
places = {}
ends = []
for word in sys.argv[2:]:
    network, host, address = word.split("/")
    places[address] = (network, host)
    if host == sys.argv[1]:
        end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        end.bind((address, 6000))
        end.setblocking(False)
        ends.append((network, end))
heard = {}
print("watching", flush=True)
while True:
    for network, end in ends:
        for address, (where, host) in places.items():
            if where == network and host != sys.argv[1]:
                try:
                    end.sendto(b"x", (address, 6000))
                except OSError:
                    pass
        try:
            while True:
                address = end.recvfrom(9)[1][0]
                if address not in heard:
                    print(*places[address], "heard", flush=True)
                heard[address] = time.monotonic()
        except BlockingIOError:
            pass
    now = time.monotonic()
    for address in [item for item, at in heard.items() if now - at > 1.2]:
        del heard[address]
        print(*places[address], "silent", flush=True)
    time.sleep(0.05)
"""

PLACES = [
    f"{network}/{host}/${{{{ hosts.{host}.nics.{network}.ip }}}}"
    for network in ("mgmt", "data")
    for host in "abc"
]

HOSTS = """
fedtest: 1
name: faults
deadline: 900s
networks: {mgmt: {}, data: {subnet: SUBNET, link: LINK}}
hosts:
  a: {nics: {mgmt: mgmt0, data: eth0}}
  b: {nics: {mgmt: mgmt0, data: ib0}}
  c: {nics: {mgmt: mgmt0, data: ib0}}
groups: {some: {members: [b, c], network: data}}
"""


def hosts(subnet: str, link: str = "{}") -> str:
    """Three hosts on two networks; `subnet` a test's own, so that none waits for another."""
    return HOSTS.replace("SUBNET", subnet).replace("LINK", link)


def watch(name: str = "watch", on: str = "[a, b, c]") -> str:
    """A service on the hosts that tells whom it hears and whom no longer."""
    run = json.dumps(["python3", "-uc", WATCH, "${{ host.name }}", *PLACES])
    return f"  {name}: {{hosts: {on}, service: true, run: {run}}}\n"


HOLD = "  hold: {hosts: [a], run: sleep 900}\n"
"""The process that the run lasts for; `until_healed` ends it."""


def until_healed(fault: str, after: str = "1500ms") -> str:
    """A fault that ends `HOLD`, and so the run, when another one is over and its end was seen."""
    return f"  - kill: {{process: hold}}\n    when: {fault}.healed\n    at: {after}\n"
