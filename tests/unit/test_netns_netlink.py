"""What hosts without Docker are told of each other."""

from __future__ import annotations

import errno
import struct

from fedtest.engine.netns import netlink


def attachment(network: str, number: int) -> dict[str, str]:
    address = f"10.0.{network}.{number}"
    return {
        "network": network,
        "interface": f"if{network}",
        "address": address,
        "mac": netlink.link_address(address),
    }


def test_a_link_address_is_made_from_the_address_as_docker_makes_it() -> None:
    assert netlink.link_address("172.18.0.3") == "02:42:ac:12:00:03"


def test_on_a_network_with_many_each_is_told_of_all_others() -> None:
    everywhere = [attachment("1", number) for number in range(17)]
    everywhere += [attachment("2", number) for number in range(16)]
    told = netlink.others_at([everywhere[3], everywhere[20]], everywhere)
    assert set(told) == {"if1"}
    assert len(told["if1"]) == 16
    assert ("10.0.1.3", "02:42:0a:00:01:03") not in told["if1"]
    assert ("10.0.1.4", "02:42:0a:00:01:04") in told["if1"]


def test_a_request_is_as_long_as_it_says_and_an_answer_has_its_error() -> None:
    request = netlink.neighbour(7, "10.0.0.1", "02:42:0a:00:00:01")
    assert struct.unpack_from("=I", request)[0] == len(request)
    assert request.endswith(bytes.fromhex("02420a000001") + bytes(2))
    for number in (0, errno.EPERM):
        assert netlink.error(struct.pack("=IHHIIi", 20, 2, 0, 0, 0, -number)) == number
