"""What is there against what was asked for, from what iproute2 and iptables print."""

from __future__ import annotations

import json
import re
import shlex
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Any

from fedtest.links.queueing import CHAIN, DELAY, LISTENING
from fedtest.links.shaping import USUAL_SEGMENTS
from fedtest.links.shell import state_of
from fedtest.sections import sections

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fedtest.links.commands import Commands, Filter, Leaf, Words

_CLASS = re.compile(r"^class htb (\S+) .*?\bceil (\S+)", re.MULTILINE)
_RATE = re.compile(r"([0-9.]+)([KMGT]?)bit")
_FACTORS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_FILTER = re.compile(r"flowid (\S+).*?match ([0-9a-f]{8})/ffffffff at 16", re.DOTALL)
_UNASKED = "is there, and nothing asks for it"
_CLOSE = 0.002
"""tc prints rates with four digits, iptables shares in 2^-31."""


def reading(commands: Commands) -> str:
    """Shell that prints all that is compared, each piece under a heading."""
    lines = []
    for at, interface in enumerate(commands.interfaces):
        name = shlex.quote(interface)
        lines += [
            f'echo "==> {at} link <=="; ip -d -j link show dev {name}',
            f'echo "==> {at} qdiscs <=="; tc -j qdisc show dev {name}',
            f'echo "==> {at} classes <=="; tc class show dev {name}',
            f'echo "==> {at} filters <=="; tc filter show dev {name}',
        ]
    # Where nothing ever listened there is no such file, and who has ended has none.
    words = f'pid=$(cat "{state_of(DELAY)}.pid") && tr "\\0" "\\n" <"/proc/$pid/cmdline"'
    # A table that a kernel has not has no rules.
    missing = "" if commands.rules else " 2>/dev/null || true"
    return "\n".join([
        *lines,
        f'echo "==> rules <=="; iptables -w -t mangle -S{missing}',
        f'echo "==> queues <=="; cat {LISTENING} 2>/dev/null || true',
        f'echo "==> delays <=="; ( {words} | grep -Ex "[0-9:]+" ) 2>/dev/null || true',
    ])  # fmt: skip


def differences(commands: Commands, told: str) -> list[str]:
    """What is not as asked for, in words; `told` is what `reading` printed.

    Both ways: what should be there and is not, and what is there unasked.
    """
    parts = sections(told)
    found: list[str] = []
    for at, interface in enumerate(commands.interfaces):
        sizes = {"gso_max_segs": USUAL_SEGMENTS} | commands.sizes.get(interface, {})
        found += _sizes(sizes, interface, parts.get(f"{at} link", ""))
        found += _classes(commands, interface, parts.get(f"{at} classes", ""))
        found += _qdiscs(commands, interface, parts.get(f"{at} qdiscs", ""))
        found += _filters(commands, interface, parts.get(f"{at} filters", ""))
    found += _rules(commands.rules, parts.get("rules", ""))
    found += _queues(commands.queues, parts.get("queues", ""), parts.get("delays", ""))
    return found


def objects(text: str) -> list[dict[str, Any]]:
    """A list of objects as JSON; empty if that cannot be read."""
    try:
        found = json.loads(text)
    except ValueError:
        return []
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _sizes(wanted: dict[str, int], interface: str, text: str) -> Iterator[str]:
    there = next(iter(objects(text)), {})
    for name, value in wanted.items():
        if there.get(name) != value:
            yield f"{interface}: {name} should be {value}, it is {there.get(name)}"


def _classes(commands: Commands, interface: str, text: str) -> Iterator[str]:
    there = {number: _bits(rate) for number, rate in _CLASS.findall(text)}
    for item in commands.classes:
        if item.interface != interface:
            continue
        rate = there.pop(item.number, None)
        if rate is None:
            yield f"{interface}: class {item.number} is not there"
        elif not _close(rate, item.rate):
            yield f"{interface}: class {item.number} should have {item.rate} bit/s, it has {rate:g}"
    for number, rate in there.items():
        yield f"{interface}: class {number} with {rate:g} bit/s {_UNASKED}"


def _bits(text: str) -> float:
    match = _RATE.fullmatch(text)
    return float(match[1]) * _FACTORS[match[2]] if match else 0.0


def _qdiscs(commands: Commands, interface: str, text: str) -> Iterator[str]:
    # Those that the kernel makes by itself have the handle 0.
    made = [item for item in objects(text) if item.get("handle") != "0:"]
    there = {item.get("parent", "the root"): item for item in made}
    if any(item.interface == interface for item in commands.classes):
        root = there.pop("the root", {}).get("kind")
        if root != "htb":
            yield f"{interface}: the root should be htb, it is {root or 'the usual'}"
    for item in commands.leaves:
        if item.interface == interface:
            yield from _leaf(item, there.pop(item.parent, {}))
    for parent, other in there.items():
        yield f"{interface}: {other.get('kind')} under {parent} {_UNASKED}"


def _leaf(wanted: Leaf, there: dict[str, Any]) -> Iterator[str]:
    where = f"{wanted.interface}: {wanted.kind} under {wanted.parent}"
    if there.get("kind") != wanted.kind:
        yield f"{where} is not there"
        return
    options = _options(there.get("options", {}))
    for name, value in wanted.options:
        if not _close(options.get(name, 0.0), value):
            yield f"{where}: {name} should be {value:g}, it is {options.get(name, 0.0):g}"


def _options(options: dict[str, Any]) -> dict[str, float]:
    """tc's own nesting, flat: `"loss-random": {"loss": 0.01}` is loss 0.01."""
    found: dict[str, float] = {}
    for name, value in options.items():
        if isinstance(value, dict):
            found |= {key: item for key, item in value.items() if isinstance(item, (int, float))}
        elif isinstance(value, (int, float)):
            found[name] = value
    return found


def _filters(commands: Commands, interface: str, text: str) -> Iterator[str]:
    there = {(address, number) for number, address in _FILTER.findall(text)}
    wanted = {
        (_hex(item), item.number): item for item in commands.filters if item.interface == interface
    }
    for key, item in wanted.items():
        if key not in there:
            yield f"{interface}: what goes to {item.address} is not in class {item.number}"
    for address, number in sorted(there - wanted.keys()):
        yield f"{interface}: a filter for {IPv4Address(int(address, 16))} to {number} {_UNASKED}"


def _hex(item: Filter) -> str:
    return f"{int(IPv4Address(item.address)):08x}"


def _rules(wanted: list[Words], text: str) -> Iterator[str]:
    every = [tuple(shlex.split(line)) for line in text.splitlines() if line.startswith("-A ")]
    there = [rule for rule in every if rule[1] == CHAIN]
    if len(there) != len(wanted) or not all(map(_same, wanted, there)):
        yield f"{CHAIN} should have the rules {_lines(wanted)}, it has {_lines(there)}"
    jumps = [rule for rule in every if rule[-2:] == ("-j", CHAIN)]
    jump = ("-A", "PREROUTING", "-j", CHAIN)
    if wanted and jump not in jumps:
        yield f"packets do not come by the rules of {CHAIN}"
    for rule in jumps:
        if not wanted or rule != jump:
            yield f"{shlex.join(rule)} {_UNASKED}"


def _queues(wanted: list[str], listening: str, delays: str) -> Iterator[str]:
    there = {line.split()[0] for line in listening.splitlines() if line.split()}
    numbers = {item.partition(":")[0] for item in wanted}
    for number in sorted(numbers - there):
        yield f"nobody delays the packets of queue {number}"
    for number in sorted(there - numbers):
        yield f"a helper for queue {number} {_UNASKED}"
    if (found := delays.split()) != wanted:
        should, are = (" ".join(some) or "none" for some in (wanted, found))
        yield f"the delays should be {should}, they are {are}"


def _lines(rules: list[Words]) -> str:
    return "; ".join(map(shlex.join, rules)) or "none"


def _same(wanted: Words, there: Words) -> bool:
    return len(wanted) == len(there) and all(
        one == other or (before == "--probability" and _close(float(other), float(one)))
        for before, one, other in zip(("", *wanted), wanted, there, strict=False)
    )


def _close(found: float, wanted: float) -> bool:
    return abs(found - wanted) <= abs(wanted) * _CLOSE + 1e-9
