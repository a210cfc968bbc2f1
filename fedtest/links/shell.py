"""Pieces of shell that several plans need."""

from __future__ import annotations

import shlex
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

IPTABLES = {4: "iptables", 6: "ip6tables"}
"""By version of IP: whose rules are about it."""

_TRIES = 200
"""Times 50 ms: how long a program may take until it is ready."""


def background(name: str, program: Path, *arguments: str, ready: str) -> str:
    """Starts a program of ours, in place of an earlier one of that name, and waits for `ready`.

    The program's text goes along, so that nothing has to be installed where it runs.
    """
    state = state_of(name)
    command = shlex.join(["python3", "-c", _text(program), *arguments])
    return f"""{end(name)}
{command} </dev/null >"{state}.log" 2>&1 &
echo $! >"{state}.pid"
tries=0
until {ready}; do
  tries=$((tries + 1))
  if [ $tries -gt {_TRIES} ] || ! kill -0 "$(cat "{state}.pid")" 2>/dev/null; then
    echo "{name} did not start:" >&2; cat "{state}.log" >&2; exit 1
  fi
  sleep 0.05
done"""


def end(name: str) -> str:
    """Ends a program that `background` started, if there is one."""
    state = state_of(name)
    return f"""if [ -f "{state}.pid" ]; then
  kill "$(cat "{state}.pid")" 2>/dev/null || true
  tries=0
  while kill -0 "$(cat "{state}.pid")" 2>/dev/null && [ $tries -lt {_TRIES} ]; do
    tries=$((tries + 1)); sleep 0.05
  done
  rm -f "{state}.pid"
fi"""


def state_of(name: str) -> str:
    """Its files: a network namespace's own, since an engine's helpers may share a file system."""
    return f"/tmp/fedtest-{name}-$(readlink /proc/self/ns/net | tr -dc 0-9)"  # noqa: S108


@cache
def _text(program: Path) -> str:
    return program.read_text(encoding="utf-8")
