"""What is there against what was asked for, from what iproute2 and iptables print."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING, Any

from fedtest.links.queueing import CHAIN
from fedtest.sections import sections

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fedtest.links.commands import Commands, Filter, Leaf, Words

_CLASS = re.compile(r"^class htb (\S+) .*?\bceil (\S+)", re.MULTILINE)
_RATE = re.compile(r"([0-9.]+)([KMGT]?)bit")
_FACTORS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_FILTER = re.compile(r"flowid (\S+).*?match ([0-9a-f]{8})/ffffffff at 16", re.DOTALL)
_CLOSE = 0.002
"""tc prints rates with four digits, iptables shares in 2^-31."""


def reading(commands: Commands) -> str:
    """Shell that prints all that is compared, each piece under a heading."""
    lines = []
    for at, interface in enumerate(_interfaces(commands)):
        name = shlex.quote(interface)
        lines += [
            f'echo "==> {at} link <=="; ip -d -j link show dev {name}',
            f'echo "==> {at} leaves <=="; tc -j qdisc show dev {name}',
            f'echo "==> {at} classes <=="; tc class show dev {name}',
            f'echo "==> {at} filters <=="; tc filter show dev {name}',
        ]
    if commands.rules:
        lines += ['echo "==> rules <=="', f"iptables -w -t mangle -S {CHAIN}"]
        lines += ['echo "==> jump <=="', "iptables -w -t mangle -S PREROUTING"]
    if commands.queues:
        lines += ['echo "==> queues <=="', "cat /proc/net/netfilter/nfnetlink_queue"]
    return "\n".join(lines)


def differences(commands: Commands, told: str) -> list[str]:
    """What is not as asked for, in words; `told` is what `reading` printed."""
    parts = sections(told)
    found: list[str] = []
    for at, interface in enumerate(_interfaces(commands)):
        found += _sizes(commands.sizes.get(interface, {}), interface, parts.get(f"{at} link", ""))
        found += _classes(commands, interface, parts.get(f"{at} classes", ""))
        found += _leaves(commands, interface, parts.get(f"{at} leaves", ""))
        found += _filters(commands, interface, parts.get(f"{at} filters", ""))
    if commands.rules:
        found += _rules(commands.rules, parts.get("rules", ""))
        if f"-A PREROUTING -j {CHAIN}" not in parts.get("jump", "").splitlines():
            found.append(f"packets do not come by the rules of {CHAIN}")
    numbers = {line.split()[0] for line in parts.get("queues", "").splitlines() if line.split()}
    found += [
        f"nobody delays the packets of queue {number}"
        for number in commands.queues
        if str(number) not in numbers
    ]
    return found


def _interfaces(commands: Commands) -> list[str]:
    every = [*commands.sizes, *(item.interface for item in commands.classes)]
    return list(dict.fromkeys(every))


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
        rate = there.get(item.number)
        if rate is None:
            yield f"{interface}: class {item.number} is not there"
        elif not _close(rate, item.rate):
            yield f"{interface}: class {item.number} should have {item.rate} bit/s, it has {rate:g}"


def _bits(text: str) -> float:
    match = _RATE.fullmatch(text)
    return float(match[1]) * _FACTORS[match[2]] if match else 0.0


def _leaves(commands: Commands, interface: str, text: str) -> Iterator[str]:
    there = {item.get("parent"): item for item in objects(text)}
    for item in commands.leaves:
        if item.interface == interface:
            yield from _leaf(item, there.get(item.parent, {}))


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
    for item in commands.filters:
        if item.interface == interface and (_hex(item), item.number) not in there:
            yield f"{interface}: what goes to {item.address} is not in class {item.number}"


def _hex(item: Filter) -> str:
    return "".join(f"{int(part):02x}" for part in item.address.split("."))


def _rules(wanted: list[Words], text: str) -> Iterator[str]:
    there = [tuple(shlex.split(line)) for line in text.splitlines() if line.startswith("-A ")]
    if len(there) != len(wanted) or not all(map(_same, wanted, there)):
        yield (
            f"{CHAIN} should have the rules {_lines(wanted)}, "
            f"it has {_lines(there) if there else 'none'}"
        )


def _lines(rules: list[Words]) -> str:
    return "; ".join(shlex.join(rule) for rule in rules)


def _same(wanted: Words, there: Words) -> bool:
    return len(wanted) == len(there) and all(
        one == other or (before == "--probability" and _close(float(other), float(one)))
        for before, one, other in zip(("", *wanted), wanted, there, strict=False)
    )


def _close(found: float, wanted: float) -> bool:
    return abs(found - wanted) <= abs(wanted) * _CLOSE + 1e-9
