"""A client below a middle server that is cut off: nothing closes its connections."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from node_python import missing

if TYPE_CHECKING:
    from conftest import CommandLine

SHIPPED = Path(__file__).parents[2] / "scenarios" / "hierarchical-client-dies.yaml"
KILLED = {
    "kill: {process: clients1, host: c1}": "partition: {network: edge1, sides: [[c1], [m1, c2]]}",
    "exit: {process: clients1, host: c1, signal: SIGKILL}": "exit: {process: clients1, host: c1, "
    "code: 1}\n  - value: {process: clients1, host: c1, name: error, each: == PeerLost}",
    "rank 1 is gone": "rank 1 is gone: its machine has not answered",
}


# The library is the same on every engine; without Docker it takes less time.
@pytest.mark.netns
@pytest.mark.skipif(bool(missing("torch")), reason=missing("torch"))
def test_the_heartbeat_notices_a_client_that_is_cut_off(fedtest: CommandLine) -> None:
    """All the rest is as where it dies: the top is told its ids, within as many seconds."""
    text = SHIPPED.read_text(encoding="utf-8")
    for killed, cut_off in KILLED.items():
        assert text.count(killed) == 1
        text = text.replace(killed, cut_off)
    done = fedtest("run", fedtest.scenario("hierarchical-client-cut-off", text))
    assert done.code == 0, done.out + done.err
