"""What may stand at a key: one description that both reads a node and gives its JSON Schema.

The tables of keys (`host_keys.py`, `job_keys.py`) are built of these shapes, so a key that is read is in the schema
and the other way round. A shape never raises: it notes problems and returns MISSING.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any, Final, Protocol

from distui.frozen import frozen
from distui.spec.yaml.nodes import Items, Node, Scalar, Table, is_null
from distui.spec.yaml.problems import Problems, Wrong, did_you_mean, printable, shown

Schema = dict[str, Any]


class _Missing:
    """The type of MISSING."""


MISSING: Final = _Missing()
"""What a shape returns when it found a problem."""


class Shape(Protocol):
    """What may stand at a key."""

    @property
    def expected(self) -> str:
        """For messages: `expected {expected}`."""

    def read(self, node: Node, at: str, problems: Problems) -> Any:
        """The value of `node`, or MISSING after noting problems. `at` is the dotted key."""

    def schema(self, variables: bool) -> Schema:
        """JSON Schema of what is accepted; with `variables`, `${VAR}` may stand for any single value."""


@frozen
class Leaf:
    """A single value. `take` gets the scalar and returns the value or raises Wrong."""

    expected: str
    take: Callable[[Scalar], Any]
    form: Schema
    words: tuple[str, ...] = ()
    """The alternatives in `expected`, where there are several."""

    def read(self, node: Node, at: str, problems: Problems) -> Any:
        if isinstance(node, Scalar) and node.noted:
            return MISSING
        if not isinstance(node, Scalar) or node.value is None:
            problems.add(node, at, f"expected {self.expected}{_instead(node)}")
            return MISSING
        if not node.text.isascii() and (words := _quotes(node)):
            problems.add(node, at, words)
            return MISSING
        try:
            return self.take(node)
        except Wrong as wrong:
            problems.add(node, at, wrong.message or self._others(node))
            return MISSING

    def _others(self, node: Scalar) -> str:
        from distui.spec.yaml.called import meant  # only needed once something is wrong

        return f"expected {self.expected}{_written(node)}{meant(node.text, self.words)}"

    def schema(self, variables: bool) -> Schema:
        if not variables or self.form == {"type": "string"}:
            return dict(self.form)
        return {"anyOf": [dict(self.form), {"$ref": "#/$defs/variable"}]}


@frozen
class ListOf:
    """A list of one shape; `build` turns the tuple of items into the value and may raise Wrong."""

    item: Shape
    expected: str
    build: Callable[[tuple[Any, ...]], Any] = tuple
    at_least: int = 0

    def read(self, node: Node, at: str, problems: Problems) -> Any:
        if not isinstance(node, Items):
            problems.add(node, at, f"expected {self.expected}{_instead(node)}")
            return MISSING
        if len(node.items) < self.at_least:
            problems.add(node, at, f"expected {self.expected}; the list is empty")
            return MISSING
        values = tuple(self.item.read(n, f"{at}[{i}]", problems) for i, n in enumerate(node.items))
        if MISSING in values:
            return MISSING
        return _built(self.build, values, node, at, problems)

    def schema(self, variables: bool) -> Schema:
        least = {"minItems": self.at_least} if self.at_least else {}
        return {"type": "array", "items": self.item.schema(variables), **least}


@frozen
class MapOf:
    """A mapping with free keys. `key` returns a key's value or raises Wrong."""

    key: Callable[[Scalar], str]
    value: Shape
    expected: str
    build: Callable[[dict[str, Any]], Any] = dict
    names: Schema = field(default_factory=dict)
    """JSON Schema of the keys."""
    partial: bool = False
    """Give what could be read even when other entries have problems, so that more can be checked."""

    def read(self, node: Node, at: str, problems: Problems) -> Any:
        if not isinstance(node, Table):
            problems.add(node, at, f"expected {self.expected}{_instead(node)}{_colon(node)}")
            return MISSING
        values: dict[str, Any] = {}
        for word, child in node.pairs.values():
            where = join(at, word.text)
            try:
                name = self.key(word)
            except Wrong as wrong:
                problems.add(word, where, wrong.message)
                continue
            values[name] = self.value.read(child, where, problems)
        if self.partial:
            values = {k: v for k, v in values.items() if v is not MISSING}
        elif MISSING in values.values() or len(values) < len(node.pairs):
            return MISSING
        return _built(self.build, values, node, at, problems)

    def schema(self, variables: bool) -> Schema:
        names = {"propertyNames": dict(self.names)} if self.names else {}
        return {"type": "object", "additionalProperties": self.value.schema(variables), **names}


@frozen
class Key:
    """One key of a mapping."""

    name: str
    shape: Shape
    about: str
    """One sentence for the schema and the manual."""
    required: bool = False
    field: str = ""
    """The field of the value, where it is not called like the key."""
    default: Any = None
    """The default as written, for the schema."""


@frozen
class Look:
    """What a cross-check of a mapping gets: the values read, and where each was written."""

    values: Mapping[str, Any]
    table: Table
    at: str
    problems: Problems

    def has(self, key: str) -> bool:
        """Whether `key` was written and read."""
        return key in self.values

    def written(self, key: str) -> bool:
        """Whether something is written at `key`, right or wrong."""
        node = self.table.get(key)
        return node is not None and not is_null(node)

    def only_one(self, *keys: str) -> list[str]:
        """Which of these keys are there; each after the first is noted."""
        given = [key for key in keys if self.written(key)]
        of = f" of {', '.join(keys[:-1])} and {keys[-1]}" if len(keys) > 2 else ""
        for extra in given[1:]:
            self.note(extra, f"can't stand beside {given[0]}; choose one{of}")
        return given

    def note(self, key: str, message: str) -> None:
        """Note a problem at the value of `key`."""
        self.problems.add(self.table.get(key) or self.table, join(self.at, key), message)


@frozen
class Record:
    """A mapping with known keys. `build` gets the fields that were written."""

    keys: tuple[Key, ...]
    expected: str
    build: Callable[..., Any] = dict
    check: Callable[[Look], None] | None = None
    hints: Mapping[str, str] = field(default_factory=dict)
    """Keys people know from elsewhere, or that come later: what to say about them."""
    extensions: bool = False
    """Keys that start with `x-` are left alone, as places for YAML anchors (as in compose)."""

    def read(self, node: Node, at: str, problems: Problems) -> Any:
        if is_null(node):
            node = Table(node.source, node.line, node.column)
        if not isinstance(node, Table):
            problems.add(node, at, f"expected {self.expected}{_instead(node)}{_colon(node)}")
            return MISSING
        values, complete = self._values(node, at, problems)
        if self.check:
            self.check(Look(values, node, at, problems))
        fields = {k.field or k.name: values[k.name] for k in self.keys if k.name in values}
        return self.build(**fields) if complete else MISSING

    def read_partial(self, table: Table, at: str, problems: Problems) -> dict[str, Any]:
        """The values of the keys that could be read, whatever is wrong with the others."""
        return self._values(table, at, problems)[0]

    def _values(self, table: Table, at: str, problems: Problems) -> tuple[dict[str, Any], bool]:
        self._unknown(table, at, problems)
        values: dict[str, Any] = {}
        complete = True
        for key in self.keys:
            child = table.get(key.name)
            if child is None or is_null(child):
                if key.required:
                    problems.add(child or table, join(at, key.name), f"missing: expected {key.shape.expected}")
                    complete = False
                continue
            value = key.shape.read(child, join(at, key.name), problems)
            if value is not MISSING:
                values[key.name] = value
            elif key.required:
                complete = False
        return values, complete

    def _unknown(self, table: Table, at: str, problems: Problems) -> None:
        known = {k.name for k in self.keys}
        for name in table.pairs:
            if name in known or (self.extensions and name.startswith("x-")):
                continue
            message = self.hints.get(name) or f"unknown key{did_you_mean(name, known) or _listed(known)}"
            problems.add(table.pairs[name][0], join(at, name), message)

    def schema(self, variables: bool) -> Schema:
        properties = {k.name: _documented(k, variables) for k in self.keys}
        required = [k.name for k in self.keys if k.required]
        return {
            "type": "object",
            "properties": properties,
            **({"required": required} if required else {}),
            **({"patternProperties": {"^x-": {}}} if self.extensions else {}),
            "additionalProperties": False,
        }


@frozen
class ByKind:
    """One shape for a single value, one for a list, one for a mapping; None where that kind may not stand."""

    leaf: Leaf | None = None
    items: ListOf | None = None
    table: MapOf | Record | None = None

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The alternatives, in order."""
        return tuple(s for s in (self.leaf, self.items, self.table) if s is not None)

    @property
    def expected(self) -> str:
        words = [(s.words if isinstance(s, Leaf) else ()) or (s.expected,) for s in self.shapes]
        return either_words([w for several in words for w in several])

    def read(self, node: Node, at: str, problems: Problems) -> Any:
        shape = self._for(node)
        if shape is None or (isinstance(node, Scalar) and node.value is None and not node.noted):
            problems.add(node, at, f"expected {self.expected}{_instead(node)}{_colon(node) if self.table else ''}")
            return MISSING
        if isinstance(shape, Leaf):
            shape = replace(shape, expected=self.expected)
        return shape.read(node, at, problems)

    def _for(self, node: Node) -> Shape | None:
        match node:
            case Scalar():
                return self.leaf
            case Items():
                return self.items
            case Table():
                return self.table

    def schema(self, variables: bool) -> Schema:
        return {"anyOf": [s.schema(variables) for s in self.shapes]}


def join(at: str, key: str) -> str:
    """The dotted key of `key` under `at`."""
    return f"{at}.{key}" if at else key


def either_words(words: list[str]) -> str:
    """`ib, roce, tcp or auto`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _built(build: Callable[[Any], Any], values: Any, node: Node, at: str, problems: Problems) -> Any:
    try:
        return build(values)
    except Wrong as wrong:
        problems.add(node, at, wrong.message)
        return MISSING


def _documented(key: Key, variables: bool) -> Schema:
    default = {} if key.default is None else {"default": key.default}
    return {**key.shape.schema(variables), "description": key.about, **default}


def _listed(known: set[str]) -> str:
    return f"; known here: {', '.join(sorted(known))}" if len(known) <= 8 else ""


def _instead(node: Node) -> str:
    """`, got a list`: what was written in place of what is expected."""
    match node:
        case Items():
            return ", got a list"
        case Table():
            return ", got a mapping" + _braces(node)
        case Scalar(value=None):
            return "; nothing is written here"
        case Scalar():
            return _written(node, always=True)


def _braces(node: Table) -> str:
    """For `{rank}`, which YAML takes for a mapping, what to write."""
    name = next(iter(node.pairs), "")
    quoted = f"{{{name}}}"
    here = node.source.line(node.line)[node.column - 1 :]
    return f': quote it, "{printable(quoted)}"' if name and here.startswith(quoted) else ""


def _quotes(node: Scalar) -> str:
    """For “text”, whose quotes are none in YAML, what to write; not where it is in quotes that are."""
    from distui.spec.yaml.slips import curly  # as below

    return curly(node.text, node.source.line(node.line)[node.column - 1 :])


def _colon(node: Node) -> str:
    """For `name:t` in place of a mapping, what it lacks."""
    from distui.spec.yaml.slips import colon_hint  # only needed once something is wrong

    hint = colon_hint(node.text) if isinstance(node, Scalar) and isinstance(node.value, str) else ""
    return f"; {hint}" if hint else ""


def _written(node: Scalar, *, always: bool = False) -> str:
    """What was written, where the caret can't show it."""
    if always or node.loose:
        return f", got {shown(node.text)}" if isinstance(node.value, str) else f", got {printable(node.text)[:40]}"
    return ""
