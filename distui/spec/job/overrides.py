"""Values from the command line that replace those of a job file: `--set fabric.kind=tcp`, `--image IMG` ..."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distui.errors import UsageError
from distui.frozen import frozen
from distui.spec.yaml.nodes import MAX_DEPTH, Items, Node, Scalar, Source, Table, is_null
from distui.spec.yaml.problems import Problems, shown

Plain = str | int | float | bool | Sequence["Plain"] | Mapping[str, "Plain"] | None


@frozen
class Override:
    """Sets the dotted `key` to `value`. `flag` is how messages name it (`--image`).

    `value` is a plain value, or with `yaml` a text to be read as YAML (`--set`). It takes the place of what the
    file says, but a plain mapping (`-e K=V`) is added to the file's.
    """

    key: str
    value: Plain
    flag: str
    yaml: bool = False


def parse_set(text: str) -> Override:
    """`a.b=v`, the value as YAML. Raises UsageError."""
    key, equals, value = text.partition("=")
    parts = key.split(".")
    if not equals or not all(p and p == p.strip() for p in parts):
        raise UsageError(f"--set {shown(text)}: expected KEY=VALUE, such as --set fabric.kind=tcp")
    if len(parts) > MAX_DEPTH:
        raise UsageError(f"--set {shown(key)}: nested more than {MAX_DEPTH} levels deep")
    return Override(key, value, f"--set {key}", yaml=True)


def apply(root: Node, override: Override, problems: Problems) -> Node:
    """`root` with the override in it. The tree given is not changed: aliases may share parts of it."""
    source = Source(override.flag, str(override.value), is_flag=True)
    value = _value(override, source, problems)
    if value is None:
        return root
    return _put(root, override.key.split("."), value, add=not override.yaml)


def _value(override: Override, source: Source, problems: Problems) -> Node | None:
    if not override.yaml:
        return node_of(override.value, source)
    from distui.spec.yaml.document import parse  # the one place here that needs yaml

    before = len(problems)
    documents = parse(source, problems)
    if len(problems) > before:
        return None
    if not documents:
        return Scalar(source, 1, 1, "", None)
    return _loosened(documents[0])


def _loosened(node: Node) -> Node:
    if isinstance(node, Scalar):
        node.loose = True
    return node


def node_of(value: Plain, source: Source) -> Node:
    """A tree for a plain value."""
    match value:
        case Mapping():
            pairs = {k: (Scalar(source, 1, 1, k, k), node_of(v, source)) for k, v in value.items()}
            return Table(source, 1, 1, pairs)
        case str():
            return Scalar(source, 1, 1, value, value, loose=True)
        case Sequence():
            return Items(source, 1, 1, [node_of(v, source) for v in value])
        case None:
            return Scalar(source, 1, 1, "", value, loose=True)
        case bool():
            return Scalar(source, 1, 1, str(value).lower(), value, loose=True)
        case _:
            return Scalar(source, 1, 1, str(value), value, loose=True)


_SHORT = {"code": "path", "build": "context", "hosts": "names"}
"""Keys that may be one text, or a list of hosts, and what that is short for."""
_INSTEAD = ("git", "group", "label")
"""Keys that take its place."""


def _put(node: Node | None, keys: list[str], value: Node, *, add: bool, name: str = "") -> Node:
    """`node`, the value of the key `name`, with `value` at the keys below it."""
    if not keys:
        return _added(node, value) if add else value
    word = Scalar(value.source, 1, 1, keys[0], keys[0])
    if name == "env" and isinstance(node, Items) and not keys[1:] and isinstance(value, Scalar) and not is_null(value):
        return _added(node, Table(value.source, 1, 1, {keys[0]: (word, value)}))
    pairs = dict(node.pairs) if isinstance(node, Table) else _written_out(node, name, keys[0])
    old = pairs.get(keys[0])
    pairs[keys[0]] = (old[0] if old else word, _put(old[1] if old else None, keys[1:], value, add=add, name=keys[0]))
    place = node if isinstance(node, Table) else value
    return Table(place.source, place.line, place.column, pairs)


def _written_out(node: Node | None, name: str, key: str) -> dict[str, tuple[Scalar, Node]]:
    """What a short form such as `build: ./docker` says, for one of its keys to be set beside it: not another source."""
    if node is None or is_null(node) or name not in _SHORT or key in _INSTEAD:
        return {}
    return {_SHORT[name]: (Scalar(node.source, node.line, node.column, _SHORT[name], _SHORT[name]), node)}


def _added(old: Node | None, new: Node) -> Node:
    """A mapping given by a flag (`-e K=V`) adds to the one in the file."""
    if not isinstance(new, Table):
        return new
    match old:
        case Table():
            return Table(old.source, old.line, old.column, {**old.pairs, **new.pairs})
        case Items():
            kept = [n for n in old.items if not (isinstance(n, Scalar) and n.text.partition("=")[0] in new.pairs)]
            return Items(old.source, old.line, old.column, [*kept, *_lines(new)])
        case _:
            return new


def _lines(table: Table) -> list[Node]:
    """A mapping as items `NAME=value`."""
    lines = [(value, f"{name}={value.text}") for name, (_, value) in table.pairs.items() if isinstance(value, Scalar)]
    return [Scalar(v.source, v.line, v.column, text, text, loose=True) for v, text in lines]
