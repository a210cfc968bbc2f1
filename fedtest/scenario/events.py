"""The YAML parser's events, composed into nodes within bounds.

Nothing here recurses, and the number of nodes is counted as if every alias
were written out, so that a small file cannot become a large tree.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from ruamel.yaml.reader import ReaderError
from ruamel.yaml.scanner import Scanner

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_DEPTH = 32
MAX_NODES = 50_000


class Limit(Exception):
    """The text cannot be composed, at `index`: a syntax error or one of the bounds."""

    def __init__(self, index: int, message: str, *, found: str = "", allowed: str = "") -> None:
        super().__init__(message)
        self.index = index
        self.message = message
        self.found = found
        self.allowed = allowed


@dataclass(slots=True, eq=False)
class Node:
    """A node of the document; `start` and `end` are indexes into the text.

    `size` counts nodes and `height` levels, both with aliases written out.
    """

    kind: Literal["scalar", "sequence", "mapping"]
    start: int
    end: int = 0
    tag: str | None = None
    value: str = ""
    style: str | None = None
    plain: bool = False
    children: list[Node] = field(default_factory=list)
    size: int = 1
    height: int = 1
    is_open: bool = False

    @property
    def items(self) -> list[Node]:
        """The items of a sequence."""
        return self.children

    @property
    def pairs(self) -> Iterator[tuple[Node, Node]]:
        """The keys and values of a mapping, in the order of the text."""
        return zip(self.children[::2], self.children[1::2], strict=True)


def compose(text: str) -> Node | None:
    """The root of the only document in `text`, or None if there is none; raises Limit."""
    composer = _Composer()
    for event in _events(text):
        composer.take(event)
    return composer.root


class _Composer:
    """A stack of open collections, fed with events."""

    def __init__(self) -> None:
        self.root: Node | None = None
        self.stack: list[Node] = []
        self.anchors: dict[str, Node] = {}
        self.documents = 0
        self.nodes = 0

    def take(self, event: Any) -> None:
        """Fold one event in."""
        index = event.start_mark.index
        if isinstance(event, DocumentStartEvent):
            self.document(event, index)
        elif isinstance(event, AliasEvent):
            self.put(self.alias(event.anchor, index), index)
        elif isinstance(event, NodeEvent):
            self.node(event, index)
        elif isinstance(event, (MappingEndEvent, SequenceEndEvent)):
            node = self.stack.pop()
            node.end = event.end_mark.index
            node.is_open = False
            if self.stack:
                self.grow(self.stack[-1], node)

    def document(self, event: Any, index: int) -> None:
        self.documents += 1
        if self.documents > 1:
            raise Limit(index, "a second document in the file", allowed="one document")
        if event.version not in (None, (1, 2)):
            found = ".".join(map(str, event.version))
            raise Limit(0, "another version of YAML", found=found, allowed="YAML 1.2")

    def alias(self, name: str, index: int) -> Node:
        node = self.anchors.get(name)
        if node is None:
            raise Limit(index, "an alias without an anchor", found=f"*{name}"[:60])
        if node.is_open:
            raise Limit(index, "an alias of something that it is part of", found=f"*{name}"[:60])
        return node

    def node(self, event: Any, index: int) -> None:
        tag = None if event.tag is None else str(event.tag)
        node = Node("scalar", index, event.end_mark.index, tag)
        if isinstance(event, ScalarEvent):
            node.value = event.value
            node.style = event.style
            node.plain = event.style is None
        else:
            node.kind = "mapping" if isinstance(event, MappingStartEvent) else "sequence"
            assert isinstance(event, (MappingStartEvent, SequenceStartEvent))  # noqa: S101
            node.is_open = True
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        self.put(node, index)
        if node.is_open:
            self.stack.append(node)

    def put(self, node: Node, index: int) -> None:
        """Add a node, a finished one or one just opened, to where the parser is."""
        self.nodes += node.size
        if self.nodes > MAX_NODES:
            allowed = f"at most {MAX_NODES}, with aliases written out"
            raise Limit(index, "too many values in the file", allowed=allowed)
        if len(self.stack) + node.height > MAX_DEPTH:
            raise too_deep(index)
        if not self.stack:
            self.root = node
            return
        self.stack[-1].children.append(node)
        if not node.is_open:
            self.grow(self.stack[-1], node)

    @staticmethod
    def grow(parent: Node, child: Node) -> None:
        parent.size += child.size
        parent.height = max(parent.height, child.height + 1)


def too_deep(index: int) -> Limit:
    return Limit(index, "values are nested too deeply", allowed=f"at most {MAX_DEPTH} levels")


class _BoundedScanner(Scanner):
    """Stops at deep nesting in brackets before the library looks ahead through all of it.

    Its look-ahead for a key is quadratic in the depth: a megabyte of `[` would
    take hours before the first event.
    """

    def fetch_flow_collection_start(self, TokenClass: Any, to_push: str) -> None:  # noqa: N803
        if len(self.flow_context) >= MAX_DEPTH:
            raise too_deep(self.reader.index)
        super().fetch_flow_collection_start(TokenClass, to_push)


def _events(text: str) -> Iterator[Any]:
    """The parser's events; whatever it raises becomes Limit."""
    yaml = YAML(typ="safe", pure=True)
    yaml.Scanner = _BoundedScanner
    last = 0
    try:
        for event in yaml.parse(text):
            last = event.end_mark.index
            yield event
    except Limit:
        raise
    except MarkedYAMLError as error:
        raise _syntax(error, last) from error
    except ReaderError as error:
        found = f"U+{ord(error.character):04X}" if isinstance(error.character, str) else ""
        if isinstance(error.character, int):
            found = f"U+{error.character:04X}"
        message = "a character that YAML does not allow"
        raise Limit(error.position, message, found=found) from error
    except (YAMLError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        # The library's scanner has ways to fall over rather than to refuse: an
        # escape beyond Unicode is an OverflowError of chr().
        raise Limit(last, "not YAML after this point") from error


_TAB = "found character '\\t'"


def _syntax(error: MarkedYAMLError, last: int) -> Limit:
    """A syntax error in few words; the mark of the context if it has no own."""
    mark = error.problem_mark or error.context_mark
    index = last if mark is None else mark.index
    problem = " ".join(str(error.problem or error.context or "cannot be understood").split())
    if problem.startswith(_TAB):
        return Limit(index, "a tab where YAML wants spaces", found="a tab", allowed="spaces")
    context = " ".join(str(error.context or "").split())
    message = f"not YAML: {problem}" + (f" ({context})" if error.problem and context else "")
    return Limit(index, message)
