"""What may be written at a place of a job file that is being edited: keys and values of the schema, with its help.

The text need not be valid YAML at that moment, so the place is found by indentation and brackets, not by a parser.
Pure.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from distui.frozen import frozen
from distui.regex import regex
from distui.spec.schema import schema
from distui.spec.yaml.shapes import Schema

_KEY = regex(r"""^(\s*(?:-\s+)*)["']?([\w.-]+)["']?\s*:(?=\s|$)""")
_BLOCK_TEXT = regex(r":\s*[|>][-+0-9]*\s*(?:#.*)?$|^\s*-\s+[|>][-+0-9]*\s*$")
_LAUNCHER = regex(r"""launcher\s*:\s*["']?(\w+)""")
OF_LAUNCHER = {"roles": "tf", "done_when": "tf", "task_per": "command", "torchrun": "torchrun"}
"""Keys that only mean something with one launcher: offered last with another one."""
_WORD = regex(r"[\w./@+-]*$")
_IN_FLOW = regex(r"""([\w.-]+)["']?\s*:\s*$""")
ITEM = "[]"
"""In a path: an item of a list."""


@frozen
class Option:
    """A word that may stand here."""

    word: str
    about: str = ""
    """What the schema says of it."""


@frozen
class Completion:
    """What may stand at a place."""

    start: int
    """The column (from 0) where the word begins that an option takes the place of."""
    options: tuple[Option, ...] = ()
    about: str = ""
    """What the schema says of the key of this line."""


@frozen
class _Place:
    path: tuple[str, ...]
    """Keys from the document down to the mapping, or to the key whose value is written."""
    value: bool
    """Whether a value is written here, not a key."""
    word: str
    present: frozenset[str] = frozenset()
    """Keys that the mapping has already."""


def complete(text: str, row: int, column: int, known: Mapping[str, Sequence[str]] | None = None) -> Completion:
    """Options at row and column (from 0), best first. `known` has words for dotted keys that no schema knows."""
    lines = text.split("\n")
    place = _place(lines, row, column)
    if place is None:
        return Completion(column)
    start = column - len(place.word)
    if place.value:
        found = list(_values(place.path, (known or {}).get(".".join(place.path), ())))
    else:
        found = [o for o in _keys(place.path) if o.word.rstrip(": ") not in place.present]
        if not place.path:
            launcher = _launcher(lines, row)
            found.sort(key=lambda option: OF_LAUNCHER.get(option.word.rstrip(": "), launcher) != launcher)
        found += _values(place.path, ()) if place.path[-1:] == (ITEM,) else ()
    about = describe(".".join(place.path)) if place.value else ""
    return Completion(start, tuple(_likely(place.word, found)), about)


def _launcher(lines: Sequence[str], row: int) -> str:
    """The launcher of the job that a line is of."""
    begin = max((at for at, line in enumerate(lines[:row]) if line.startswith("---")), default=0)
    for line in lines[begin:]:
        if (found := _LAUNCHER.match(line)) is not None:
            return found[1]
    return "env"


def describe(key: str) -> str:
    """What the schema says of a dotted key, "" where it knows none."""
    *above, last = key.split(".")
    return next((str(p[last].get("description", "")) for p in _properties(tuple(above)) if last in p), "")


def _likely(word: str, options: Sequence[Option]) -> Iterable[Option]:
    """Those that begin with the word, else those that are like it."""
    begin = [o for o in options if o.word.startswith(word)]
    if begin or not word:
        return [o for o in begin if o.word != word]
    by_word = {o.word.rstrip(": "): o for o in options}
    return [by_word[near] for near in difflib.get_close_matches(word, by_word, n=3, cutoff=0.6)]


def _keys(path: Sequence[str]) -> Iterator[Option]:
    for properties in _properties(tuple(path)):
        for name, found in properties.items():
            yield Option(f"{name}: ", str(found.get("description", "")))
    for one in _at(tuple(path)):
        yield from (Option(f"{name}: ") for name in one.get("propertyNames", {}).get("enum", ()))


def _values(path: Sequence[str], known: Sequence[str]) -> Iterator[Option]:
    seen: set[str] = set()
    for word in known:
        yield Option(word)
    for one in _at(tuple(path)):
        words = [str(w) for w in one.get("enum", ())] + (["true", "false"] if one.get("type") == "boolean" else [])
        default = one.get("default")
        for word in [*words, *([str(default)] if isinstance(default, str | int) and not words else [])]:
            if word not in seen:
                seen.add(word)
                yield Option(word, "the default" if word == str(default) else "")


# The schema.


@lru_cache(1)
def _job() -> Schema:
    return schema("job")


def _alternatives(one: Schema) -> Iterator[Schema]:
    """A schema, or what it says of each kind of value."""
    inner = one.get("anyOf")
    if inner is None:
        yield one
        return
    outer = {key: one[key] for key in ("default",) if key in one}
    for part in inner:
        for found in _alternatives(part):
            yield {**outer, **found}


def _at(path: tuple[str, ...]) -> list[Schema]:
    """The schemas that hold at a path, one for each kind of value."""
    found = [_job()]
    for key in path:
        below = [s for one in found if (s := one.get("items") if key == ITEM else _below(one, key)) is not None]
        found = [part for one in below for part in _alternatives(one)]
    return found


def _below(one: Schema, key: str) -> Schema | None:
    below = one.get("properties", {}).get(key)
    more = one.get("additionalProperties")
    return below if below is not None else more if isinstance(more, dict) else None


def _properties(path: tuple[str, ...]) -> list[Schema]:
    return [one["properties"] for one in _at(path) if "properties" in one]


# The place in the text.


def _place(lines: Sequence[str], row: int, column: int) -> _Place | None:
    """Where row and column are in the job; None in a comment, a block of text or a line that begins a document."""
    before = lines[row][:column] if row < len(lines) else ""
    if row < len(lines) and lines[row].lstrip().startswith("#"):
        return None  # also with the cursor before the sign: a key would be written in front of it
    if " #" in before or before.startswith(("---", "%")):
        return None
    above = _above(lines, row, _indent(before), item=before.lstrip().startswith("-"))
    if any(_BLOCK_TEXT.search(line) for line in above):
        return None
    path = [part for line in reversed(above) for part in _parts(line)]
    rest = before
    while (dash := rest.lstrip()).startswith("- "):
        path.append(ITEM)
        rest = " " * (len(rest) - len(dash) + 2) + dash[2:]
    own = _KEY.match(rest)
    word = _word(before)
    if own is None:
        flow = _flow(rest)
        return _in_flow(tuple(path), flow, word) or _Place(tuple(path), False, word, _beside(lines, row))
    path.append(own[2])
    flow = _flow(rest[own.end() :])
    return _in_flow(tuple(path), flow, word) or _Place(tuple(path), True, word)


def _word(before: str) -> str:
    found = _WORD.search(before)
    return found[0] if found else ""


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _above(lines: Sequence[str], row: int, indent: int, *, item: bool) -> list[str]:
    """The lines that this one lies below, the nearest first. An item may be as deep as the key of its list."""
    found = []
    for line in reversed(lines[:row]):
        if line.startswith(("---", "...")):
            break
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        here = _indent(line)
        if here < indent or (item and here == indent and not line.lstrip().startswith("-")):
            found.append(line)
            indent, item = here, False
    return found


def _parts(line: str) -> Iterator[str]:
    """What a line that others lie below adds to their path."""
    if line.lstrip().startswith("- "):
        yield ITEM
    if key := _KEY.match(line):
        yield key[2]


def _beside(lines: Sequence[str], row: int) -> frozenset[str]:
    """Keys of the block mapping that a line is in, but its own."""
    indent = _indent(lines[row]) if lines[row].strip() else None
    found: set[str] = set()
    for part in (reversed(lines[:row]), lines[row + 1 :]):
        for line in part:
            if not line.strip():
                continue
            here = _indent(line)
            indent = here if indent is None else indent
            if here < indent or line.startswith(("---", "...")):
                break
            if here == indent and (key := _KEY.match(line)) and "-" not in key[1]:
                found.add(key[2])
    return frozenset(found)


def _flow(text: str) -> list[tuple[str, str]] | None:
    """The brackets that are open at the end of a text, each with the key before it and what follows; None without."""
    stack: list[tuple[str, int]] = []
    quote = ""
    for at, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'" and (at == 0 or text[at - 1] in " {[,:"):
            quote = char
        elif char in "{[":
            stack.append((char, at))
        elif char in "}]" and stack:
            stack.pop()
    if quote or not stack:
        return None
    ends = [at for _, at in stack[1:]] + [len(text)]
    return [(char, text[at + 1 : end]) for (char, at), end in zip(stack, ends, strict=True)]


def _in_flow(path: tuple[str, ...], flow: list[tuple[str, str]] | None, word: str) -> _Place | None:
    if flow is None:
        return None
    made = list(path)
    for number, (bracket, inside) in enumerate(flow):
        last = number == len(flow) - 1
        if bracket == "[":
            made.append(ITEM)
            if last:
                return _Place(tuple(made), True, word)
            continue
        pairs = inside.split(",")
        key = _IN_FLOW.search(pairs[-1][: len(pairs[-1]) - (len(word) if last else 0)])
        if key is not None:
            made.append(key[1])
        if last:
            present = frozenset(p.partition(":")[0].strip(" \"'") for p in pairs[:-1])
            return _Place(tuple(made), key is not None, word, present)
    return None
