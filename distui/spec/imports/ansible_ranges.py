"""Ansible's host patterns: `node[01:50]`, `gpu[1:5:2]`, `db-[a:c]`, several in one name, and `host:2222`.

The rules are those of `expand_hostname_range` in Ansible's inventory plugins: both ends belong to a range, zeros in
front are kept, letters go from a to z and then from A to Z, a third number is the step.
"""

from __future__ import annotations

import re
import string
from itertools import product

from distui.regex import regex
from distui.spec.hosts.names import MAX_NAMES
from distui.spec.yaml.problems import Wrong, shown
from distui.whole import whole

_BRACKET = regex(r"\[([^\[\]]*)\]")
_PORT = regex(r"(.+):([0-9]{1,5})")


def parse(pattern: str) -> tuple[tuple[str, ...], str]:
    """The names a pattern stands for, and the port it ends with ("" for none). Raises Wrong."""
    bare, port = pattern, ""
    if pattern[pattern.rfind("]") + 1 :].count(":") == 1 and (match := _PORT.fullmatch(pattern)):
        bare, port = match[1], match[2]
    return expand(bare), port


def expand(pattern: str) -> tuple[str, ...]:
    """`db-[a:c]` -> db-a, db-b, db-c. Raises Wrong."""
    parts = _BRACKET.split(pattern)
    literals, ranges = parts[::2], [_members(r, pattern) for r in parts[1::2]]
    total = 1
    for members in ranges:
        total *= len(members)
        if total > MAX_NAMES:
            raise Wrong(f"{shown(pattern)} stands for more than {MAX_NAMES} names")
    return tuple(_joined(literals, chosen) for chosen in product(*ranges))


def _joined(literals: list[str], chosen: tuple[str, ...]) -> str:
    return literals[0] + "".join(c + text for c, text in zip(chosen, literals[1:], strict=True))


def _members(text: str, pattern: str) -> tuple[str, ...]:
    """What stands in a bracket, `01:50` or `a:f:2`."""
    begin, colon, rest = text.partition(":")
    end, _, step_text = rest.partition(":")
    step = whole(step_text or "1")
    if not colon or not end or not step:
        raise Wrong(f"{shown(pattern)}: [{text[:40]}] is not a range; Ansible writes [01:50], [1:9:2] or [a:f]")
    begin = begin or "0"
    if begin in string.ascii_letters and end in string.ascii_letters and len(begin) == len(end) == 1:
        return _letters(begin, end, step, pattern)
    return _numbers(begin, end, step, pattern)


def _letters(begin: str, end: str, step: int, pattern: str) -> tuple[str, ...]:
    first, last = string.ascii_letters.index(begin), string.ascii_letters.index(end)
    if first > last:
        raise Wrong(f"{shown(pattern)}: the range {begin}:{end} ends before it starts")
    return tuple(string.ascii_letters[first : last + 1 : step])


def _numbers(begin: str, end: str, step: int, pattern: str) -> tuple[str, ...]:
    if not re.fullmatch("[0-9]{1,9}", begin) or not re.fullmatch("[0-9]{1,9}", end):
        raise Wrong(f"{shown(pattern)}: a range goes from a number to a number, or from a letter to a letter")
    width = len(begin) if begin[0] == "0" and len(begin) > 1 else 1
    if width > 1 and len(end) != width:
        raise Wrong(f"{shown(pattern)}: the two ends of {begin}:{end} have different lengths")
    if int(end) < int(begin):
        raise Wrong(f"{shown(pattern)}: the range {begin}:{end} ends before it starts")
    numbers = range(int(begin), int(end) + 1, step)
    if len(numbers) > MAX_NAMES:
        raise Wrong(f"{shown(pattern)} stands for more than {MAX_NAMES} names")
    return tuple(f"{n:0{width}d}" for n in numbers)
