"""What scenarios are made of, and where decisions come from."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_T = TypeVar("_T")

NETWORK, HOST, GROUP = "network's name", "host's name", "group's name"

# Of every kind of value some; each leaf of the model takes those that it accepts.
POOL: tuple[Any, ...] = (
    *(1, 2, 0, 7, 80, 1500, 23456, 65535, True, False, 0.5, 1e-6, -1),
    *("1s", "500ms", "2m", "1h", "5ms", "200us", "0ms", "0.1%", "5%", "0%", "100%"),
    *("64kB", "5MB", "1MiB", "1GB", "100mbit", "1gbit", "64kbit", "30000-30100"),
    *("a", "name", "some-name", "n", "acc", "eth0", "enps1", "ib0", "A_VARIABLE", "PATH"),
    *(">= 0.97", "== done", '!= "x"', "== 3", "< 5", "== null", "equal", "SIGKILL", "TERM", 9),
    *("/data", "/tmp/model.pt", "/srv/a b", "image:tag", "registry.example/name@sha256", "."),
    *("10.20.0.0/24", "192.168.7.0/24", "10.20.0.10", "192.168.7.20", "0.0.0.0", "127.0.1.1"),
    *("fd00::/64", "fd00::10", "2001:db8::1", "02:42:0a:00:00:01", "1000:1000", "root"),
    *("(?P<n>[0-9]+)", "step=50 ", "^x$", "net.ipv4.tcp_syncookies", "ab" * 32, "0755", "rw"),
    *("sleep 1", "true", "a text\nof two lines", "\u00e9\u20ac \x85 \t'\"\\", "-", " "),
)

TEXTS = (
    *("echo hello", "$HOME ${HOME} $$", "a: b # c", "|", "- x", "\u2028", "\U0001f600", "x" * 300),
    *("${{ host.name }}", "${{ seed }}", "${{data.mnist}}", "$ {{ }}"),
)


class Choices(Protocol):
    """Where decisions come from: hypothesis, or a random generator."""

    def below(self, count: int) -> int:
        """A number from 0 up to, not including, `count`."""

    def text(self) -> str:
        """Any text that a scenario can have."""


class Random:
    """Decisions from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def below(self, count: int) -> int:
        return self._random.randrange(count)

    def text(self) -> str:
        return self._random.choice(TEXTS)


@dataclass
class World:
    """What is declared in the scenario that is being made: names by what the model calls them.

    `wanted`: keys of the model, with their parts' names, that it is to have if it can.
    """

    choices: Choices
    wanted: Collection[tuple[str, str]] = ()
    names: dict[str, list[str]] = field(default_factory=dict)

    def pick(self, items: Sequence[_T]) -> _T:
        return items[self.choices.below(len(items))]

    def often(self) -> bool:
        return self.choices.below(3) > 0

    def some(self, items: Collection[_T], least: int, most: int) -> list[_T]:
        """Different ones, at least `least` of them if there are so many."""
        left = list(items)
        least = min(least, len(left))
        count = least + self.choices.below(min(most, len(left)) - least + 1)
        return [left.pop(self.choices.below(len(left))) for _ in range(count)]

    def string(self) -> str:
        """A text, or a template that can be filled in."""
        kind = self.choices.below(6)
        if kind == 0:
            return self.choices.text()
        if kind > 3:
            # A name of whatever is declared: not every reference says what it refers to.
            names = [name for group in self.names.values() for name in group]
            return self.pick(names or ["a"])
        if kind == 1:
            return self.pick(TEXTS)
        if kind == 2:
            return str(self.pick(POOL))
        names = self.names
        network = self.pick(names.get(NETWORK) or ["data"])
        group = self.pick(names.get(GROUP) or ["ring"])
        host = self.pick(names.get(HOST) or ["a"])
        return self.pick(
            (
                f"${{{{ nics.{network}.ip }}}}",
                f"${{{{ nics.{network}.name }}}}",
                f"x ${{{{hosts.{host}.nics.{network}.ip}}}} y",
                f"${{{{ {group}.rank }}}} of ${{{{ {group}.size }}}}",
                f"tcp://${{{{ {group}.master }}}}:${{{{ {group}.port }}}}",
            )
        )
