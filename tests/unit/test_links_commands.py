"""From a plan to commands, by either mechanism; and what is noticed when they did nothing."""

from __future__ import annotations

import pytest

from fedtest.errors import InvalidError
from fedtest.links import apply
from fedtest.links.mechanism import Mechanism, mechanism, refuse_impossible
from fedtest.links.readback import differences
from pretend_links import plan_of, read_back

HOSTS = """
fedtest: 1
name: s
networks: {data: {subnet: 10.0.0.0/24, %s}}
hosts:
  a: {nics: {data: {name: eth0, ip: 10.0.0.1%s}}}
  b: {nics: {data: {name: ib0, ip: 10.0.0.2}}}
  c: {nics: {data: {name: eth0, ip: 10.0.0.3}}}
"""
EVERY = """link: {rate: 100mbit, delay: 5ms, jitter: 1ms, loss: 0.1%, duplicate: 1%, reorder: 2%,
  corrupt: 0.5%, mtu: 1400, queue: 60kB}"""
PAIRS = "pairs: [{from: a, to: b, link: {rate: 10mbit}}, {from: c, to: a, link: {delay: 20ms}}]"


def commands_of(network: str, host: str, chosen: Mechanism, own: str = "") -> str:
    plan = plan_of(HOSTS % (network, own))
    return "\n".join(apply.plan_commands(plan, chosen)[host].shown) + "\n"


def test_netem_does_all_at_the_sender_with_the_rate_above_it() -> None:
    assert commands_of(EVERY, "a", Mechanism.NETEM) == (
        "ip link set dev eth0 mtu 1400\n"
        "ip link set dev eth0 gso_max_segs 1\n"
        "tc qdisc add dev eth0 root handle 1: htb default 2\n"
        "tc class add dev eth0 parent 1: classid 1:2 htb rate 100000000bit ceil 100000000bit"
        " burst 25000b cburst 25000b quantum 60000\n"
        "tc qdisc add dev eth0 parent 1:2 handle 1002: netem limit 1089 delay 5000us 1000us"
        " loss random 0.1% duplicate 1% reorder 2% corrupt 0.5%\n"
    )


def test_without_netem_the_sender_keeps_the_rate_and_the_receiver_loses_and_delays() -> None:
    link = "link: {rate: 100mbit, delay: 5ms, jitter: 1ms, loss: 0.1%}"
    assert commands_of(link, "a", Mechanism.QUEUE) == (
        "ip link set dev eth0 gso_max_segs 1\n"
        "tc qdisc add dev eth0 root handle 1: htb default 2\n"
        "tc class add dev eth0 parent 1: classid 1:2 htb rate 100000000bit ceil 100000000bit"
        " burst 25000b cburst 25000b quantum 60000\n"
        "tc qdisc add dev eth0 parent 1:2 handle 1002: bfifo limit 625000b\n"
        "python3 delay.py 1:5000:1000 &\n"
        "iptables -w -t mangle -N fedtest-links\n"
        "iptables -w -t mangle -A fedtest-links -i eth0 -m statistic --mode random"
        " --probability 0.001 -j DROP\n"
        "iptables -w -t mangle -A fedtest-links -i eth0 -j NFQUEUE --queue-num 1 --queue-bypass\n"
        "iptables -w -t mangle -A PREROUTING -j fedtest-links\n"
    )


def test_a_pair_has_a_class_of_its_own_at_the_sender() -> None:
    expected = (
        "tc class add dev eth0 parent 1: classid 1:3 htb rate 10000000bit ceil 10000000bit"
        " burst 3028b cburst 3028b quantum 60000\n"
        "tc qdisc add dev eth0 parent 1:3 handle 1003: bfifo limit 62500b\n"
        "tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip dst 10.0.0.2/32"
        " flowid 1:3\n"
    )
    assert expected in commands_of(f"link: {{rate: 1gbit}}, {PAIRS}", "a", Mechanism.QUEUE)


def test_without_a_link_of_the_network_only_the_pair_is_classified() -> None:
    assert "htb default 0\n" in commands_of(PAIRS, "a", Mechanism.QUEUE)


def test_a_sender_that_differs_has_rules_of_its_own_before_those_of_the_others() -> None:
    found = commands_of(f"link: {{delay: 5ms, loss: 1%}}, {PAIRS}", "a", Mechanism.QUEUE)
    rules = [line.partition("-A fedtest-links ")[2] for line in found.splitlines()]
    lose = "-m statistic --mode random --probability 0.01 -j DROP"
    assert [rule for rule in rules if rule] == [
        f"-s 10.0.0.3/32 -i eth0 {lose}",
        "-s 10.0.0.3/32 -i eth0 -j NFQUEUE --queue-num 2 --queue-bypass",
        f"-i eth0 {lose}",
        "-i eth0 -j NFQUEUE --queue-num 1 --queue-bypass",
    ]
    assert "python3 delay.py 1:5000:0 2:20000:0 &" in found


def test_with_jitter_each_interface_keeps_an_order_of_its_own() -> None:
    plan = plan_of("""
fedtest: 1
name: s
networks:
  data: {link: {delay: 5ms, jitter: 1ms}}
  more: {link: {delay: 5ms, jitter: 1ms}}
  even: {link: {delay: 5ms}}
  flat: {link: {delay: 5ms}}
hosts:
  a: {nics: {data: eth0, more: eth1, even: eth2, flat: eth3}}
  b: {nics: {data: ib0, more: ib1, even: ib2, flat: ib3}}
""")
    assert apply.plan_commands(plan, Mechanism.QUEUE)["a"].queues == [
        "1:5000:0",  # of both: neither keeps the other waiting
        "2:5000:1000",
        "3:5000:1000",
    ]


def test_a_sender_without_conditions_among_others_is_let_through() -> None:
    network = "link: {delay: 5ms}, pairs: [{from: a, to: c, link: {delay: 0ms}}]"
    plan = plan_of(HOSTS % (network, "") + "  d: {nics: {data: eth0}}\n")
    rules = apply.plan_commands(plan, Mechanism.QUEUE)["c"].rules
    assert rules[0] == ("-A", "fedtest-links", "-s", "10.0.0.1/32", "-i", "eth0", "-j", "RETURN")


def test_pairs_without_a_rate_of_their_own_share_the_interfaces_under_netem() -> None:
    network = "link: {rate: 100mbit}, pairs: [{from: a, to: b, link: {delay: 20ms}}]"
    found = commands_of(network, "a", Mechanism.NETEM)
    assert "parent 1: classid 1:1 htb rate 100000000bit ceil 100000000bit" in found
    assert "parent 1:1 classid 1:2 htb rate 50000000bit ceil 100000000bit" in found
    assert "parent 1:1 classid 1:3 htb rate 50000000bit ceil 100000000bit" in found
    assert "parent 1:3 handle 1003: netem" in found


def test_an_interface_with_a_name_that_means_something_to_a_shell_is_only_a_name() -> None:
    text = HOSTS.replace("name: eth0, ip: 10.0.0.1", 'name: "a;$(id)", ip: 10.0.0.1')
    plan = plan_of(text % ("link: {rate: 1gbit}", ""))
    commands = apply.plan_commands(plan, Mechanism.QUEUE)["a"]
    assert "dev 'a;$(id)'" in apply.script(commands)


@pytest.mark.parametrize("key", ["duplicate: 1%", "delay: 1ms, reorder: 1%", "corrupt: 1%"])
def test_what_only_netem_can_do_is_refused_without_it_with_the_way_out(key: str) -> None:
    plan = plan_of(HOSTS % (f"pairs: [{{from: a, to: b, link: {{{key}}}}}]", ""))
    refuse_impossible(plan, mechanism(netem=True))
    with pytest.raises(InvalidError, match="from a to b on data") as caught:
        refuse_impossible(plan, mechanism(netem=False))
    assert "sch_netem" in caught.value.remedy


def test_what_needs_no_netem_is_not_refused() -> None:
    link = "link: {rate: 1mbit, delay: 5ms, jitter: 1ms, loss: 1%, mtu: 1400, queue: 60kB}"
    refuse_impossible(plan_of(HOSTS % (link, "")), mechanism(netem=False))


NETWORKS = [
    "",  # A fault that is over: nothing is wanted, and nothing is there.
    "link: {rate: 100mbit, mtu: 1400}",
    "link: {delay: 5ms, loss: 1%}",
    f"link: {{rate: 1gbit, delay: 1ms}}, {PAIRS}",
]


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("chosen", list(Mechanism))
def test_what_is_there_as_asked_for_has_no_differences(network: str, chosen: Mechanism) -> None:
    for commands in apply.plan_commands(plan_of(HOSTS % (network, "")), chosen).values():
        assert differences(commands, read_back(commands)) == []


# As after a fault whose conditions stay.
STAYS = [
    ("link: {rate: 5mbit}", "class 1:2 with 5e+06 bit/s is there, and nothing asks for it"),
    ("link: {rate: 5mbit}", "htb under the root is there"),
    ("link: {rate: 5mbit}", "gso_max_segs should be 65535, it is 1"),
    ("link: {delay: 50ms}", "a helper for queue 1 is there"),
    ("link: {delay: 50ms}", "the delays should be none, they are 1:50000:0"),
    ("link: {loss: 20%}", "fedtest-links should have the rules none, it has -A fedtest-links"),
    ("link: {loss: 20%}", "-A PREROUTING -j fedtest-links is there"),
    (PAIRS, "a filter for 10.0.0.2 to 1:3 is there"),
]


@pytest.mark.parametrize("usual", ["", "link: {mtu: 1400}"])
@pytest.mark.parametrize(("network", "said"), STAYS)
def test_what_is_there_and_nothing_asks_for_is_named(network: str, said: str, usual: str) -> None:
    wanted = apply.plan_commands(plan_of(HOSTS % (usual, "")), Mechanism.QUEUE)["a"]
    stays = apply.plan_commands(plan_of(HOSTS % (network, "")), Mechanism.QUEUE)["a"]
    found = differences(wanted, read_back(stays))
    assert any(said in line for line in found), found


def test_a_delay_that_is_another_is_named() -> None:
    wanted, stays = (
        apply.plan_commands(plan_of(HOSTS % (f"link: {{delay: {delay}ms}}", "")), Mechanism.QUEUE)
        for delay in (10, 80)
    )
    assert differences(wanted["a"], read_back(stays["a"])) == [
        "the delays should be 1:10000:0, they are 1:80000:0"
    ]


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("chosen", list(Mechanism))
def test_scripts_that_did_nothing_are_noticed(network: str, chosen: Mechanism) -> None:
    for commands in apply.plan_commands(plan_of(HOSTS % (network, "")), chosen).values():
        assert differences(commands, "")


@pytest.mark.parametrize(
    ("network", "old", "new", "said"),
    [
        ("link: {mtu: 1400}", "1400", "1500", "mtu should be 1400, it is 1500"),
        ("link: {rate: 100mbit}", "ceil 100000000bit", "ceil 10Mbit", "class 1:2 should have"),
        ("link: {rate: 100mbit}", '"limit": 625000', '"limit": 1', "limit should be 625000"),
        ("link: {rate: 100mbit}", "bfifo", "pfifo", "bfifo under 1:2 is not there"),
        ("link: {loss: 1%}", "0.01", "0.02", "should have the rules"),
        ("link: {loss: 1%}", "PREROUTING", "OUTPUT", "do not come by the rules"),
        ("link: {delay: 1ms}", "    1  100", "    9  100", "nobody delays"),
        (PAIRS, "0a000002", "0a000003", "what goes to 10.0.0.2 is not in class 1:3"),
    ],
)
def test_what_differs_is_named(network: str, old: str, new: str, said: str) -> None:
    commands = apply.plan_commands(plan_of(HOSTS % (network, "")), Mechanism.QUEUE)["a"]
    there = read_back(commands)
    assert old in there
    assert any(said in line for line in differences(commands, there.replace(old, new)))


def test_what_tc_and_iptables_really_print_is_understood() -> None:
    """As iproute2 6.15 and iptables 1.8.11 print it."""
    network = "link: {loss: 1%}, pairs: [{from: a, to: b, link: {rate: 100mbit}}]"
    commands = apply.plan_commands(plan_of(HOSTS % (network, "")), Mechanism.QUEUE)["a"]
    printed = """\
==> 0 link <==
[{"ifindex":3,"ifname":"eth0","mtu":1500,"qdisc":"htb","gso_max_size":65536,"gso_max_segs":1}]
==> 0 qdiscs <==
[{"kind":"htb","handle":"1:","root":true,"refcnt":3,"options":{"r2q":10,"default":"0x0"}},\
{"kind":"bfifo","handle":"1003:","parent":"1:3","options":{"limit":625000}}]
==> 0 classes <==
class htb 1:3 root leaf 1003: prio 0 rate 100Mbit ceil 100Mbit burst 25000b cburst 25000b
==> 0 filters <==
filter parent 1: protocol ip pref 1 u32 chain 0
filter parent 1: protocol ip pref 1 u32 chain 0 fh 800: ht divisor 1
filter parent 1: protocol ip pref 1 u32 chain 0 fh 800::800 order 2048 key *flowid 1:3 not_in_hw
  match 0a000002/ffffffff at 16
==> rules <==
-P PREROUTING ACCEPT
-P INPUT ACCEPT
-P FORWARD ACCEPT
-P OUTPUT ACCEPT
-P POSTROUTING ACCEPT
-N fedtest-count-0
-N fedtest-links
-A PREROUTING -j fedtest-count-0
-A PREROUTING -j fedtest-links
-A fedtest-count-0 -s 10.0.0.2/32
-A fedtest-links -i eth0 -m statistic --mode random --probability 0.00999999978 -j DROP
==> queues <==
==> delays <==
"""
    assert differences(commands, printed) == []


def test_netems_options_as_tc_prints_them_are_understood() -> None:
    commands = apply.plan_commands(plan_of(HOSTS % (EVERY, "")), Mechanism.NETEM)["a"]
    leaf = (
        '[{"kind":"htb","handle":"1:","root":true},{"kind":"netem","handle":"1002:","parent":"1:2","options":{"limit":1089,'
        '"delay":{"delay":0.005,"jitter":0.001,"correlation":0},'
        '"loss-random":{"loss":0.001,"correlation":0},'
        '"duplicate":{"duplicate":0.01,"correlation":0},'
        '"reorder":{"reorder":0.02,"correlation":0},'
        '"corrupt":{"corrupt":0.005,"correlation":0},"ecn":false,"gap":1}}]'
    )
    there = read_back(commands).split("==> 0 qdiscs <==\n")
    rest = there[1].partition("\n")[2]
    assert differences(commands, f"{there[0]}==> 0 qdiscs <==\n{leaf}\n{rest}") == []


def test_an_attachment_without_an_address_receives_on_no_way() -> None:
    text = HOSTS.replace("name: ib0, ip: 10.0.0.2", "name: ib0, ip: none")
    plan = plan_of(text % ("link: {delay: 5ms}", ""))
    refuse_impossible(plan, Mechanism.QUEUE)
    found = apply.plan_commands(plan, Mechanism.QUEUE)
    assert not found["b"].rules
    assert found["a"].rules


class TestForwarded:
    """What a host forwards has another's address, and the conditions of the way that it came."""

    TEXT = """
fedtest: 1
name: s
networks: {lan: {}, wan: {subnet: 10.1.0.0/24}}
hosts:
  a: {nics: {lan: eth0}, gateway: r}
  r: {nics: {lan: eth0, wan: {name: eth1, ip: 10.1.0.9, link: {delay: 150ms}}}, forward: true}
  q: {nics: {lan: eth0, wan: {name: eth1, ip: 10.1.0.8%s}}%s}
  x: {nics: {wan: {name: eth0, ip: 10.1.0.2}}}
  z: {nics: {wan: {name: eth0, ip: 10.1.0.3}}, gateway: r}
"""

    def test_it_is_treated_as_what_the_host_sends_itself(self) -> None:
        found = apply.plan_commands(plan_of(self.TEXT % ("", "")), Mechanism.QUEUE)["z"]
        rules = [" ".join(rule[2:]) for rule in found.rules]
        assert rules == [
            "-s 10.1.0.8/32 -i eth0 -j RETURN",
            "-s 10.1.0.2/32 -i eth0 -j RETURN",
            "-i eth0 -j NFQUEUE --queue-num 1 --queue-bypass",
        ]

    def test_two_that_forward_differently_to_one_are_refused(self) -> None:
        plan = plan_of(self.TEXT % ("", ", forward: true"))
        with pytest.raises(InvalidError, match="z on wan from r and q"):
            refuse_impossible(plan, Mechanism.QUEUE)
        refuse_impossible(plan, Mechanism.NETEM)


class TestChange:
    """What a fault does to conditions that are there: nothing to those that stay."""

    TEXT = """
fedtest: 1
name: s
networks:
  data: {link: {rate: 100mbit, delay: 5ms%s}}
  more: {link: {rate: 1gbit%s}}
hosts:
  a: {nics: {data: eth0, more: eth1}}
  b: {nics: {data: eth0, more: eth1}}
"""

    def change(self, *after: str) -> str:
        old, new = (
            apply.plan_commands(plan_of(self.TEXT % words), Mechanism.QUEUE)["a"]
            for words in (("", ", loss: 5%"), after)
        )
        return apply.script(new, old).partition("==>")[0]

    def test_nothing_is_done_where_nothing_changes(self) -> None:
        found = self.change("", ", loss: 5%")
        assert not any(word in found for word in ("tc qdisc", "kill", "iptables -w -t mangle -D"))

    def test_another_networks_packets_are_delayed_all_the_time(self) -> None:
        found = self.change("", ", loss: 10%")
        assert "kill" not in found
        assert "dev eth" not in found
        steps = [line for line in found.splitlines() if "PREROUTING" in line or " -E " in line]
        assert steps == [
            "iptables -w -t mangle -I PREROUTING -j fedtest-links-next",
            "iptables -w -t mangle -D PREROUTING -j fedtest-links",
            "iptables -w -t mangle -E fedtest-links-next fedtest-links",
        ]

    def test_an_interfaces_rate_is_made_anew_alone(self) -> None:
        found = self.change(", queue: 100kB", ", loss: 5%")
        assert "tc qdisc del dev eth0 root" in found
        assert "dev eth1" not in found
        assert "iptables -w -t mangle -F" not in found

    @pytest.mark.parametrize("name", ["delay", "iptables", "dev", "tc"])
    def test_an_interface_may_be_called_as_anything_else_is(self, name: str) -> None:
        plain, named = (
            apply.script(apply.plan_commands(plan_of(text), Mechanism.QUEUE)["a"])
            for text in (
                self.TEXT % ("", ""),
                self.TEXT.replace("a: {nics: {data: eth0", f"a: {{nics: {{data: {name}") % ("", ""),
            )
        )
        assert len(named.splitlines()) == len(plain.splitlines())
        assert f"tc qdisc add dev {name} root" in named

    def test_another_delay_begins_with_another_helper(self) -> None:
        found = self.change(", jitter: 1ms", ", loss: 5%")
        assert "kill" in found
        assert "iptables -w -t mangle -X fedtest-links " in found
        assert "dev eth" not in found
