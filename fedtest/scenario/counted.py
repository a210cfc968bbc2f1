"""`count: 8` of a host: the file's one host becomes eight, before anything else looks at it.

What follows (the model, references, templates, the plan) knows only single
hosts. What is found wrong with them is told of the file's one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from fedtest.scenario.base import MOST
from fedtest.scenario.problems import Finding, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from fedtest.scenario.problems import Loc

_FIXED = ("ip", "ip6", "mac")
"""Keys of an interface that only one host can have."""
_LISTS = {"any", "members", "hosts", "from", "to", "between", "sides"}
"""Keys under which lists are of hosts."""


@dataclass
class Counted:
    """`data` with every host by itself. `names`: what each name with a count stands for."""

    data: dict[str, Any]
    names: Mapping[str, list[str]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    _places: dict[Loc, list[int]] = field(default_factory=dict)
    """A list that grew -> of each of its items, which one of the file's it was."""

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Counted:
        """Plain data of a scenario, which may be wrong anywhere."""
        hosts = data.get("hosts")
        if not isinstance(hosts, dict):
            return cls(dict(data))
        counts = {name: part["count"] for name, part in hosts.items() if _has_count(part)}
        if not counts:
            return cls(dict(data))
        total = len(hosts) - len(counts) + sum(counts.values())
        if total > MOST:
            last = next(reversed(counts))
            message = f"too many hosts: {total} in all"
            wrong = Finding(("hosts", last, "count"), message, shown(counts[last]),
                            f"at most {MOST} hosts in all")  # fmt: skip
            # With one of each kind, the rest can be looked at.
            counts = dict.fromkeys(counts, 1)
            found = [wrong]
        else:
            found = []
        names = {name: [f"{name}-{at}" for at in range(count)] for name, count in counts.items()}
        self = cls(dict(data), names, found)
        self._expand(hosts)
        return self

    def origin(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """What is wrong, by where it is in the file; what is wrong with all of a kind, once."""
        of = {name: base for base, names in self.names.items() for name in names}
        seen: set[tuple[Loc, str, int | None]] = set()
        for finding in findings:
            loc = self._origin(finding.loc, of)
            if loc is None:
                yield finding
                continue
            # The same thing is said of each: with its name, or without.
            words = " ".join(of.get(word, word) for word in finding.message.split(" "))
            if (loc, words, finding.template) not in seen:
                seen.add((loc, words, finding.template))
                yield replace(finding, loc=loc)

    def _origin(self, loc: Loc, of: Mapping[str, str]) -> Loc | None:
        """Where in the file it is, if that may be the place of several."""
        if len(loc) > 1 and loc[0] == "hosts" and loc[1] in of:
            return ("hosts", of[str(loc[1])], *loc[2:])
        for end in range(1, len(loc)):
            at = loc[end]
            places = self._places.get(loc[:end])
            if places is not None and isinstance(at, int) and at < len(places):
                return (*loc[:end], places[at], *loc[end + 1 :])
        return None

    def _expand(self, hosts: dict[str, Any]) -> None:
        expanded: dict[str, Any] = {}
        for name, part in hosts.items():
            if name not in self.names:
                expanded.setdefault(name, part)
                continue
            one = self._without_fixed(name, part)
            for index, single in enumerate(self.names[name]):
                if single in hosts:
                    message = f"one of these is host {single}, and there is another of that name"
                    self.findings.append(
                        Finding(("hosts", name, "count"), message, allowed="names of their own")
                    )
                expanded[single] = {**one, "index": index}
        self.data["hosts"] = expanded
        for section, walk in (
            ("groups", self._lists),
            ("processes", self._lists),
            ("faults", self._lists),
            ("checks", self._lists),
            ("networks", self._networks),
        ):
            if section in self.data:
                self.data[section] = walk(self.data[section], (section,))

    def _without_fixed(self, name: str, part: dict[str, Any]) -> dict[str, Any]:
        """One of them: what only one host can have is refused, and left out."""
        one = {key: value for key, value in part.items() if key not in {"count", "index"}}
        if "index" in part:
            self.findings.append(
                Finding(
                    ("hosts", name, "index"),
                    "both count and index",
                    allowed="at most one of count and index",
                    at_key=True,
                )
            )
        nics = part.get("nics")
        if not isinstance(nics, dict) or part["count"] == 1:
            return one
        one["nics"] = dict(nics)
        for network, nic in nics.items():
            if not isinstance(nic, dict):
                continue
            one["nics"][network] = {k: v for k, v in nic.items() if k not in _FIXED}
            for key in _FIXED:
                if nic.get(key) is not None:
                    message = f"{part['count']} hosts cannot have the same"
                    self.findings.append(
                        Finding(
                            ("hosts", name, "nics", network, key),
                            message,
                            shown(nic[key]),
                            f"no {key} together with count, or hosts that are written out",
                        )
                    )
        return one

    def _lists(self, value: Any, loc: Loc) -> Any:
        """Names in lists of hosts, anywhere below."""
        if isinstance(value, dict):
            return {key: self._lists(item, (*loc, key)) for key, item in value.items()}
        if not isinstance(value, list):
            return value
        key = next(part for part in reversed(loc) if isinstance(part, str))
        if key not in _LISTS:
            return [self._lists(item, (*loc, at)) for at, item in enumerate(value)]
        grown: list[Any] = []
        places = []
        for at, item in enumerate(value):
            several = self.names.get(item) if isinstance(item, str) else None
            new = [self._lists(item, (*loc, len(grown)))] if several is None else several
            grown += new
            places += [at] * len(new)
        if len(grown) != len(value) or grown != value:
            self._places[loc] = places
        return grown

    def _networks(self, value: Any, loc: Loc) -> Any:
        """A pair of hosts is one way; a name in it that stands for several makes it as many."""
        if not isinstance(value, dict):
            return value
        networks = {}
        for name, network in value.items():
            networks[name] = network
            pairs = network.get("pairs") if isinstance(network, dict) else None
            if isinstance(pairs, list):
                each = []
                left = MOST
                for pair in pairs[:MOST]:
                    each.append(list(islice(self._ways(pair), left + 1)))
                    left = max(left - len(each[-1]), 0)
                if sum(map(len, each)) > MOST >= len(pairs):
                    message = "too many ways between single hosts"
                    self.findings.append(
                        Finding((*loc, name, "pairs"), message, allowed=f"at most {MOST}")
                    )
                    each = [some[:1] for some in each]
                each += [[pair] for pair in pairs[MOST:]]
                networks[name] = {**network, "pairs": [way for some in each for way in some]}
                self._places[*loc, name, "pairs"] = [
                    at for at, some in enumerate(each) for _ in some
                ]
        return networks

    def _ways(self, pair: Any) -> Iterator[Any]:
        if not isinstance(pair, dict) or not {
            end for end in ("from", "to") if self._several(pair.get(end))
        }:
            yield pair
            return
        ends: dict[str, list[Any]] = {
            end: self._several(pair.get(end)) or [pair.get(end)] for end in ("from", "to")
        }
        for sender in ends["from"]:
            for receiver in ends["to"]:
                # Of one and the same kind, nobody is both.
                if sender is None or sender != receiver:
                    way = {**pair, "from": sender, "to": receiver}
                    yield {key: value for key, value in way.items() if value is not None}

    def _several(self, name: Any) -> list[str] | None:
        return self.names.get(name) if isinstance(name, str) else None


def _has_count(part: Any) -> bool:
    """A count that can be followed; another is the model's to refuse."""
    if not isinstance(part, dict):
        return False
    count = part.get("count")
    return type(count) is int and 1 <= count <= MOST
