"""Becoming a member: by which interface, and what is said when it does not work."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable

import comm_failures as cases
import pytest
from comm_ranks import Ranks

from fedtest.comm import DistNetwork, interfaces, rendezvous

Run = Callable[..., Ranks]


@pytest.mark.parametrize("names", ["lo", "lo,lo"])
def test_an_interface_is_used_and_the_variable_put_back(ranks: Run, names: str) -> None:
    both = [0, 1]
    for found in ranks(cases.joins, 2, {"ethernet": names}, both).results():
        assert found["kind"] is None
        assert (found["interface"], found["variable"]) == ("lo", None)


def test_the_argument_wins_over_the_variable(ranks: Run) -> None:
    running = ranks(cases.joins, 2, {"ethernet": "lo"}, [0, 1], GLOO_SOCKET_IFNAME="nosuch0")
    for found in running.results():
        assert found["kind"] is None
        assert found["variable"] == "nosuch0"
        assert found["warned"] == ["ethernet='lo' is used, not GLOO_SOCKET_IFNAME='nosuch0'"]


@pytest.mark.parametrize("first", [True, False])
def test_of_several_interfaces_the_first_has_the_packages(ranks: Run, first: bool) -> None:
    there = [name for name, found in interfaces.addresses().items() if found and name != "lo"]
    if not there:
        pytest.skip("only `lo` has an address here")
    names = ["lo", there[0]] if first else [there[0], "lo"]
    for found in ranks(cases.joins, 2, {"ethernet": ",".join(names)}, [0, 1]).results():
        assert found["kind"] is None
        assert found["interface"] == names[0]
        assert found["left"] == []  # a thread of ours would end the process with an abort


def test_an_empty_name_is_none(ranks: Run) -> None:
    running = ranks(cases.joins, 2, {"ethernet": ""}, [0, 1], GLOO_SOCKET_IFNAME="lo")
    for found in running.results():
        assert found["kind"] is None
        assert (found["interface"], found["variable"], found["warned"]) == ("lo", "lo", [])


def test_the_variable_counts_without_the_argument(ranks: Run) -> None:
    running = ranks(cases.joins, 2, {}, [0, 1], GLOO_SOCKET_IFNAME="nosuch0")
    for found in running.results():
        assert found["kind"] == "InterfaceError"


def test_an_interface_that_is_not_there_is_named_at_once_with_those_that_are(ranks: Run) -> None:
    found = ranks(cases.joins, 1, {"ethernet": "lo,nosuch0"}, [0]).result(0)
    assert found["kind"] == "InterfaceError"
    assert "no interface 'nosuch0' here; there are " in found["text"]
    assert "lo (127.0.0.1" in found["text"]
    assert found["took"] < 1.0


@pytest.mark.parametrize(("only", "missing"), [([0, 2], (1, 3)), ([1], (0,))])
def test_who_has_joined_and_who_is_missing_is_said(
    ranks: Run, only: list[int], missing: tuple[int, ...]
) -> None:
    running = ranks(cases.joins, 4, {"timeout": 2.0}, only)
    for rank in only:
        found = running.result(rank)
        assert found["kind"] == "RendezvousTimeout"
        assert found["took"] < 8.0
        assert found["missing"] == missing
        assert found["joined"] == tuple(only)
        assert f"missing: rank {', '.join(map(str, missing))}" in found["text"] or rank == 1


def test_a_rank_that_is_taken_is_refused_and_the_first_is_not_disturbed(ranks: Run) -> None:
    running = ranks(cases.joins_as, 3, [0, 1, 1], [2, 2, 2])
    for position in (0, 1):
        running.tell(position)
    assert [running.heard(position)["kind"] for position in (0, 1)] == [None, None]
    running.tell(2)
    refused = running.heard(2)
    assert refused["kind"] == "DuplicateRank"
    assert "a process has joined with this rank, from " in refused["text"]
    for position in range(3):
        running.tell(position)
    running.results()


def test_ranks_that_do_not_agree_on_the_world_size_are_told(ranks: Run) -> None:
    running = ranks(cases.joins_as, 2, [0, 1], [2, 3])
    for position in (0, 1):
        running.tell(position)
    kinds = {running.heard(position)["kind"] for position in (0, 1)}
    assert kinds == {"WorldSizeError", "RendezvousTimeout"}
    for position in (0, 1):
        running.tell(position)
    running.results()


@pytest.mark.parametrize("host", ["192.0.2.1", "nosuch.invalid"])
def test_rank_0_listens_only_at_an_address_of_its_own(ranks: Run, host: str) -> None:
    found = ranks(cases.joins_elsewhere, 1, host).result(0)
    assert found["kind"] == "AddressError"
    assert host in found["text"]


@pytest.mark.skipif(
    not rendezvous.WITHOUT_LIBUV, reason="torch 1.13 waits there with the interpreter's lock held"
)
def test_a_port_that_is_taken_is_said_and_a_silent_listener_waited_for_only_so_long(
    ranks: Run,
) -> None:
    taken, silent = ranks(cases.port_is_taken, 2).results()
    assert taken["kind"] == "PortTaken"
    assert re.search("(?i)address already in use", taken["text"])  # torch's own words
    assert silent["kind"] == "RendezvousTimeout"
    assert silent["missing"] == (0,)
    assert silent["took"] < 6.0


def test_a_group_of_one_joins_and_closes(ranks: Run) -> None:
    assert ranks(cases.joins, 1, {}, [0]).result(0)["kind"] is None


def test_impossible_arguments_are_refused_before_anything_is_tried() -> None:
    for arguments in (
        (("127.0.0.1", 0), 2, 0),
        (("127.0.0.1", 70000), 2, 0),
        (("127.0.0.1", 1), 2, 2),
        (("127.0.0.1", 1), 0, 0),
        (("127.0.0.1", 1), 2, 0, None, "nccl"),
    ):
        with pytest.raises(ValueError, match=r"."):
            DistNetwork(*arguments)
    with pytest.raises(ValueError, match="timeout=0"):
        DistNetwork(("127.0.0.1", 1), 2, 0, timeout=0)


def test_this_machines_interfaces_have_their_addresses() -> None:
    assert interfaces.addresses()["lo"][0] == "127.0.0.1"
    assert interfaces.interface_of("127.0.0.1") == "lo"
    assert interfaces.check("lo") == "127.0.0.1"


WITHOUT_ADDRESS = """
from fedtest.comm import InterfaceError, interfaces
try:
    interfaces.check("lo")
except InterfaceError as error:
    print(error)
"""


def test_an_interface_without_an_address_is_said_to_have_none() -> None:
    """In a network namespace of its own `lo` is down."""
    own = ["unshare", "--map-root-user", "--net"]
    if shutil.which("unshare") is None or subprocess.run([*own, "true"], check=False).returncode:
        pytest.skip("no network namespace of its own may be made here")
    command = [*own, sys.executable, "-c", WITHOUT_ADDRESS]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "the interface 'lo' has no address; there are lo (no address)" in done.stdout, done
