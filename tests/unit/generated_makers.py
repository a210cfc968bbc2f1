"""Makers of values: each from a type of the model, with its bounds, by trying what it takes."""

from __future__ import annotations

import types
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from generated_choices import POOL, Random, World
from pydantic import TypeAdapter, ValidationError, WithJsonSchema

from fedtest.scenario.base import Part
from fedtest.scenario.model import Scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from pydantic.fields import FieldInfo

Maker = Any
"""Callable[[World], Any]; None where nothing can be made."""

Key = tuple[str, str]
"""A key of the model: the part's name and its own."""


def key_title(info: FieldInfo) -> str | None:
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


def field_maker(info: FieldInfo) -> Maker:
    return maker_of(info.annotation, tuple(info.metadata))


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


def maker_of(annotation: Any, metadata: Sequence[Any]) -> Maker:  # noqa: PLR0911 - a form each
    """What makes values of a type, or None if nothing in the pool is one."""
    arguments, origin = get_args(annotation), get_origin(annotation)
    if origin is Annotated:
        return maker_of(arguments[0], (*arguments[1:], *metadata))
    title = _title(metadata)
    if title is not None:
        return _named(title, _accepted(annotation, metadata, POOL))
    if origin is Literal:
        return lambda world: world.pick(arguments)
    if origin in (Union, types.UnionType):
        return _one_of([maker_of(item, ()) for item in arguments if item is not type(None)])
    bounds = _bounds(metadata)
    if origin is tuple:
        # Kinds of parts are many, and each scenario is to have some of them.
        more = 10 if next(parts_of(arguments[0]), None) else 4
        return _list(maker_of(arguments[0], ()), bounds.get("min_length", 0), more)
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
    maker = maker_of(value, ())

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
        wanted = [name for name in shape.optional if (model.__name__, name) in world.wanted]
        # Of kinds a part has one, so those that are wanted come first.
        least = [names for names in shape.least if not set(names).isdisjoint(wanted)]
        data |= {name: shape.optional[name](world) for name in world.pick(least or shape.least)}
        for name, maker in shape.optional.items():
            if name not in data and (world.choices.below(3) == 0 or name in wanted):
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
    makers = {name: field_maker(info) for name, info in model.by_key().items()}
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


def keys_used(model: type[Part], part: Part) -> Iterator[Key]:
    """Each key that was written in a part or below it: (model, key)."""
    for name in part.model_fields_set:
        yield model.__name__, name
        yield from _used_in(getattr(part, name))


def _used_in(value: Any) -> Iterator[Key]:
    if isinstance(value, Part):
        yield from keys_used(type(value), value)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _used_in(item)
    elif isinstance(value, tuple):
        for item in value:
            yield from _used_in(item)


def ways_to(left: Collection[Key]) -> set[Key]:
    """The keys that are left, and those below which they are."""
    return {
        (model.__name__, name)
        for model in parts_of(Scenario)
        for name, info in model.model_fields.items()
        if (model.__name__, name) in left or not _keys_below(info.annotation).isdisjoint(left)
    }


@cache
def _keys_below(annotation: Any) -> frozenset[Key]:
    return frozenset(
        (model.__name__, name) for model in parts_of(annotation) for name in model.model_fields
    )
