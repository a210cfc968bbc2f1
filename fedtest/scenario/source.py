"""YAML text to plain data, with the place of every node.

The parser's events are walked, counted and composed here rather than by the
YAML library's own loader: a scenario may come from anywhere, so nothing is
constructed but mappings, lists and scalars of the core schema, and what would
cost memory, time or stack (aliases that multiply, deep nesting, size) is
refused at the event where it starts to.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import TYPE_CHECKING, Any

from fedtest.errors import ScenarioError
from fedtest.scenario import braces
from fedtest.scenario.events import Limit, compose
from fedtest.scenario.problems import Problem, path_of, shown
from fedtest.scenario.scalars import resolve

if TYPE_CHECKING:
    from fedtest.scenario.events import Node
    from fedtest.scenario.problems import Finding, Loc

MAX_BYTES = 1024 * 1024


@dataclass(slots=True)
class Source:
    """The text of a scenario, the plain data in it, and where each node is.

    Places are indexes into `text`. An alias has the place of what it stands for.
    """

    file: str
    text: str
    data: Any = None
    nodes: dict[Loc, Node] = field(default_factory=dict)
    keys: dict[Loc, int] = field(default_factory=dict)
    _lines: list[int] = field(default_factory=list)
    _templates: dict[int, list[int]] = field(default_factory=dict)

    def position(self, index: int) -> tuple[int, int]:
        """Line and column, from 1, of an index into the text."""
        if not self._lines:
            self._lines = [0]
            self._lines += [at + 1 for at, char in enumerate(self.text) if char == "\n"]
        line = bisect_right(self._lines, index)
        return line, index - self._lines[line - 1] + 1

    def place(self, finding: Finding) -> Problem:
        """The finding with its place."""
        return finding.at(self.file, *self.position(self.index(finding)))

    def index(self, finding: Finding) -> int:
        """The place of its key, its template, its node, or the nearest node above."""
        loc = finding.loc
        if finding.at_key and loc in self.keys:
            return self.keys[loc]
        while loc and loc not in self.nodes:
            loc = loc[:-1]
        node = self.nodes.get(loc)
        if node is None:
            return 0
        # Above it, a scalar is short for a mapping with the key that is meant.
        if finding.template is not None and (loc == finding.loc or node.kind == "scalar"):
            return self._template(node, finding.template)
        return node.start

    def _template(self, node: Node, number: int) -> int:
        """Where the `${{` number `number` of a scalar's value is written.

        A value has them in the order of its text. Only a quoted scalar that
        spells one with escapes has fewer in the text; then the scalar's start
        has to do.
        """
        start = node.start
        if node.style in ("|", ">"):  # what follows the indicator may be a comment
            start = max(self.text.find("\n", start, node.end), start)
        if start not in self._templates:
            found = re.finditer(r"\$\{\{", self.text[start : node.end])
            self._templates[start] = [start + match.start() for match in found]
        places = self._templates[start]
        return places[number] if number < len(places) else node.start


def read(path: str | Path) -> str:
    """The text of the file at `path`; raises ScenarioError if it cannot be read."""
    file = str(path)

    def refuse(message: str, *, found: str = "", allowed: str = "") -> ScenarioError:
        return ScenarioError([Problem(file, 0, 0, "", message, found, allowed)])

    try:
        # Looked at before it is opened: opening a named pipe would wait for its writer.
        mode = Path(path).stat().st_mode
        if not S_ISREG(mode):
            found = "a directory" if S_ISDIR(mode) else "a special file"
            raise refuse("cannot read the scenario", found=found, allowed="a YAML file")
        with Path(path).open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise refuse(f"cannot read the scenario: {reason}") from error
    if len(raw) > MAX_BYTES:
        raise refuse("the file is too large", found="more than 1 MiB", allowed="at most 1 MiB")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8").removeprefix("\ufeff")
        line = before.count("\n") + 1
        column = len(before) - (before.rfind("\n") + 1) + 1
        found = f"byte 0x{raw[error.start]:02x}"
        problem = Problem(file, line, column, "", "the text is not UTF-8", found, "UTF-8")
        raise ScenarioError([problem]) from error


def parse_leniently(text: str, file: str) -> tuple[Source, list[Problem]]:
    """Text to data and places.

    Raises ScenarioError if there is no tree. Problems that leave one (duplicate
    keys, tags, keys that are not strings) are returned beside it, so that the
    rest can be looked at as well.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    source = Source(file, text)
    if len(text) > MAX_BYTES:
        problem = Problem(file, 0, 0, "", "the text is too large", allowed="at most 1 MiB")
        raise ScenarioError([problem])
    try:
        root = compose(text)
    except Limit as limit:
        index = min(limit.index, len(text))
        meant = braces.hint(text, index)
        problem = Problem(
            file, *source.position(index), "", limit.message, limit.found, limit.allowed, meant
        )
        raise ScenarioError([problem]) from limit
    builder = _Builder(source)
    if root is None or root.kind != "mapping":
        builder.not_a_mapping(root)
        raise ScenarioError(builder.problems)
    source.data = builder.build(root, ())
    return source, builder.problems


class _Builder:
    """Composes nodes into plain data, recording places, collecting problems."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.problems: list[Problem] = []

    def not_a_mapping(self, root: Node | None) -> None:
        """The document is something else, or nothing."""
        found = "nothing"
        if root is not None and root.kind == "sequence":
            found = "a list"
        elif root is not None and root.value:
            found = shown(root.value)
        index = root.start if root else 0
        self.add(index, (), "not a scenario", found=found, allowed="a mapping: fedtest: 1, ...")

    def add(
        self,
        index: int,
        loc: Loc,
        message: str,
        *,
        found: str = "",
        allowed: str = "",
        hint: str = "",
    ) -> None:
        line, column = self.source.position(index)
        self.problems.append(
            Problem(self.source.file, line, column, path_of(loc), message, found, allowed, hint)
        )

    def build(self, node: Node, loc: Loc) -> Any:
        """The data of `node`; its depth is bounded by `compose`."""
        self.source.nodes[loc] = node
        if node.kind == "scalar":
            return self.scalar(node, loc)
        if node.tag not in (None, "!", f"tag:yaml.org,2002:{_TAGS[node.kind]}"):
            self.tag(node, loc)
        if node.kind == "sequence":
            return [self.build(item, (*loc, at)) for at, item in enumerate(node.items)]
        data: dict[str, Any] = {}
        first: dict[str, int] = {}
        for key_node, value_node in node.pairs:
            key = self.key(key_node, loc)
            if key is None:
                continue
            inner = (*loc, key)
            if key in first:
                line, column = self.source.position(first[key])
                message = f"the key is there twice, first in line {line}, column {column}"
                self.add(key_node.start, inner, message, found=shown(key), allowed="each key once")
                continue
            first[key] = key_node.start
            self.source.keys[inner] = key_node.start
            data[key] = self.build(value_node, inner)
        return data

    def key(self, node: Node, loc: Loc) -> str | None:
        """A mapping's key, or None (and a problem) if it is not a string."""
        if node.kind != "scalar":
            found = "a mapping" if node.kind == "mapping" else "a list"
            self.add(
                node.start,
                loc,
                "a key is not a string",
                found=found,
                allowed="a string",
                hint=braces.hint(self.source.text, node.start - 1),
            )
            return None
        key = self.scalar(node, loc)
        if not isinstance(key, str):
            hint = f'"{node.value}" in quotes is a string' if node.value else ""
            self.add(
                node.start,
                loc,
                "a key is not a string",
                found=shown(key),
                allowed="a string",
                hint=hint,
            )
            return None
        if key == "<<" and node.plain:
            message = "merge keys are not part of YAML 1.2"
            self.add(node.start, loc, message, found="<<", allowed="an alias of the whole value")
            return None
        return key

    def scalar(self, node: Node, loc: Loc) -> Any:
        """A scalar by YAML 1.2's core schema."""
        if bad := next((c for c in node.value if c == "\0" or "\ud800" <= c <= "\udfff"), None):
            found = f"the escape of U+{ord(bad):04X}"
            self.add(node.start, loc, "a character that no program can be given", found=found)
            return ""
        value, fits = resolve(node.value, plain=node.plain, tag=node.tag)
        if not fits:
            self.tag(node, loc)
        return value

    def tag(self, node: Node, loc: Loc) -> None:
        allowed = "no tags but the core ones, on what they fit"
        self.add(
            node.start, loc, "a tag that is not allowed", found=shown(node.tag), allowed=allowed
        )


_TAGS = {"mapping": "map", "sequence": "seq"}
