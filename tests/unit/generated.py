"""Scenarios made from the model itself: from its fields, their types and their bounds.

A new part or kind is covered without a word here as long as `POOL` has a value
that it accepts; `test_scenario_fuzz` tells which field has none. What fits
together is found by trying: parts are validated as they are made, and what the
model or the references refuse is taken out again.
"""

from __future__ import annotations

import random
import types
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    Protocol,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

from pydantic import TypeAdapter, ValidationError, WithJsonSchema

from fedtest.scenario import references, wording
from fedtest.scenario.base import Part
from fedtest.scenario.counted import Counted
from fedtest.scenario.draft import Draft
from fedtest.scenario.model import Scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from pydantic.fields import FieldInfo

_T = TypeVar("_T")

Context = dict[str, Any]
"""Where a scenario's file is, as `load.loads` tells the model: `base` and `look`."""

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
    """What is declared in the scenario that is being made: names by what the model calls them."""

    choices: Choices
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
        network = self.pick(names.get(_NETWORK) or ["data"])
        group = self.pick(names.get(_GROUP) or ["ring"])
        host = self.pick(names.get(_HOST) or ["a"])
        return self.pick(
            (
                f"${{{{ nics.{network}.ip }}}}",
                f"${{{{ nics.{network}.name }}}}",
                f"x ${{{{hosts.{host}.nics.{network}.ip}}}} y",
                f"${{{{ {group}.rank }}}} of ${{{{ {group}.size }}}}",
                f"tcp://${{{{ {group}.master }}}}:${{{{ {group}.port }}}}",
            )
        )


Maker = Any  # Callable[[World], Any]; None where nothing can be made.

_NETWORK, _HOST, _GROUP = "network's name", "host's name", "group's name"


def scenario_data(choices: Choices) -> dict[str, Any]:
    """Plain data of a scenario, most of the time a valid one."""
    world = World(choices)
    for name, info in Scenario.model_fields.items():
        title = _key_title(info)
        if title is not None:
            least = 1 if info.is_required() else 0
            letters = "abcd" if name == "hosts" else "mnop"
            # None at all now and then.
            count = max(least, (choices.below(8) + 2) // 3)
            world.names[title] = [f"{letters[at]}-{name[:-1]}" for at in range(count)]
    data: dict[str, Any] = {}
    for name, info in Scenario.by_key().items():
        title = _key_title(info)
        if title is not None:
            maker = _maker(get_args(info.annotation)[1], ())
            data[name] = {key: maker(world) for key in world.names[title]}
        elif info.is_required() or choices.below(2):
            maker = _field_maker(info)
            if maker is not None:
                data[name] = maker(world)
    return data


def repaired(data: dict[str, Any], context: Context) -> bool:
    """Takes out of the data what is refused; whether a valid scenario is left."""
    for _ in range(60):
        wrong = [finding.loc for finding in _findings(data, context)]
        if not wrong:
            return True
        # Of one list the last first, so that the others keep their places.
        _one_image(data)
        for loc in sorted(set(wrong), key=lambda loc: [str(part).rjust(9) for part in loc])[::-1]:
            if not _take_out(data, loc):
                return False
    return False


def _one_image(data: dict[str, Any]) -> None:
    """Of image and build one stays: what is refused is the whole that has both."""
    hosts = data.get("hosts")
    for part in (data, *(hosts.values() if isinstance(hosts, dict) else ())):
        if isinstance(part, dict) and "build" in part:
            part.pop("image", None)


def _findings(data: dict[str, Any], context: Context) -> list[Any]:
    counted = Counted.of(data)
    try:
        scenario = Scenario.model_validate(counted.data, context=context)
    except ValidationError as error:
        found = wording.findings(error)
    else:
        found = list(references.findings(Draft.of(scenario)))
    return [*counted.findings, *counted.origin(found)]


def _take_out(data: Any, loc: tuple[str | int, ...]) -> bool:
    """Removes the node at `loc`, or the nearest one above; False at the root."""
    above: list[tuple[Any, str | int]] = []
    current = data
    for part in loc:
        there = part in current if isinstance(current, dict) else (
            isinstance(current, list) and isinstance(part, int) and part < len(current)
        )  # fmt: skip
        if not there:
            break
        above.append((current, part))
        current = current[part]
    if not above:
        return False
    holder, key = above[-1]
    del holder[key]
    return True


def _key_title(info: FieldInfo) -> str | None:
    """What a section's names are called; None of what is no section."""
    if get_origin(info.annotation) is not dict:
        return None
    key, value = get_args(info.annotation)
    is_part = isinstance(value, type) and issubclass(value, Part)
    return _title(get_args(key)[1:]) if is_part and get_origin(key) is Annotated else None


def _title(metadata: Sequence[Any]) -> str | None:
    for item in metadata:
        if isinstance(item, WithJsonSchema) and item.json_schema:
            return str(item.json_schema["title"])
    return None


def _field_maker(info: FieldInfo) -> Maker:
    return _maker(info.annotation, tuple(info.metadata))


def _accepted(annotation: Any, metadata: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    adapter: TypeAdapter[Any] = TypeAdapter(
        Annotated[annotation, *metadata] if metadata else annotation
    )
    return [value for value in values if _accepts(adapter.validate_python, value)]


def _accepts(validate: Callable[[Any], object], value: Any) -> bool:
    try:
        validate(value)
    except (ValidationError, TypeError):
        return False
    return True


def _maker(annotation: Any, metadata: Sequence[Any]) -> Maker:  # noqa: PLR0911 - a form each
    """What makes values of a type, or None if nothing in the pool is one."""
    arguments, origin = get_args(annotation), get_origin(annotation)
    if origin is Annotated:
        return _maker(arguments[0], (*arguments[1:], *metadata))
    title = _title(metadata)
    if title is not None:
        return _named(title, _accepted(annotation, metadata, POOL))
    if origin is Literal:
        return lambda world: world.pick(arguments)
    if origin in (Union, types.UnionType):
        return _one_of([_maker(item, ()) for item in arguments if item is not type(None)])
    bounds = _bounds(metadata)
    if origin is tuple:
        # Kinds of parts are many, and each scenario is to have some of them.
        more = 10 if next(parts_of(arguments[0]), None) else 4
        return _list(_maker(arguments[0], ()), bounds.get("min_length", 0), more)
    if origin is dict:
        return _mapping(annotation, bounds.get("min_length", 0))
    if isinstance(annotation, type) and issubclass(annotation, Part):
        short = _accepted(annotation, metadata, POOL) if metadata else []
        return _one_of([_part(annotation), (lambda world: world.pick(short)) if short else None])
    return _leaf(annotation, metadata, bounds)


def _bounds(metadata: Sequence[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for item in metadata:
        for name in ("ge", "gt", "le", "lt", "min_length", "max_length"):
            if getattr(item, name, None) is not None:
                found[name] = getattr(item, name)
    return found


def _leaf(annotation: Any, metadata: Sequence[Any], bounds: dict[str, Any]) -> Maker:
    edges = [bounds[name] for name in ("ge", "le") if name in bounds]
    values = _accepted(annotation, metadata, (*edges, *POOL))
    if annotation is not str:
        return (lambda world: world.pick(values)) if values else None
    adapter: TypeAdapter[Any] = TypeAdapter(Annotated[annotation, *metadata, None])

    def string(world: World) -> str:
        text = world.string()
        return text if _accepts(adapter.validate_python, text) else str(world.pick(values))

    return string if values else None


def _named(title: str, values: list[Any]) -> Maker:
    def name(world: World) -> Any:
        # A name refers to what is declared; that of nothing declared is any.
        return world.pick(world.names.get(title) or values or ["a"])

    return name if values else None


def _one_of(makers: list[Maker]) -> Maker:
    usable = [maker for maker in makers if maker is not None]
    return (lambda world: world.pick(usable)(world)) if usable else None


def _list(maker: Maker, least: int, more: int) -> Maker:
    def items(world: World) -> list[Any]:
        count = least + world.choices.below(more)
        # Most lists have each thing once, and lists of lists share none.
        seen: set[str] = set()
        found = []
        for item in (maker(world) for _ in range(count)):
            several = isinstance(item, list)
            new = [one for one in (item if several else [item]) if repr(one) not in seen]
            seen.update(map(repr, new))
            found += ([new] if several else new) if new else []
        return found

    return items if maker is not None else None


def _mapping(annotation: Any, least: int) -> Maker:
    key, value = get_args(annotation)
    title = _title(get_args(key)[1:]) if get_origin(key) is Annotated else None
    keys = [item for item in _accepted(key, (), POOL) if isinstance(item, str)]
    maker = _maker(value, ())

    def mapping(world: World) -> dict[str, Any]:
        names = world.names.get(title or "") or keys
        # Hosts on all networks can be spoken of together.
        most = len(names) if title in world.names else 3
        chosen = list(names) if title in world.names and world.often() else None
        return {name: maker(world) for name in chosen or world.some(names, least, most)}

    return mapping if maker is not None and keys else None


@dataclass(frozen=True)
class Shape:
    """How a part can be: its required keys, and sets of further ones of which it needs one."""

    required: dict[str, Maker]
    optional: dict[str, Maker]
    least: tuple[tuple[str, ...], ...]


def _part(model: type[Part]) -> Maker:
    def part(world: World) -> dict[str, Any]:
        shape = shape_of(model)
        data = {name: maker(world) for name, maker in shape.required.items()}
        data |= {name: shape.optional[name](world) for name in world.pick(shape.least)}
        for name, maker in shape.optional.items():
            if name not in data and world.choices.below(3) == 0:
                more = {**data, name: maker(world)}
                if _valid(model, more):
                    data = more
        return data

    return part


def _valid(model: type[Part], data: dict[str, Any]) -> bool:
    return _accepts(model.model_validate, data)


@cache
def shape_of(model: type[Part]) -> Shape:
    """Found by trying: the smallest sets of optional keys with which the part is valid."""
    makers = {name: _field_maker(info) for name, info in model.by_key().items()}
    required = {name: makers[name] for name, info in model.by_key().items() if info.is_required()}
    optional = {
        name: maker for name, maker in makers.items() if name not in required and maker is not None
    }
    if None in required.values():
        raise AssertionError(f"POOL has no value for a required key of {model.__name__}")
    world = World(Random(1))
    least: list[tuple[str, ...]] = []
    for size in range(4):
        for names in combinations(optional, size):
            if any(set(found) <= set(names) for found in least):
                continue
            for _ in range(8):
                data = {name: maker(world) for name, maker in required.items()}
                data |= {name: optional[name](world) for name in names}
                if _valid(model, data):
                    least.append(names)
                    break
    return Shape(required, optional, tuple(least) or ((),))


def parts_of(annotation: Any) -> Iterator[type[Part]]:
    """Every model that can be met within a type."""
    if isinstance(annotation, type) and issubclass(annotation, Part):
        yield annotation
        for info in annotation.model_fields.values():
            yield from parts_of(info.annotation)
    for argument in get_args(annotation):
        yield from parts_of(argument)


def keys_used(model: type[Part], part: Part) -> Iterator[tuple[str, str]]:
    """Each key that was written in a part or below it: (model, key)."""
    for name in part.model_fields_set:
        yield model.__name__, name
        yield from _used_in(getattr(part, name))


def _used_in(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Part):
        yield from keys_used(type(value), value)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _used_in(item)
    elif isinstance(value, tuple):
        for item in value:
            yield from _used_in(item)
