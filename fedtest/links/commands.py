"""The commands for one host, and what must be found afterwards."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fedtest.links.shell import background

if TYPE_CHECKING:
    from pathlib import Path

Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Class:
    """One class of htb that must be there. `parent`: `1:` or a class."""

    interface: str
    number: str
    rate: int


@dataclass(frozen=True, slots=True)
class Leaf:
    """What queues under a class: its kind, and those options that were asked for."""

    interface: str
    parent: str
    kind: str
    options: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Filter:
    """Which packets go into a class: those to an address."""

    interface: str
    address: str
    number: str


@dataclass
class Commands:
    """What is to be run in one host's network, and what must then be read back.

    `lines` are shell, in order, and `about` for each what it is about: "dev" and
    an interface, a program of ours, or "iptables"; `shown` is the same for people,
    without our programs' text. `interfaces` are all that the host has. `rules` are those of
    the chain for links, as iptables prints them; `queues` what the helper that
    delays is given for each queue, its number first.
    """

    interfaces: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    about: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    sizes: dict[str, dict[str, int]] = field(default_factory=dict)
    classes: list[Class] = field(default_factory=list)
    leaves: list[Leaf] = field(default_factory=list)
    filters: list[Filter] = field(default_factory=list)
    rules: list[Words] = field(default_factory=list)
    queues: list[str] = field(default_factory=list)

    def run(self, *words: object) -> None:
        """A command; its words are quoted."""
        about = str(words[0])
        if about in {"ip", "tc"}:
            about = f"dev {words[words.index('dev') + 1]}"
        self.shell(shlex.join(map(str, words)), about)

    def shell(self, line: str, about: str = "") -> None:
        """A piece of shell as it is."""
        self.lines.append(line)
        self.about.append(about)
        self.shown.append(line)

    def part(self, about: str) -> list[str]:
        """The lines about one thing."""
        return [line for line, of in zip(self.lines, self.about, strict=True) if of == about]

    def start(self, name: str, program: Path, *arguments: str, ready: str) -> None:
        """A program of ours that goes on, once it is `ready`."""
        self.lines.append(background(name, program, *arguments, ready=ready))
        self.about.append(name)
        self.shown.append(f"python3 {program.name} {' '.join(arguments)} &")

    def size(self, interface: str, name: str, value: int) -> None:
        """Something that `ip link set` sets and `ip link show` tells under the same name."""
        self.run("ip", "link", "set", "dev", interface, name, value)
        self.sizes.setdefault(interface, {})[name] = value
