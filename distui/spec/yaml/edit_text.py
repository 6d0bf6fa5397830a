"""Changes one value in the text of a YAML file and leaves everything else as it was written.

Comments stay, too, even those beside a value that goes: beside the key when there is just one, else on lines below.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from distui.regex import regex

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PLAIN = regex(r"(?:--?(?=[A-Za-z]))?[A-Za-z_./][\w./@+-]*(?::[\w./@+-]+)*")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n", "~"})


def scalar(value: str) -> str:
    """`value` as a YAML scalar that is a string in block and in flow context; quoted where it has to be."""
    plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS and value.strip(".") and value != "."
    if plain:
        return value
    if ('"' in value or "\\" in value) and value.isprintable():  # as a person would write it
        return "'" + value.replace("'", "''") + "'"
    return json.dumps(value, ensure_ascii=False)


def words(values: Sequence[str]) -> str:
    """A list of strings on one line."""
    return "[" + ", ".join(scalar(v) for v in values) + "]"


def set_value(text: str, key: str, value: str | None, *, name: str | None = None) -> str | None:
    """`text` with the dotted `key` set to `value` (YAML on one line), or without that key when `value` is None.

    `name` picks the document whose `name:` it is. None when the text can't be changed safely: it is not valid
    YAML, or the document is not a block mapping.
    """
    return set_at(text, key.split("."), value, name=name)


def set_at(text: str, keys: Sequence[str], value: str | None, *, name: str | None = None) -> str | None:
    """As `set_value`, for keys that may hold dots themselves, as names of hosts do."""
    try:
        documents = list(yaml.compose_all(text, Loader=_LOADER))
    except (yaml.YAMLError, RecursionError):
        return None
    root = next((d for d in documents if _named(d, name)), None)
    if not isinstance(root, yaml.MappingNode) or root.flow_style:
        return None
    made = _set(_Text(text), root, list(keys), value)
    return made if _composes(made, len(documents)) else None


def _composes(text: str, documents: int) -> bool:
    """Whether a text is YAML still: a value may have held the anchor that another one refers to."""
    try:
        return len(list(yaml.compose_all(text, Loader=_LOADER))) == documents
    except (yaml.YAMLError, RecursionError):
        return False


def values_at(text: str, keys: Sequence[str], *, name: str | None = None) -> dict[str, str | tuple[str, ...]] | None:
    """What is written at dotted keys, valid or not: a scalar's value, a list of scalars, of anything else its text;
    "" where a key is missing. None when the text is not valid YAML, or the document is not a mapping."""
    try:
        documents = list(yaml.compose_all(text, Loader=_LOADER))
    except (yaml.YAMLError, RecursionError):
        return None
    root = next((d for d in documents if _named(d, name)), None)
    if not isinstance(root, yaml.MappingNode):
        return None
    source = _Text(text)
    return {key: _written(source, _node(root, key.split("."))) for key in keys}


def scalars(text: str) -> Iterator[str]:
    """Every key and every scalar, as YAML reads them; of a text that is no YAML those before its first mistake."""
    with contextlib.suppress(yaml.YAMLError):
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.ScalarEvent):
                yield event.value


def nested_at(text: str, keys: Sequence[str], *, name: str | None = None) -> dict[str, int]:
    """Of these dotted keys those whose value is a mapping, or a list with more than scalars in it: what one line of
    words can't say. Each with the line where the value begins, from 1."""
    try:
        documents = list(yaml.compose_all(text, Loader=_LOADER))
    except (yaml.YAMLError, RecursionError):
        return {}
    root = next((d for d in documents if _named(d, name)), None)
    if not isinstance(root, yaml.MappingNode):
        return {}
    nodes = {key: _node(root, key.split(".")) for key in keys}
    return {key: node.start_mark.line + 1 for key, node in nodes.items() if node is not None and _is_nested(node)}


def _is_nested(node: yaml.Node) -> bool:
    if isinstance(node, yaml.SequenceNode):
        return not all(isinstance(item, yaml.ScalarNode) for item in node.value)
    return isinstance(node, yaml.MappingNode)


def _node(node: yaml.Node, keys: Sequence[str]) -> yaml.Node | None:
    """The node at a path of keys; where a value stands in the place of a mapping, that value."""
    if not keys or not isinstance(node, yaml.MappingNode):
        return node
    found = next((v for k, v in node.value if k.value == keys[0]), None)
    return None if found is None else _node(found, keys[1:])


def _written(source: _Text, node: yaml.Node | None) -> str | tuple[str, ...]:
    if node is None:
        return ""
    if isinstance(node, yaml.ScalarNode):
        return str(node.value)
    if isinstance(node, yaml.SequenceNode) and all(isinstance(item, yaml.ScalarNode) for item in node.value):
        return tuple(str(item.value) for item in node.value)
    return source.text[source.at(node.start_mark) : source.end(node)]


def _named(node: yaml.Node, name: str | None) -> bool:
    if name is None or not isinstance(node, yaml.MappingNode):
        return True
    return any(k.value == "name" and v.value == name for k, v in node.value)


class _Text:
    """A text whose places are reported by line and column: libyaml counts its index in bytes."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0, *(m.end() for m in re.finditer("\r\n|[\r\n\x85\u2028\u2029]", text))]

    def at(self, mark: yaml.Mark) -> int:
        """The index of a mark."""
        line: int = min(mark.line, len(self.starts) - 1)
        return min(self.starts[line] + int(mark.column), len(self.text))

    def line_start(self, index: int) -> int:
        """Where the line of `index` begins."""
        return self.text.rfind("\n", 0, index) + 1

    def line_end(self, index: int) -> int:
        """Where the next line begins."""
        end = self.text.find("\n", index)
        return len(self.text) if end < 0 else end + 1

    def comments(self, begin: int, end: int, node: yaml.Node) -> list[str]:
        """The comments around and between the parts of a node: that on the first line ("" without), then the others."""
        kept = list(self.text[begin:end])
        for start, stop in self._leaves(node):
            kept[max(0, start - begin) : max(0, stop - begin)] = [
                "x" if c != "\n" else c for c in self.text[start:stop]
            ]
        first, *others = [re.search(r"(?:^|(?<=\s))#.*", line) for line in "".join(kept).split("\n")]
        return [first[0] if first else "", *(found[0] for found in others if found)]

    def _leaves(self, node: yaml.Node) -> Iterator[tuple[int, int]]:
        """Where the single values in a node stand."""
        if isinstance(node, yaml.ScalarNode):
            yield self.at(node.start_mark), self.end(node)
            return
        for child in node.value:
            for part in child if isinstance(child, tuple) else (child,):
                yield from self._leaves(part)

    def end(self, node: yaml.Node) -> int:
        """Where what was written of a node ends, without the comments and empty lines after it."""
        if isinstance(node, yaml.CollectionNode) and not node.flow_style:
            last = node.value[-1] if node.value else None
            return self.end(last[1] if isinstance(last, tuple) else last) if last else self.at(node.start_mark)
        start, end = self.at(node.start_mark), self.at(node.end_mark)
        return start + len(self.text[start:end].rstrip())


def _set(text: _Text, node: yaml.MappingNode, keys: list[str], value: str | None) -> str:
    pair = next(((k, v) for k, v in node.value if k.value == keys[0]), None)
    if pair is None:
        return text.text if value is None else _insert(text, node, keys, value)
    if len(keys) > 1 and isinstance(pair[1], yaml.MappingNode):
        return _set(text, pair[1], keys[1:], value)
    if value is None:
        return _without(text, node, pair)
    return _replace(text, pair, _nested(keys[1:], value))


def _nested(keys: list[str], value: str) -> str:
    for key in reversed(keys):
        value = "{" + f"{scalar(key)}: {value}" + "}"
    return value


def _replace(text: _Text, pair: tuple[Any, Any], value: str) -> str:
    """The value after the key's colon; a block below the key becomes one line."""
    key, old = pair
    colon = text.text.index(":", text.at(key.end_mark)) + 1
    start, end = text.at(old.start_mark), text.end(old)
    if isinstance(old, yaml.ScalarNode) and end <= start:
        start = end = colon
    body = text.text
    if "\n" in body[colon:start] or start == colon or "\n" in body[start:end]:
        first, *others = text.comments(colon, end, old)
        indent = " " * (int(key.start_mark.column) + 2)
        kept = "".join(f"\n{indent}{comment}" for comment in others)
        after, rest = _cut_comment(body, end) if first or others else ("", body[end:])
        kept += f"\n{indent}{after}" if after and first else ""
        same = first or after
        return f"{body[:colon]} {value}{'  ' * bool(same)}{same}{kept}{rest}"
    return body[:start] + value + body[end:]


def _cut_comment(body: str, end: int) -> tuple[str, str]:
    """The comment that follows on the line, and what comes after it."""
    found = re.match(r"[ \t]+(#[^\n]*)", body[end:])
    return (found[1], body[end + found.end() :]) if found else ("", body[end:])


def _insert(text: _Text, node: yaml.MappingNode, keys: list[str], value: str) -> str:
    entry, body = f"{scalar(keys[0])}: {_nested(keys[1:], value)}", text.text
    if node.flow_style:
        close = text.at(node.end_mark) - 1
        return body[:close].rstrip() + (", " if node.value else "") + entry + body[close:]
    indent = " " * int(node.value[0][0].start_mark.column) if node.value else ""
    end = text.line_end(max(text.at(node.start_mark), text.end(node) - 1))
    before = body[:end] if body[:end].endswith("\n") else body[:end] + "\n"
    return f"{before}{indent}{entry}\n{body[end:]}"


def _without(text: _Text, node: yaml.MappingNode, pair: tuple[Any, Any]) -> str:
    """Whole lines in a block; in a flow mapping the pair and one comma."""
    key, value = pair
    start, end, body = text.at(key.start_mark), text.end(value), text.text
    if not node.flow_style:
        stop = text.line_end(max(start, end - 1))
        indent = " " * int(key.start_mark.column)
        comments = [comment for comment in text.comments(text.at(key.end_mark), stop, value) if comment]
        kept = "".join(f"{indent}{comment}\n" for comment in comments)
        return body[: text.line_start(start)] + kept + body[stop:]
    after = re.match(r"\s*,\s*", body[end:])
    if after:
        return body[:start] + body[end + after.end() :]
    return re.sub(r"\s*,\s*$", "", body[:start]) + body[end:]
