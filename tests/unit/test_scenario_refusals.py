"""Everything a scenario file is refused for: one change to a good one, one problem.

Each case is what is replaced in BASE, by what (the problem is expected at the
`§`), the path it is reported under, and parts of the message.
"""

# ruff: noqa: E501 - a case is read best as one line
from __future__ import annotations

import pytest
from scenario_texts import BASE, assert_refused, changed, problems_of

from fedtest.scenario.load import loads

LONG = "x" * 33


def test_base_is_good() -> None:
    assert loads(BASE).scenario.name == "base"


@pytest.mark.parametrize(
    ("old", "new", "path", "fragments"),
    [
        # The head.
        ("fedtest: 1", "fedtest: §2", "fedtest", ["found 2", "allowed 1"]),
        ("fedtest: 1", "fedtest: §true", "fedtest", ["found true", "allowed 1"]),
        ("fedtest: 1", 'fedtest: §"1"', "fedtest", ['found "1"', "allowed 1"]),
        ("fedtest: 1\nname", "§name", "fedtest", ["a required key is missing"]),
        ("name: base\n", "name: §Base\n", "name", ["small letters", 'did you mean "base"']),
        ("name: base\n", "name: §a b\n", "name", ["small letters", 'did you mean "a-b"']),
        ("name: base\n", "name: §5\n", "name", ["not a string", "found 5", "in quotes"]),
        ("name: base\n", f"name: §{'x' * 41}\n", "name", ["41 characters", "at most 40"]),
        ("name: base\n", "name: base\n§sed: 1\n", "sed",
         ["an unknown key", "allowed fedtest, name", 'did you mean "seed"']),
        ("name: base\n", "name: base\npreload: [torch, §a b]\n", "preload[1]",
         ["not a module's name", "like torch.optim"]),
        ("name: base\n", "name: base\npreload: [§a..b]\n", "preload[0]", ["not a module's name"]),
        ("name: base\n", "name: base\npreload: [§import]\n", "preload[0]", ["not a module's name"]),
        ("name: base\n", "name: base\npreload: [§5]\n", "preload[0]", ["not a string"]),
        ("name: base\n", "name: base\npreload: §torch\n", "preload", ['found "torch"']),
        ("name: base\n", "name: base\nseed: §-1\n", "seed", ["too small", "at least 0"]),
        ("name: base\n", "name: base\nseed: §1.5\n", "seed", ["not a whole number", "found 1.5"]),
        ("name: base\n", "name: base\nseed: §true\n", "seed", ["not a whole number", "found true"]),
        ("name: base\n", "name: base\ndeadline: §10\n", "deadline", ["needs a unit", "ms, s, m, h"]),
        ("name: base\n", "name: base\ndeadline: §10min\n", "deadline",
         ['"min" is not a unit', "ms, s, m, h"]),
        ("name: base\n", "name: base\ndeadline: §10S\n", "deadline", ['did you mean "10s"']),
        ("name: base\n", "name: base\ndeadline: §0s\n", "deadline", ["more than 0"]),
        ("name: base\n", "name: base\ndescription: §[x]\n", "description", ["not a string", "a list"]),
        ("name: base\n", "name: base\nresolve: §mgnt\n", "resolve",
         ["no network", "allowed mgmt, data, spare", 'did you mean "mgmt"']),
        # Images.
        ("name: base\n", "name: base\nimage: §a b\n", "image", ["name of an image"]),
        ("name: base\n", "name: base\nbuild: {context: ., §dockerfle: x}\n", "build.dockerfle", ['"dockerfile"']),
        ("  c: {nics", "  c: §{image: x, build: ., nics", "hosts.c", ["both image and build"]),
        ("name: base\n", "name: base\nimage_optional: §true\n", "image_optional",
         ["without an image", "allowed true beside image or build"]),
        ("  c: {nics", "  c: {image_optional: §true, nics", "hosts.c.image_optional",
         ["without an image"]),
        ("name: base\n", "name: base\nimage: §a b\nimage_optional: true\n", "image", ["name of an image"]),
        # Networks.
        ("  spare: {}", "  spare: §null", "networks.spare", ["not a mapping", "written {}"]),
        ("  spare: {}", "  spare: {§subnt: 10.0.0.0/24}", "networks.spare.subnt",
         ["unknown key", "allowed subnet, gateway, ipv4", 'did you mean "subnet"']),
        ("  spare: {}", "  spare: {internal: §yes}", "networks.spare.internal",
         ["not true or false", 'found "yes"', "yes is a string"]),
        ("  spare: {}", f"  spare: {{}}\n  §{LONG}: {{}}", f"networks.{LONG}", ["33", "at most 32"]),
        ("  spare: {}", "  spare: {}\n  §a_b: {}", "networks.a_b", ["small letters", '"a-b"']),
        ("  spare: {}", "  spare: {subnet: §10.0.0.0}", "networks.spare.subnet", ["add a prefix"]),
        ("  spare: {}", "  spare: {subnet: §10.0.0.1/24}", "networks.spare.subnet",
         ["host bits", 'did you mean "10.0.0.0/24"']),
        ("  spare: {}", "  spare: {subnet: §10.0.0.0/33}", "networks.spare.subnet", ["not a subnet"]),
        ("  spare: {}", "  spare: {subnet: §300.0.0.0/24}", "networks.spare.subnet", ["not a subnet"]),
        ("  spare: {}", '  spare: {subnet: §"fd00::/64"}', "networks.spare.subnet", ["IPv6"]),
        ("  spare: {}", "  spare: {subnet: §0.0.0.0/0}", "networks.spare.subnet", ["too large"]),
        ("  spare: {}", "  spare: {subnet: §127.1.0.0/16}", "networks.spare.subnet", ["loopback"]),
        ("  spare: {}", "  spare: {subnet: §224.0.0.0/24}", "networks.spare.subnet", ["multicast"]),
        ("  spare: {}", "  spare: {subnet: §169.254.1.0/24}", "networks.spare.subnet", ["link-local"]),
        ("  spare: {}", "  spare: {subnet: §192.168.0.128/25}", "networks.spare.subnet",
         ["overlaps that of network data, 192.168.0.0/24"]),
        ("  spare: {}", "  spare: {subnet: §192.0.0.0/8}", "networks.spare.subnet", ["overlaps"]),
        ("  spare: {}", "  spare: {subnet: §10.0.0.0/31}", "networks.spare.subnet",
         ["room for 0 hosts, 1 are on it", "/30 or shorter"]),
        ("  spare: {}", "  spare: {gateway: §10.0.0.1}", "networks.spare.gateway", ["needs a subnet"]),
        ("192.168.0.0/24, gateway: 192.168.0.254", "192.168.0.0/24, gateway: §192.168.1.1",
         "networks.data.gateway", ["not in the network's subnet", "192.168.0.1 to 192.168.0.254"]),
        ("gateway: 192.168.0.254", "gateway: §192.168.0.255", "networks.data.gateway", ["broadcast"]),
        ("gateway: 192.168.0.254", "gateway: §here", "networks.data.gateway", ["not an address"]),
        # Hosts.
        ("  c: {nics: {spare: eth0}}", "  c: {nics: §{}}", "hosts.c.nics", ["too few", "at least 1"]),
        ("  c: {nics: {spare: eth0}}", "  c: §{}", "hosts.c.nics", ["a required key is missing"]),
        ("  c: {nics: {spare: eth0}}", "  c: {nics: §[eth0]}", "hosts.c.nics", ["not a mapping"]),
        ("  c: {nics: {spare: eth0}}", "  c: {nics: {§spar: eth0}}", "hosts.c.nics.spar",
         ["no network", 'did you mean "spare"']),
        ("hosts:\n", "hosts:\n  §localhost: {nics: {spare: eth0}}\n", "hosts.localhost", ["means something"]),
        ("hosts:\n", "hosts:\n  §a.b: {nics: {spare: eth0}}\n", "hosts.a.b", ["small letters"]),
        ("hosts:\n", "hosts:\n  §x-: {nics: {spare: eth0}}\n", "hosts.x-", ["no hyphen last"]),
        # Interfaces.
        ("data: ib0", "data: §this-is-16-chars", "hosts.b.nics.data.name", ["too long: 16", "1 to 15"]),
        ("data: ib0", 'data: §""', "hosts.b.nics.data.name", ["empty", "1 to 15"]),
        ("data: ib0", "data: §a/b", "hosts.b.nics.data.name", ['with "/"', "1 to 15"]),
        ("data: ib0", 'data: §"a:b"', "hosts.b.nics.data.name", ['with ":"']),
        ("data: ib0", "data: §a b", "hosts.b.nics.data.name", ['with " "']),
        ("data: ib0", "data: §lo", "hosts.b.nics.data.name", ["kernel", "not lo"]),
        ("data: ib0", 'data: §"."', "hosts.b.nics.data.name", ["leading hyphen or dot"]),
        ("data: ib0", "data: §eth%d", "hosts.b.nics.data.name", ["no '%'"]),
        ("data: ib0", "data: §-a", "hosts.b.nics.data.name", ["no leading hyphen"]),
        ("data: ib0", "data: §ib#0", "hosts.b.nics.data.name", ["no '%', '#'"]),
        ("data: ib0", """data: §"'ib" """, "hosts.b.nics.data.name", ["quotes"]),
        ("data: ib0", "data: §ib\\\\0", "hosts.b.nics.data.name", ["quotes, "]),
        ("data: ib0", "data: §ü0", "hosts.b.nics.data.name", ["ASCII"]),
        ("data: ib0", "data: §0", "hosts.b.nics.data.name", ["not a string", '"0" in quotes']),
        ("data: ib0", "data: §mgmt0", "hosts.b.nics.data.name", ["on network mgmt", "unique"]),
        ("data: ib0", "data: §{ip: 192.168.0.9}", "hosts.b.nics.data.name", ["required key"]),
        ("data: ib0", "data: {name: ib0, §vlan: 3}", "hosts.b.nics.data.vlan", ["allowed name, ip"]),
        # Addresses.
        ("data: ib0", "data: {name: ib0, ip: §192.168.1.1}", "hosts.b.nics.data.ip",
         ["not in the network's subnet 192.168.0.0/24"]),
        ("data: ib0", "data: {name: ib0, ip: §192.168.0.0}", "hosts.b.nics.data.ip", ["network itself"]),
        ("data: ib0", "data: {name: ib0, ip: §192.168.0.255}", "hosts.b.nics.data.ip", ["broadcast"]),
        ("data: ib0", "data: {name: ib0, ip: §192.168.0.254}", "hosts.b.nics.data.ip", ["gateway"]),
        ("data: ib0", "data: {name: ib0, ip: §192.168.0.1}", "hosts.b.nics.data.ip", ["host a has"]),
        ("data: ib0", "data: {name: ib0, ip: §192.168.0}", "hosts.b.nics.data.ip", ["not an address"]),
        ("spare: eth0}}", "spare: {name: eth0, ip: §10.0.0.1}}}", "hosts.c.nics.spare.ip",
         ["needs a subnet", "at networks.spare"]),
        # Data.
        ("mnist: /data", "§mnits: /data", "data.mnits", ["allowed mnist", 'did you mean "mnist"']),
        ("mnist: /data", "mnist: §data", "data.mnist", ["an absolute path"]),
        ("mnist: /data", "mnist: §/", "data.mnist", ["needs itself"]),
        ("mnist: /data", "mnist: §/proc/x", "data.mnist", ["needs itself"]),
        ("mnist: /data", "mnist: §/a/../b", "data.mnist", ["an absolute path"]),
        # Groups.
        ("groups:\n", "groups:\n  §hosts: {members: [a], network: data}\n", "groups.hosts",
         ["other template paths"]),
        ("members: [a, b]", "members: [a, §d]", "groups.ring.members[1]",
         ["no host", "allowed a, b, c"]),
        ("members: [a, b]", "members: [a, b, §a]", "groups.ring.members[2]", ["twice"]),
        ("groups:\n", "groups:\n  x: {members: [b, §c], network: data}\n", "groups.x.members[1]",
         ["host c is not on network data", "this one is on spare"]),
        ("members: [a, b]", "members: §[]", "groups.ring.members", ["too few"]),
        ("members: [a, b]", "members: §a", "groups.ring.members", ["not a list", 'found "a"']),
        ("network: data, port", "network: §dat, port", "groups.ring.network", ['did you mean "data"']),
        ("{members: [a, b], network: data, port: 23456}", "§{members: [a, b]}", "groups.ring.network",
         ["several networks", "allowed mgmt, data, spare"]),
        ("port: 23456", "port: §65536", "groups.ring.port", ["at most 65535"]),
        ("port: 23456", "port: §0", "groups.ring.port", ["at least 1"]),
        ("processes:\n", "  two: {members: [a], network: mgmt, port: §23456}\nprocesses:\n",
         "groups.two.port", ["group ring has the same master, a, and the same port"]),
        # Processes.
        ("hosts: ring", "hosts: §rign", "processes.trainer.hosts", ["no group", '"ring"']),
        ("hosts: ring", "hosts: §a", "processes.trainer.hosts", ["no group", "written [a]"]),
        ("hosts: [a, c]", "hosts: [a, §d]", "processes.other.hosts[1]", ["no host"]),
        ("hosts: [a, c]", "hosts: [a, §a]", "processes.other.hosts[1]", ["twice"]),
        ("hosts: [a, c]", "hosts: §[]", "processes.other.hosts", ["a string or a list"]),
        ("hosts: [a, c]", "hosts: §5", "processes.other.hosts", ["a string or a list", "found 5"]),
        ('run: ["true"]', "run: §{a: b}", "processes.other.run", ["a string or a list"]),
        ('run: ["true"]', 'run: ["true", §5]', "processes.other.run[1]", ["not a string", "quotes"]),
        ('run: ["true"]', 'run: §["", x]', "processes.other.run", ["without a program"]),
        ('run: "true"', 'run: §" "', "processes.trainer.run", ["nothing but white space"]),
        ('run: "true"', "run: §true", "processes.trainer.run", ["found true"]),
        ('run: "true"', 'run: "true", env: {A: §1}', "processes.trainer.env.A",
         ["not a string", "found 1", 'it is a string: "1"']),
        ('run: "true"', 'run: "true", env: {§1A: x}', "processes.trainer.env.1A", ["no digit first"]),
        ('run: "true"', 'run: "true", env: {§A=B: x}', "processes.trainer.env.A=B", ["letters"]),
        ('run: "true"', 'run: "true", user: §a b', "processes.trainer.user", ["user:group"]),
        ('run: "true"', 'run: "true", deadline: §5', "processes.trainer.deadline", ["needs a unit"]),
        ('run: "true"', 'run: "true", §comand: x', "processes.trainer.comand", ["unknown key"]),
        # Checks.
        ("  - exit: {process: trainer, code: 0}", "  - §{}", "checks[0]",
         ["none of exit, log, value, bytes, packets, sockets, files, reach, time, done", "exactly one"]),
        ("  - exit: {process: trainer, code: 0}", "  - §exti: {process: trainer}", "checks[0].exti",
         ["unknown key", 'did you mean "exit"']),
        ("  - exit: {process: trainer, code: 0}",
         "  - §exit: {process: trainer}\n    value: {process: trainer, name: x, across: equal}",
         "checks[0]", ["both exit and value", "exactly one"]),
        ("  - exit: {process: trainer, code: 0}",
         "  - {id: x, exit: {process: other}}\n  - {id: §x, exit: {process: trainer}}",
         "checks[1].id", ["another check has this id"]),
        ("exit: {process: trainer, code: 0}", "exit: {process: §trainr}", "checks[0].exit.process",
         ["no process", 'did you mean "trainer"']),
        ("exit: {process: trainer, code: 0}", "exit: {process: trainer, host: §d}",
         "checks[0].exit.host", ["no host"]),
        ("exit: {process: trainer, code: 0}", "exit: {process: trainer, host: §c}",
         "checks[0].exit.host", ["trainer does not run on this host", "allowed a, b"]),
        ("code: 0", "code: §256", "checks[0].exit.code", ["at most 255"]),
        ("code: 0", 'code: §"0"', "checks[0].exit.code", ["not a whole number"]),
        ("exit: {process: trainer, code: 0}", "value: §{process: trainer, name: x}",
         "checks[0].value", ["none of each, across"]),
        ("exit: {process: trainer, code: 0}",
         'value: §{process: trainer, name: x, each: "> 1", across: equal}', "checks[0].value",
         ["both each and across"]),
        ("exit: {process: trainer, code: 0}", "value: {process: trainer, name: x, each: §5}",
         "checks[0].value.each", ["not a comparison", ">= > <= < == !="]),
        ("exit: {process: trainer, code: 0}", 'value: {process: trainer, name: x, each: §"=> 5"}',
         "checks[0].value.each", ["not a comparison"]),
        ("exit: {process: trainer, code: 0}", 'value: {process: trainer, name: x, each: §"> abc"}',
         "checks[0].value.each", ["needs a number"]),
        ("exit: {process: trainer, code: 0}", "value: {process: trainer, name: x, across: §same}",
         "checks[0].value.across", ["allowed equal"]),
        ("group: ring, network", "group: §rign, network", "checks[1].bytes.group", ['"ring"']),
        ("group: ring, network: data", "group: ring, network: §dta", "checks[1].bytes.network", ['"data"']),
        ("group: ring, network: data", "group: §ring, network: spare", "checks[1].bytes.group",
         ["host a is not on network spare"]),
        ("group: ring, network: data", "host: §c, network: data", "checks[1].bytes.host",
         ["host c is not on network data"]),
        ("bytes: {group: ring, network", "bytes: §{network", "checks[1].bytes", ["none of group, host"]),
        ("bytes: {group: ring, network", "bytes: §{group: ring, host: a, network", "checks[1].bytes",
         ["both group and host"]),
        ("direction: tx", "direction: §out", "checks[1].bytes.direction", ["allowed tx or rx"]),
        ("bytes: {group: ring, network: data, direction: tx, min: 5MB}",
         "bytes: §{group: ring, network: data, direction: tx}", "checks[1].bytes",
         ["neither min nor max"]),
        ("bytes: {group: ring, network: data, direction: tx, min: 5MB}",
         "bytes: §{group: ring, network: data, direction: tx, min: 5MB, max: 1MB}",
         "checks[1].bytes", ["nothing can hold", "min is 5MB, max is 1MB"]),
        ("min: 5MB", "min: §5mb", "checks[1].bytes.min", ['"mb" is not a unit', "KiB", '"5MB"']),
        ("min: 5MB", "min: §5000", "checks[1].bytes.min", ["needs a unit", "B, kB, MB"]),
        ("min: 5MB", "min: §1.5B", "checks[1].bytes.min", ["finer"]),
        ("exit: {process: trainer, code: 0}", "sockets: {process: trainer, local: §here}",
         "checks[0].sockets.local", ["not an address on host a", 'found "here"', "nics.NETWORK.ip"]),
        ("exit: {process: trainer, code: 0}",
         "sockets: {process: trainer, local: §'${{ nics.data.name }}'}", "checks[0].sockets.local",
         ["not an address", 'found "eth0"']),
        ("exit: {process: trainer, code: 0}",
         "sockets: {process: trainer, local: 10.0.0.1, ignore_port: §0}",
         "checks[0].sockets.ignore_port", ["at least 1"]),
    ],
)  # fmt: skip
def test_each_mistake_is_one_problem_at_its_place(
    old: str, new: str, path: str, fragments: list[str]
) -> None:
    assert_refused(changed(old, new), path, *fragments)


def test_all_problems_are_told_at_once_in_the_order_of_the_file() -> None:
    text = (
        BASE.replace("name: base", "name: Base")
        .replace("gateway: 192.168.0.254", "gateway: 192.168.0.254, gateway: 192.168.0.253")
        .replace("data: ib0", "data: lo")
        .replace("members: [a, b]", "members: [a, b, d]")
        .replace('run: "true"', 'run: "${{ ring.rnk }}", env: {A: 1}')
        .replace("min: 5MB", "min: 5mb")
        .replace("process: trainer", "process: trainr")
    )
    assert [(problem.line, problem.path) for problem in problems_of(text)] == [
        (2, "name"),
        (5, "networks.data.gateway"),
        (9, "hosts.b.nics.data.name"),
        (13, "groups.ring.members[2]"),
        (15, "processes.trainer.run"),
        (15, "processes.trainer.env.A"),
        (18, "checks[0].exit.process"),
        (19, "checks[1].bytes.min"),
    ]


def test_a_part_that_is_wrong_does_not_make_others_wrong() -> None:
    """Host b has a wrong interface name, but it is declared: only that is reported."""
    (problem,) = problems_of(changed("data: ib0", "data: lo"))
    assert problem.path == "hosts.b.nics.data.name"
    (problem,) = problems_of(changed("data: {subnet: 192.168.0.0/24", "data: {subnet: 192.168.0.0"))
    assert problem.path == "networks.data.subnet"
    (problem,) = problems_of(changed("port: 23456", "port: x"))
    assert problem.path == "groups.ring.port"


def test_of_very_many_problems_the_first_are_told_and_the_rest_counted() -> None:
    problems = problems_of(BASE + "".join(f"x{n}: 1\n" for n in range(500)))
    assert len(problems) == 201
    assert str(problems[-1]) == "s.yaml: and 300 more problems"


def test_more_than_a_thousand_of_a_kind_are_refused() -> None:
    many = "".join(f"  n{n}: {{}}\n" for n in range(1001))
    assert "at most 1000" in str(problems_of(changed("  spare: {}\n", "  spare: {}\n" + many))[0])
