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
from distui.spec.yaml.nodes import MAX_DEPTH

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PLAIN = regex(r"(?:--?(?=[A-Za-z]))?[A-Za-z_./][\w./@+-]*(?::[\w./@+-]+)*")
_COLON = regex(r"[ \t]*:")
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
    documents = _documents(text)
    root = _root(documents, name)
    if root is None or root.flow_style:
        return None
    made = _set(_Text(text), root, list(keys), value)
    # a value may have held the anchor that another one refers to
    return made if made is not None and len(_documents(made)) == len(documents) else None


def _root(documents: Sequence[yaml.Node], name: str | None) -> yaml.MappingNode | None:
    root = next((d for d in documents if _named(d, name)), None)
    return root if isinstance(root, yaml.MappingNode) else None


class _Alias(yaml.Node):
    """Where a mapping or list is meant that is written elsewhere."""

    def __init__(self, of: yaml.CollectionNode, start: Any, end: Any) -> None:
        self.of, self.start_mark, self.end_mark = of, start, end


def _documents(text: str) -> list[yaml.Node]:
    """The documents as nodes, of which each has the place where it stands, aliases too; none where that is no YAML."""
    try:
        return list(_composed(text))
    except yaml.YAMLError:
        return []


def _composed(text: str) -> Iterator[yaml.Node]:
    anchors: dict[str, yaml.Node] = {}
    opened: list[yaml.CollectionNode] = []
    events: Iterator[Any] = yaml.parse(text, Loader=_LOADER)
    for event in events:
        node: yaml.Node
        at: tuple[Any, Any] = event.start_mark, event.end_mark
        match event:
            case yaml.DocumentStartEvent():
                anchors.clear()
                continue
            case yaml.CollectionStartEvent() if len(opened) < MAX_DEPTH:
                kind = yaml.MappingNode if isinstance(event, yaml.MappingStartEvent) else yaml.SequenceNode
                opened.append(kind(str(event.tag), [], *at, event.flow_style))
                anchors |= {event.anchor: opened[-1]} if event.anchor else {}
                continue
            case yaml.CollectionEndEvent() if opened:
                node = opened.pop()
                node.end_mark = at[1]
                if isinstance(node, yaml.MappingNode):
                    node.value = list(zip(node.value[::2], node.value[1::2], strict=True))
            case yaml.ScalarEvent():
                node = yaml.ScalarNode(str(event.tag), event.value, *at, event.style)
                anchors |= {event.anchor: node} if event.anchor else {}
            case yaml.AliasEvent() if event.anchor in anchors:
                node = _alias(anchors[event.anchor], *at)
            case yaml.NodeEvent():
                raise yaml.YAMLError("nested too deep, or an alias of nothing")
            case _:
                continue
        if opened:
            opened[-1].value.append(node)
        else:
            yield node


def _alias(of: yaml.Node, start: Any, end: Any) -> yaml.Node:
    if isinstance(of, yaml.CollectionNode):
        return _Alias(of, start, end)
    return yaml.ScalarNode(of.tag, of.value, start, end)


def _meant(node: yaml.Node | None) -> yaml.Node | None:
    return node.of if isinstance(node, _Alias) else node


def values_at(text: str, keys: Sequence[str], *, name: str | None = None) -> dict[str, str | tuple[str, ...]] | None:
    """What is written at dotted keys, valid or not: a scalar's value, a list of scalars, of anything else its text;
    "" where a key is missing. None when the text is not valid YAML, or the document is not a mapping."""
    root = _root(_documents(text), name)
    if root is None:
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
    root = _root(_documents(text), name)
    if root is None:
        return {}
    nodes = {key: _node(root, key.split(".")) for key in keys}
    return {key: node.start_mark.line + 1 for key, node in nodes.items() if node is not None and _is_nested(node)}


def _is_nested(node: yaml.Node | None) -> bool:
    node = _meant(node)
    if isinstance(node, yaml.SequenceNode):
        return not all(isinstance(item, yaml.ScalarNode) for item in node.value)
    return isinstance(node, yaml.MappingNode)


def _node(node: yaml.Node, keys: Sequence[str]) -> yaml.Node | None:
    """The node at a path of keys; where a value stands in the place of a mapping, that value."""
    table = _meant(node)
    if not keys or not isinstance(table, yaml.MappingNode):
        return node
    found = next((v for k, v in table.value if _is_key(k, keys[0])), None)
    return None if found is None else _node(found, keys[1:])


def _is_key(node: yaml.Node, key: str) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.value == key


def _written(source: _Text, node: yaml.Node | None) -> str | tuple[str, ...]:
    node = _meant(node)
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
    return any(_is_key(k, "name") and _is_key(v, name) for k, v in node.value)


class _Text:
    """A text whose places are reported by line and column: libyaml counts its index in bytes."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0, *(m.end() for m in re.finditer("\r\n|[\r\n\x85\u2028\u2029]", text))]

    def at(self, mark: yaml.Mark) -> int:
        """The index of a mark."""
        line: int = min(mark.line, len(self.starts) - 1)
        return min(self.starts[line] + int(mark.column), len(self.text))

    def has_colon(self, key: yaml.Node) -> bool:
        """Whether a key is written as nearly all are, with its colon behind it."""
        return _COLON.match(self.text, self.at(key.end_mark)) is not None

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
        if not isinstance(node, yaml.CollectionNode):
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


def _set(text: _Text, node: yaml.MappingNode, keys: list[str], value: str | None) -> str | None:
    """None where it is said elsewhere, for others too, or with `? key`."""
    pair = next(((k, v) for k, v in node.value if _is_key(k, keys[0])), None)
    if pair is None:
        if value is None:
            return text.text
        if node.value and not node.flow_style and not text.has_colon(node.value[0][0]):
            return None
        return _insert(text, node, keys, value)
    if (len(keys) > 1 and isinstance(pair[1], _Alias)) or not text.has_colon(pair[0]):
        return None
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
    of_blocks = re.compile(rf"(?:[ \t]*\n)*{indent} +#[^\n]*(?:\n|\Z)")  # comments that are set in further
    while (comment := of_blocks.match(body, end)) is not None:
        end = comment.end()
    if not body[:end].endswith("\n") and _ends_in_text(node):  # behind a block of text it would change that
        last = text.line_start(text.at(node.value[-1][0].start_mark))
        return f"{body[:last]}{indent}{entry}\n{body[last:]}"
    before = body[:end] if body[:end].endswith("\n") else body[:end] + "\n"
    return f"{before}{indent}{entry}\n{body[end:]}"


def _ends_in_text(node: yaml.Node) -> bool:
    """Whether the last value in it is a block of text, whose newlines count."""
    while isinstance(node, yaml.CollectionNode) and node.value:
        node = node.value[-1][1] if isinstance(node, yaml.MappingNode) else node.value[-1]
    return isinstance(node, yaml.ScalarNode) and node.style in ("|", ">")


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
