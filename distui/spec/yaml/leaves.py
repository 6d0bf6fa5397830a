"""The single values that keys take: text, whole numbers, words out of a few, durations, sizes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from distui.amounts import DURATION, seconds_of
from distui.amounts import duration as duration_words
from distui.regex import regex
from distui.spec.yaml.nodes import Scalar
from distui.spec.yaml.problems import Wrong, unknown
from distui.spec.yaml.shapes import Leaf, Schema, either_words

_SIZE = regex(r"[0-9]{1,18}(?:\.[0-9]{1,6})? ?(?:[kKmMgGtTpP](?:[iI]?[bB])?|[bB])?")
"""What Docker reads as a size: go-units RAMInBytes."""

Check = Callable[[str], object]


def text(
    expected: str = "text",
    *,
    check: Check | None = None,
    pattern: str = "",
    form: Schema | None = None,
    verbatim: bool = False,
    lines: bool = False,
) -> Leaf:
    """Text. A number is refused unless `verbatim`, which takes any value as it was written (`3.10`, `007`).

    `pattern` must match the whole text; `check` may raise Wrong with a better message. `lines` allows newlines.
    """
    whole = regex(pattern) if pattern else None

    def take(node: Scalar) -> str:
        if not (isinstance(node.value, str) or node.loose or verbatim):
            kind = "the word" if isinstance(node.value, bool) else "the number"
            raise Wrong(f'expected {expected}, got {kind} {node.text[:40]}: quote it, "{node.text[:40]}"')
        plain_text(node.text, lines=lines)
        if check:
            check(node.text)
        if whole and not whole.fullmatch(node.text):
            raise Wrong("")
        return node.text

    kinds: Schema = {"type": ["string", "number", "boolean"]} if verbatim else {"type": "string"}
    anchored = {"pattern": f"^(?:{pattern})$"} if pattern else {}
    return Leaf(expected, take, {**kinds, **anchored, **(form or {})})


def plain_text(value: str, *, lines: bool = False) -> None:
    """Raise Wrong if `value` has a NUL, or a newline where `lines` doesn't allow it."""
    if "\0" in value:
        raise Wrong("a NUL character can't be passed to a program")
    if not lines and ("\n" in value or "\r" in value):
        raise Wrong("a newline is not allowed here")


def once(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The items of a list. Raises Wrong when one is there twice."""
    for i, value in enumerate(values):
        if value in values[:i]:
            raise Wrong(f"{value} is listed twice")
    return values


def whole(low: int, high: int, what: str = "a number") -> Leaf:
    """A whole number from `low` to `high`."""
    expected = f"{what} from {low} to {high}"

    def take(node: Scalar) -> int:
        value = node.value
        if isinstance(value, str) and node.loose and re.fullmatch(r"-?[0-9]{1,18}", value):
            value = int(value)
        if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value):
            raise Wrong(f"expected {expected}, without quotes")
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise Wrong("")
        return value

    return Leaf(expected, take, {"type": "integer", "minimum": low, "maximum": high})


def choice(*words: str) -> Leaf:
    """One of a few words."""

    def take(node: Scalar) -> str:
        if node.text not in words:
            raise Wrong("")
        return node.text

    return Leaf(either_words(list(words)), take, {"enum": list(words)}, words)


def flag() -> Leaf:
    """true or false."""

    def take(node: Scalar) -> bool:
        if not isinstance(node.value, bool) and not (node.loose and node.text in ("true", "false")):
            raise Wrong("")
        return node.value is True or node.text == "true"

    return Leaf("true or false", take, {"type": "boolean"}, ("true", "false"))


def known_word(what: str, words: tuple[str, ...]) -> Leaf:
    """One of many words, so the message names the nearest instead of all."""

    def take(node: Scalar) -> str:
        if node.text not in words:
            raise Wrong(unknown(what, node.text, words))
        return node.text

    return Leaf(f"a {what}", take, {"enum": list(words)})


def either(*leaves: Leaf) -> Leaf:
    """The first of several single values that fits. A reason one of them gives is kept for the message."""

    def take(node: Scalar) -> Any:
        reason = ""
        for leaf in leaves:
            try:
                return leaf.take(node)
            except Wrong as wrong:
                reason = reason or wrong.message
        raise Wrong(reason)

    words = tuple(w for x in leaves for w in x.words or (x.expected,))
    return Leaf(either_words(list(words)), take, {"anyOf": [x.form for x in leaves]}, words)


def duration(low: float = 0.0, high: float = 30 * 86400.0) -> Leaf:
    """Seconds, from a number or from text such as `30s`, `2m`, `1h30m`."""
    expected = "a duration such as 30s, 2m or 1.5 (seconds)"

    def take(node: Scalar) -> float:
        if isinstance(node.value, bool) or node.value is None:
            raise Wrong("")
        value = node.value if isinstance(node.value, int | float) else seconds_of(node.value)
        if value is None:
            raise Wrong("")
        if not low <= value <= high:  # false for NaN too
            raise Wrong(f"expected a duration from {duration_words(low)} to {duration_words(high)}")
        return float(value)

    numbers = {"type": "number", "minimum": low, "maximum": high}
    return Leaf(expected, take, {"anyOf": [numbers, {"type": "string", "pattern": f"^(?:{DURATION.pattern})$"}]})


def size() -> Leaf:
    """A size in Docker's spelling, kept as written: `64g`, `512mb`, or bytes."""

    def take(node: Scalar) -> str:
        if isinstance(node.value, bool) or not _SIZE.fullmatch(node.text):
            raise Wrong("")
        return node.text

    form = {"type": ["string", "integer"], "pattern": f"^(?:{_SIZE.pattern})$"}
    return Leaf("a size such as 64g or 512m", take, form)
