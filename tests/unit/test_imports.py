"""Dependencies point one way; read from the source, so that nothing has to be installed."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple

import pytest

import fedtest

PACKAGE = Path(fedtest.__file__).parent
NODE_SIDE = ("fedtest.comm", "fedtest.probe", "fedtest.ring")
"""What runs in hosts; everything else is the testbed, but `values`, which is neither."""
FORBIDDEN = {
    # Below -> what must not be seen from there.
    "fedtest.errors": ("fedtest.scenario", "fedtest.plan", "fedtest.engine", "fedtest.run"),
    "fedtest.values": ("fedtest",),
    "fedtest.scenario": ("fedtest.plan", "fedtest.engine", "fedtest.run", "fedtest.reporters"),
    "fedtest.plan": ("fedtest.engine", "fedtest.run", "fedtest.reporters"),
    "fedtest.plan_provisions": ("fedtest.engine", "fedtest.run", "fedtest.reporters"),
    "fedtest.local_files": ("fedtest",),
    "fedtest.plan_links": ("fedtest.engine", "fedtest.run", "fedtest.reporters"),
    "fedtest.plan_addresses": ("fedtest.engine", "fedtest.run", "fedtest.reporters"),
    "fedtest.plan_names": ("fedtest.engine", "fedtest.run", "fedtest.reporters"),
    "fedtest.plan_routes": ("fedtest.engine", "fedtest.run", "fedtest.reporters"),
    "fedtest.settings": ("fedtest.engine", "fedtest.run", "fedtest.reporters", "docker"),
    "fedtest.links": ("fedtest.engine", "fedtest.run", "fedtest.reporters", "docker"),
    "fedtest.subnets": ("fedtest.engine", "fedtest.run", "fedtest.reporters"),
    "fedtest.data": ("fedtest.scenario", "fedtest.engine", "fedtest.run", "fedtest.reporters"),
    "fedtest.engine": ("fedtest.scenario", "fedtest.run", "fedtest.reporters"),
    "fedtest.run": (
        "fedtest.engine.docker",
        "fedtest.engine.netns",
        "fedtest.engine.fake",
        "fedtest.reporters",
    ),
    "fedtest.reporters": (
        "fedtest.scenario",
        "fedtest.engine.docker",
        "fedtest.engine.netns",
        "docker",
    ),
}


class Import(NamedTuple):
    """`late`: within a function. `typed`: for the type checker only."""

    name: str
    line: int
    late: bool
    typed: bool


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> list[Import]:
    found: list[Import] = []

    def walk(node: ast.AST, *, late: bool, typed: bool) -> None:
        match node:
            case ast.Import(names=names):
                found.extend(Import(item.name, node.lineno, late, typed) for item in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                assert level == 0, f"{path}:{node.lineno}: a relative import"
                # `from fedtest import values` imports fedtest.values.
                found.append(Import(str(module), node.lineno, late, typed))
                found.extend(
                    Import(f"{module}.{item.name}", node.lineno, late, typed) for item in names
                )
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                for child in node.body:
                    walk(child, late=late, typed=True)
            case _:
                within = late or isinstance(node, (ast.FunctionDef, ast.Lambda))
                for child in ast.iter_child_nodes(node):
                    walk(child, late=within, typed=typed)

    walk(ast.parse(path.read_text(encoding="utf-8")), late=False, typed=False)
    return found


FILES = {
    module_of(path): path
    for path in sorted(PACKAGE.rglob("*.py"))
    if "_bundle" not in path.parts  # In a wheel, what images are built from.
}


def under(name: str, tops: tuple[str, ...]) -> bool:
    return any(name == top or name.startswith(f"{top}.") for top in tops)


def offences(module: str, forbidden: tuple[str, ...], *, types: bool) -> list[str]:
    return [
        f"{FILES[module]}:{item.line}: {module} imports {item.name}"
        for item in imports(FILES[module])
        if under(item.name, forbidden) and (types or not item.typed)
    ]


@pytest.mark.parametrize("module", [name for name in FILES if under(name, NODE_SIDE)])
def test_what_runs_in_hosts_never_imports_the_testbed(module: str) -> None:
    own = (*NODE_SIDE, "fedtest.values")
    found = [
        item
        for item in imports(FILES[module])
        if under(item.name, ("fedtest",))
        and not under(item.name, own)
        and item.name not in {"fedtest", "fedtest.__version__"}
    ]
    assert not found


@pytest.mark.parametrize("module", [name for name in FILES if not under(name, NODE_SIDE)])
def test_the_testbed_never_imports_torch_or_what_runs_in_hosts(module: str) -> None:
    assert not offences(module, ("torch", "torchvision", *NODE_SIDE), types=True)


@pytest.mark.parametrize("below", FORBIDDEN)
def test_what_is_below_does_not_import_what_is_above(below: str) -> None:
    modules = [name for name in FILES if under(name, (below,))]
    assert modules
    assert not [line for name in modules for line in offences(name, FORBIDDEN[below], types=False)]


def test_nobody_imports_the_command_line() -> None:
    for of, wanted in {
        "fedtest.cli": ["fedtest.__main__"],
        "fedtest.cli_machine": ["fedtest.cli"],
        "fedtest.cli_tell": ["fedtest.cli", "fedtest.cli_machine"],
    }.items():
        assert [name for name in FILES if offences(name, (of,), types=True)] == wanted


def test_only_the_docker_engine_imports_docker() -> None:
    importers = [name for name in FILES if offences(name, ("docker", "requests"), types=False)]
    assert all(under(name, ("fedtest.engine.docker",)) for name in importers), importers


@pytest.mark.parametrize("module", ["fedtest.cli", "fedtest.cli_machine", "fedtest.cli_tell"])
def test_the_command_line_imports_what_a_command_needs_only_in_the_command(module: str) -> None:
    early = {
        item.name
        for item in imports(FILES[module])
        if under(item.name, ("fedtest",)) and not item.late and not item.typed
    }
    light = {"", "fedtest", "fedtest.errors", "fedtest.cli_tell"}
    assert {name.rpartition(".")[0] for name in early} <= light
