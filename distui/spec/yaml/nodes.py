"""A document as a tree that remembers where everything was written.

Nodes are built by the ten thousand and rewritten while a document is prepared (variables, overrides), so they
are the one kind of value here that is not frozen.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from distui.regex import regex

ScalarValue = str | int | float | bool | None

MAX_DEPTH = 32
"""So many values stand in each other at most, also by a key such as `a.b.c` of the command line."""

_BREAK = regex("\r\n|[\r\n\x85\u2028\u2029]")
"""What libyaml counts as the end of a line; `str.splitlines` counts more."""


@dataclass(slots=True, eq=False)
class Source:
    """A text that was read: a file, standard input or a flag of the command line."""

    path: str
    text: str = ""
    is_flag: bool = False
    """A flag has no lines: problems in it are named after the flag alone."""
    _lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.text = self.text.removeprefix("\ufeff")

    def line(self, number: int) -> str:
        """The text of line `number`, counted from 1; "" beyond the end."""
        if not self._lines:
            self._lines = _BREAK.split(self.text)
        return self._lines[number - 1] if 0 < number <= len(self._lines) else ""


@dataclass(slots=True, eq=False)
class Scalar:
    """One word or text. `text` is what was written, `value` what YAML 1.2's core schema makes of it."""

    source: Source
    line: int
    column: int
    text: str
    value: ScalarValue
    loose: bool = False
    """The text came from a variable or a flag, where nobody can quote: number and text may stand for each other."""
    noted: bool = False
    """Its problem is noted already; what it lacks would only give more of them."""
    size: int = 1


@dataclass(slots=True, eq=False)
class Items:
    """A list."""

    source: Source
    line: int
    column: int
    items: list[Node] = field(default_factory=list)
    size: int = 1


@dataclass(slots=True, eq=False)
class Table:
    """A mapping: key text to the key's own node and the value's."""

    source: Source
    line: int
    column: int
    pairs: dict[str, tuple[Scalar, Node]] = field(default_factory=dict)
    size: int = 1

    def get(self, key: str) -> Node | None:
        """The value written for `key`, or None."""
        pair = self.pairs.get(key)
        return pair[1] if pair else None


Node = Scalar | Items | Table
"""`size` counts the nodes below with every alias written out: it bounds the work before any is done."""


def node_at(node: Node | None, *keys: str) -> Node | None:
    """What is written at a path of keys, None where nothing is."""
    for key in keys:
        node = node.get(key) if isinstance(node, Table) else None
    return node


def is_null(node: Node) -> bool:
    """Whether nothing, `~` or `null` was written."""
    return isinstance(node, Scalar) and node.value is None


def place(text: str, offset: int) -> tuple[int, int]:
    """Line and column, from 1, of the character at `offset`."""
    before = text[:offset]
    return before.count("\n") + 1, offset - before.rfind("\n")
