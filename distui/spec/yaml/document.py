"""Strict YAML with positions: text -> trees of nodes, one for each document, and every problem with its place.

Built on PyYAML's event stream rather than its loader: nesting is bounded before anything recurses, duplicate keys
are seen, and scalars keep what was written beside what YAML 1.2 makes of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml
from yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    DocumentEndEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from distui.regex import regex
from distui.spec.yaml.core_schema import resolve
from distui.spec.yaml.nodes import MAX_DEPTH, Items, Node, Scalar, Source, Table, is_null, place
from distui.spec.yaml.problems import Problems, shown
from distui.spec.yaml.slips import like_a_blank, no_blank
from distui.spec.yaml.syntax import explain

MAX_NODES = 500_000
"""With every alias written out; 2,000 hosts need about 40,000."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNPRINTABLE = regex("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
"""What may stand nowhere (https://yaml.org/spec/1.2.2/#51-character-set), and U+FEFF after the start."""


def parse(source: Source, problems: Problems) -> list[Node]:
    """The documents in `source`, empty ones left out; [] after a syntax error, with the problem noted."""
    bad = _UNPRINTABLE.search(source.text)
    if bad:
        line, column = place(source.text, bad.start())
        hint = "; is this UTF-16? save it as UTF-8" if source.text.count("\0") > len(source.text) // 4 else ""
        problems.add_at(
            source, line, column, "", f"the character U+{ord(bad.group()):04X} is not allowed in YAML{hint}"
        )
        return []
    composer = _Composer(source, problems)
    try:
        for event in yaml.parse(source.text, Loader=_LOADER):
            composer.take(event)
    except _Stop:
        return []
    except yaml.MarkedYAMLError as error:
        line, column, message = explain(error, source, composer.bracket())
        problems.add_at(source, line, column, "", message)
        return []
    return [d for d in composer.documents if not is_null(d)]


class _Stop(Exception):
    """Reading on makes no sense; the problem is noted."""


@dataclass(slots=True, eq=False)
class _Frame:
    """A list or mapping that is not closed yet."""

    node: Items | Table
    anchor: str | None
    key: Scalar | None = None
    """In a mapping: the key that waits for its value."""
    merges: list[Node] | None = None
    """The values of `<<` keys."""
    flow: bool = False
    """Written in brackets."""


class _Composer:
    """Puts events together to trees. Holds its own stack, so that depth costs no recursion."""

    def __init__(self, source: Source, problems: Problems) -> None:
        self.documents: list[Node] = []
        self._source = source
        self._problems = problems
        self._open: list[_Frame] = []
        self._anchors: dict[str, Node] = {}

    def take(self, event: Event) -> None:
        """One event of PyYAML's stream."""
        match event:
            case ScalarEvent():
                self._put(self._scalar(event))
            case MappingStartEvent():
                self._begin(event, Table(self._source, *_start(event)))
            case SequenceStartEvent():
                self._begin(event, Items(self._source, *_start(event)))
            case MappingEndEvent() | SequenceEndEvent():
                self._end()
            case AliasEvent():
                self._put(self._alias(event))
            case DocumentEndEvent():
                self._anchors.clear()
            case _:
                pass  # the stream's and documents' beginnings say nothing

    def bracket(self) -> tuple[int, int] | None:
        """Line and column of the innermost bracket that is not closed yet."""
        frame = self._open[-1] if self._open else None
        return (frame.node.line, frame.node.column) if frame and frame.flow else None

    def _scalar(self, event: ScalarEvent) -> Scalar:
        plain = event.implicit[0] and not event.style
        if event.tag not in (None, "!", "tag:yaml.org,2002:str"):
            self._refuse_tag(event, event.tag)
        value = resolve(event.value) if plain else event.value
        node = Scalar(self._source, *_start(event), event.value, value)
        if event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _begin(self, event: CollectionStartEvent, node: Items | Table) -> None:
        if event.tag not in (None, "!"):
            self._refuse_tag(event, event.tag)
        if len(self._open) >= MAX_DEPTH:
            self._problems.add(node, "", f"nested more than {MAX_DEPTH} levels deep")
            raise _Stop
        self._open.append(_Frame(node, event.anchor, flow=bool(event.flow_style)))

    def _refuse_tag(self, event: NodeEvent, tag: str) -> None:
        written = shown(tag.replace("tag:yaml.org,2002:", "!!"))
        message = f"the tag {written} is not supported; write the value without it"
        self._problems.add_at(self._source, *_start(event), "", message)

    def _end(self) -> None:
        frame = self._open.pop()
        if frame.merges and isinstance(frame.node, Table):
            self._merge(frame.node, frame.merges)
        if frame.anchor:  # known only now, so that a node can't contain itself
            self._anchors[frame.anchor] = frame.node
        self._put(frame.node)

    def _alias(self, event: AliasEvent) -> Node:
        node = self._anchors.get(event.anchor or "")
        if node is not None:
            return node
        message = f"*{event.anchor} refers to nothing above it; write &{event.anchor} before the value it stands for"
        self._problems.add_at(self._source, *_start(event), "", message + ", or quote a text that starts with *")
        raise _Stop

    def _put(self, node: Node) -> None:
        if not self._open:
            self.documents.append(node)
            return
        frame = self._open[-1]
        frame.node.size += node.size
        if frame.node.size > MAX_NODES:
            self._problems.add(frame.node, "", f"more than {MAX_NODES:,} values (aliases count each time)")
            raise _Stop
        if isinstance(frame.node, Items):
            frame.node.items.append(node)
        elif frame.key is None:
            frame.key = self._key(node)
        else:
            self._pair(frame, frame.node, frame.key, node)

    def _key(self, node: Node) -> Scalar:
        if isinstance(node, Scalar):
            self._only_blanks(node)
            return node
        self._problems.add(node, "", "a key must be a word, not a list or mapping")
        raise _Stop

    def _only_blanks(self, key: Scalar) -> None:
        """Stop at a key with a sign in it that looks like a blank: its line is indented by it, most likely."""
        if inside := like_a_blank(key.text):
            at = key.column + inside - 1
            self._problems.add_at(self._source, key.line, at, "", no_blank(key.text[inside - 1]))
            raise _Stop

    def _pair(self, frame: _Frame, table: Table, key: Scalar, value: Node) -> None:
        frame.key = None
        if key.text == "<<":
            frame.merges = [*(frame.merges or ()), value]
        elif key.text in table.pairs:
            first = table.pairs[key.text][0]
            self._problems.add(key, key.text, f"duplicate key, first written on line {first.line}")
        else:
            table.pairs[key.text] = (key, value)

    def _merge(self, table: Table, merges: list[Node]) -> None:
        """Add what `<<` names, where the mapping itself says nothing (https://yaml.org/type/merge.html)."""
        for value in merges:
            for node in value.items if isinstance(value, Items) else [value]:
                if isinstance(node, Table):
                    table.pairs = {**node.pairs, **table.pairs}
                else:
                    self._problems.add(node, "<<", "expected a mapping, or a list of them, such as *name")


def _start(event: Event) -> tuple[int, int]:
    mark = event.start_mark
    assert mark is not None  # only events made by hand have none
    return mark.line + 1, mark.column + 1
