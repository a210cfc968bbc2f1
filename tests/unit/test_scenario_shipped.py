"""The scenarios that ship and the documentation are what the model says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fedtest.plan import make_plan
from fedtest.scenario import docs
from fedtest.scenario.base import Part
from fedtest.scenario.load import dump, load, loads
from fedtest.subnets import choose

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SHIPPED = sorted((ROOT / "scenarios").glob("*.yaml"))


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_each_shipped_scenario_is_valid_and_named_like_its_file(file: Path) -> None:
    scenario = load(file).scenario
    assert scenario.name == file.stem
    assert scenario.description
    assert loads(dump(scenario)).scenario == scenario


def test_the_ring_is_what_the_main_job_needs() -> None:
    scenario = load(ROOT / "scenarios" / "ring.yaml").scenario
    plan = make_plan(scenario, choose(scenario, "run", ()))
    data = {host.name: host.attachments[1] for host in plan.hosts}
    assert {name: nic.interface for name, nic in data.items()} == {
        "server1": "eth0",
        "server2": "enps1",
        "server3": "ens3f0",
        "server4": "ib0",
    }
    assert str(data["server1"].address) == "192.168.0.1/24"
    assert str(data["server2"].address) == "192.168.0.2/24"
    for rank, process in enumerate(plan.processes):
        command = process.argv[2]
        assert "--init-method tcp://192.168.0.1:23456 " in command
        assert f"--rank {rank} --world-size 4 " in command
        assert f"--gloo_socket_ifname {data[process.host].interface} " in command
        # The own name is the decoy: it resolves on the other network.
        host = plan.host(process.host)
        own = next(address for address, names in host.names if process.host in names)
        assert own == str(host.attachments[0].address.ip)


def test_the_control_differs_in_the_option_and_mirrors_the_checks() -> None:
    ring = load(ROOT / "scenarios" / "ring.yaml").scenario
    control = load(ROOT / "scenarios" / "ring-without-interface.yaml").scenario
    assert (ring.hosts, ring.networks, ring.groups) == (
        control.hosts,
        control.networks,
        control.groups,
    )
    run = ring.processes["trainer"].run
    assert isinstance(run, str)
    option = "--gloo_socket_ifname ${{ nics.data.name }} "
    assert option in run
    assert control.processes["trainer"].run == run.replace(option, "")

    def bounds(checks: tuple[docs.Check, ...]) -> set[tuple[str, str, int | None, int | None]]:
        found = [check.bytes for check in checks if check.bytes]
        return {(item.network, item.direction, item.min, item.max) for item in found}

    mirror = {"mgmt": "data", "data": "mgmt"}
    assert bounds(control.checks) == {
        (mirror[network], *rest) for network, *rest in bounds(ring.checks)
    }


def test_the_documentation_is_up_to_date() -> None:
    text = (ROOT / "docs" / "scenario.md").read_text()
    assert text == docs.render(), "python -m fedtest.scenario.docs > docs/scenario.md"


def test_the_example_of_the_documentation_is_valid() -> None:
    assert loads(docs.EXAMPLE).scenario.name == "hello"


def parts(model: type[Part]) -> Iterator[type[Part]]:
    for part in model.__subclasses__():
        yield part
        yield from parts(part)


def test_every_field_is_described_and_every_part_has_a_section() -> None:
    assert {model for _, model in docs.SECTIONS} == set(parts(Part))
    for model in parts(Part):
        assert model.__doc__
        for name, field in model.model_fields.items():
            assert field.description, f"{model.__name__}.{name}"


def test_loading_and_planning_import_nothing_of_an_engine() -> None:
    code = (
        "import sys; import fedtest.scenario.load, fedtest.plan, fedtest.subnets;"
        "heavy = ('docker', 'rich', 'torch', 'requests'); ours = ('fedtest.engine', 'fedtest.run');"
        "print([m for m in sys.modules if m.split('.')[0] in heavy or m.startswith(ours)])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
