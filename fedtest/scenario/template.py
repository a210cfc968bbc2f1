"""`${{ path }}`: look-ups of what a host cannot know by itself.

There are no expressions, and every other `$` is the shell's. A path is walked
through a tree of mappings that ends in strings; where it breaks, the error
says what there would have been.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from fedtest.scenario.problems import listed, shown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from fedtest.plan import Plan
    from fedtest.scenario.model import Scenario

OPEN = "${{"

# Up to what closes it, or to where it turns out that nothing does.
_TEMPLATE = re.compile(r"\$\{\{(.*?)(?:(\}\})|(?=\$\{\{)|\Z)", re.DOTALL)
_SECRET = re.compile(r"\$\{\{ secrets\.([A-Za-z0-9_-]+) \}\}")
_PATH = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")


class Nic(NamedTuple):
    """What templates know of an interface."""

    name: str
    ip: str | None
    ip6: str | None = None


class GroupLike(Protocol):
    """A group of the model or of a plan."""

    @property
    def members(self) -> Sequence[str]: ...
    @property
    def network(self) -> str: ...
    @property
    def port(self) -> int: ...


class Anything:
    """Stands for a part of the file that is wrong itself: no path into it is judged."""


ANYTHING = Anything()


@dataclass(frozen=True, slots=True)
class PerHost:
    """What differs from host to host; `absent` says why a host has nothing here."""

    values: Mapping[str, Tree | str | Anything]
    absent: str = ""


Tree = Mapping[str, "Tree | PerHost | str | Anything"]


class View(NamedTuple):
    """The tree of values, as one host sees it."""

    tree: Tree
    host: str


class TemplateError(ValueError):
    """A template that cannot be filled in; `number` counts the `${{` of the text from 0.

    `wrong` is the part of the path that is none of `names`, if that is it.
    """

    def __init__(
        self,
        number: int,
        message: str,
        *,
        found: str,
        allowed: str = "",
        wrong: str | None = None,
        names: Collection[str] | None = None,
    ) -> None:
        super().__init__(f"{message}; found {found}")
        self.number = number
        self.message = message
        self.found = found
        self.allowed = allowed
        self.wrong = wrong
        self.names = names


class Lookups:
    """Everything that templates can name, in one tree for all hosts.

    A host or group that is None is a part of the file that is wrong itself.
    """

    def __init__(
        self,
        hosts: Mapping[str, Mapping[str, Nic] | None],
        groups: Mapping[str, GroupLike | None],
        data: Mapping[str, str] | None,
        seed: int,
        *,
        indexes: Mapping[str, int],
        secrets: Collection[str] = (),
    ) -> None:
        nics = {name: ANYTHING if own is None else _nics(own) for name, own in hosts.items()}
        self._tree: Tree = {
            "host": {
                "name": PerHost({name: name for name in hosts}),
                "index": PerHost({name: str(index) for name, index in indexes.items()}),
            },
            "nics": PerHost(nics),
            "hosts": {name: {"nics": own} for name, own in nics.items()},
            "data": ANYTHING if data is None else dict(data),
            "seed": str(seed),
            # They stay as they are, so that no plan has their values; see `fill_secrets`.
            "secrets": {name: secret_template(name) for name in secrets},
            **{
                name: ANYTHING if group is None else _group(name, group, hosts)
                for name, group in groups.items()
            },
        }

    def on(self, host: str) -> View:
        """The values as `host` sees them."""
        return View(self._tree, host)


def _nics(nics: Mapping[str, Nic]) -> Tree:
    """An address that an interface has not got cannot be named."""
    return {
        network: {key: value for key, value in nic._asdict().items() if value is not None}
        for network, nic in nics.items()
    }


def _group(name: str, group: GroupLike, hosts: Mapping[str, Mapping[str, Nic] | None]) -> Tree:
    nics = hosts.get(group.members[0])
    nic = None if nics is None else nics.get(group.network)
    ranks = {member: str(rank) for rank, member in enumerate(group.members)}
    return {
        "master": (nic and (nic.ip or nic.ip6)) or ANYTHING,
        "port": str(group.port),
        "size": str(len(group.members)),
        "rank": PerHost(ranks, f"the host is not a member of group {name}"),
    }


def expand(text: str, view: View) -> str:
    """`text` with every template filled in; raises the first TemplateError."""
    parts = []
    at = 0
    for number, match in enumerate(_TEMPLATE.finditer(text)):
        parts += [text[at : match.start()], _fill(number, match, view)]
        at = match.end()
    return "".join(parts) + text[at:]


def errors(text: str, view: View) -> Iterator[TemplateError]:
    """What is wrong with each template of `text`."""
    for number, match in enumerate(_TEMPLATE.finditer(text)):
        try:
            _fill(number, match, view)
        except TemplateError as error:
            yield error


def secret_template(name: str) -> str:
    """How a secret is written in a text whose other templates are filled in."""
    return f"{OPEN} secrets.{name} }}}}"


def fill_secrets(text: str, values: Mapping[str, str]) -> str:
    """A text of a plan with the secrets in it, as only what it is for may see it."""
    return _SECRET.sub(lambda match: values.get(match[1], match[0]), text)


def expand_check(scenario: Scenario, plan: Plan, text: str, host: str) -> str:
    """A template of a check, such as `sockets.local`, as it is on `host`."""
    del scenario  # the plan has everything; named so that callers need not know
    return expand(text, plan_lookups(plan).on(host))


def plan_lookups(plan: Plan) -> Lookups:
    """What templates can name once everything is concrete."""
    hosts = {
        host.name: {
            item.network: Nic(
                item.interface,
                str(item.address.ip) if item.ipv4 else None,
                str(item.address6.ip) if item.address6 else None,
            )
            for item in host.attachments
        }
        for host in plan.hosts
    }
    data = dict(plan.hosts[0].data) if plan.hosts else {}
    indexes = {host.name: host.index for host in plan.hosts}
    groups = {group.name: group for group in plan.groups}
    return Lookups(hosts, groups, data, plan.seed, indexes=indexes, secrets=plan.secrets)


def _fill(number: int, match: re.Match[str], view: View) -> str:
    """The value of one template."""
    inside = match[1].strip()
    if not match[2]:
        raise TemplateError(
            number, "a template is not closed", found=shown(match[0]), allowed="${{ path }}"
        )
    if not _PATH.fullmatch(inside):
        allowed = "a path like nics.data.name; there are no expressions"
        raise TemplateError(number, "not a template path", found=shown(inside), allowed=allowed)
    current: Tree | PerHost | str | Anything = view.tree
    walked: list[str] = []
    for part in inside.split("."):
        if isinstance(current, Anything):
            return ""
        if isinstance(current, str):
            message = f"{'.'.join(walked)} is a value, there is nothing below it"
            raise TemplateError(number, message, found=inside, allowed=".".join(walked))
        assert isinstance(current, Mapping)  # noqa: S101 - PerHost is resolved when it is met
        if part not in current:
            below = f" below {'.'.join(walked)}" if walked else ""
            message = f"nothing is called {shown(part)}{below}"
            raise TemplateError(number, message, found=inside, wrong=part, names=current.keys())
        current = current[part]
        walked.append(part)
        if isinstance(current, PerHost):
            if view.host not in current.values:
                raise TemplateError(number, current.absent, found=inside)
            current = current.values[view.host]
    if isinstance(current, Anything):
        return ""
    if isinstance(current, str):
        return current
    assert isinstance(current, Mapping)  # noqa: S101 - as above
    longer = [f"{inside}.{name}" for name in current]
    raise TemplateError(number, "not a value but several", found=inside, allowed=listed(longer))
