"""Scenarios of hosts with networks of their own making, for real hosts."""

from __future__ import annotations

import json

TWO = """
fedtest: 1
name: two
networks:
  mgmt: {}
  data: NETWORK
hosts:
  a: {nics: {mgmt: mgmt0, data: A}MORE}
  b: {nics: {mgmt: mgmt0, data: B}}
"""
ROUTED = """
fedtest: 1
name: routed
networks: {left: LEFT, right: RIGHT}
hosts:
  a: {nics: {left: eth0}GATEWAY}
  r: {nics: {left: eth0, right: eth1}FORWARD}
  b: {nics: {right: eth0}BACK}
"""


def two(
    network: str = "{}", a: str = "eth0", b: str = "ib0", more: str = "", rest: str = ""
) -> str:
    text = TWO.replace("NETWORK", network).replace("MORE", more).replace(" A}", f" {a}}}")
    return text.replace(" B}", f" {b}}}") + rest


def routed(
    forward: str = ", forward: true",
    gateway: str = ", gateway: r",
    back: str = ", gateway: r",
    rest: str = "",
    networks: str = "{}",
) -> str:
    text = ROUTED.replace("FORWARD", forward).replace("GATEWAY", gateway).replace("BACK", back)
    return text.replace("LEFT", networks).replace("RIGHT", networks) + rest


def process(run: str, host: str = "a", more: str = "") -> str:
    return f"processes: {{work: {{hosts: [{host}], run: {json.dumps(run)}{more}}}}}\n"
