"""`.dockerignore` as Docker reads it: patterns from the context's root, the last one that matches decides.

The rules are moby's patternmatcher: `*` and `?` within a name, `**` over any folders, `!` takes back, what is below a
folder that matches is left out with it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from functools import cached_property

from distui.regex import regex
from distui.runs.code.wildcards import Wildcard


class DockerIgnore:
    """The rules of one file. Raises ValueError for what is no pattern."""

    def __init__(self, lines: Iterable[str] = ()) -> None:
        self._rules = [rule for line in lines if (rule := _rule(line)) is not None]

    @cached_property
    def takes_back(self) -> bool:
        """Whether something in a folder that is left out may have to be kept."""
        return any(not out for out, _ in self._rules)

    def has(self, path: str) -> bool:
        """Whether `path`, relative to the context, is left out."""
        left_out = False
        for out, wildcard in self._rules:
            if left_out != out and any(wildcard.search(part) for part in _with_parents(path)):
                left_out = out
        return left_out


def _with_parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def _rule(line: str) -> tuple[bool, Wildcard] | None:
    """Whether it leaves out, and what; None for blanks and comments."""
    text = line.strip()
    if not text or line.startswith("#"):
        return None
    out = not text.startswith("!")
    text = text if out else text[1:].strip()
    if not text:
        raise ValueError("'!' stands alone")
    pattern = posixpath.normpath(text).lstrip("/")
    if pattern in ("", "."):
        return None
    try:
        return out, Wildcard(text, re.compile(rf"\A{_regex(pattern)}\Z", re.DOTALL))
    except re.error as exc:
        raise ValueError(f"{text!r}: {exc.msg}") from None


def _regex(pattern: str) -> str:
    made, at = "", 0
    while at < len(pattern):
        char = pattern[at]
        if pattern.startswith("**", at):
            at += 2 + pattern.startswith("/", at + 2)
            made += ".*" if at == len(pattern) or _is_suffix(pattern, at) else "(.*/)?"
            continue
        at += 1
        if char in "*?":
            made += "[^/]*" if char == "*" else "[^/]"
        elif char == "\\" and at < len(pattern):
            made += re.escape(pattern[at])
            at += 1
        elif char == "[" and (end := _class_end(pattern, at)) > 0:
            made += _class(pattern[at:end])
            at = end + 1
        else:
            made += re.escape(char)
    return made


def _is_suffix(pattern: str, at: int) -> bool:
    """Whether all behind a `**` that is no folder's is plain: such names end so. Else it stands for whole folders."""
    return at == 2 and not any(char in pattern[at:] for char in "*?[]\\")


_CLASS = regex(r"(?:\^|(?!\^))(?:\\.|[^\\])(?:\\.|[^\]\\])*(?=\])", re.DOTALL)
"""What is in brackets: a backslash means the character behind it, and a `]` that comes first is no end."""


def _class_end(pattern: str, at: int) -> int:
    found = _CLASS.match(pattern, at)
    if found is None:
        raise ValueError(f"{pattern!r} has a '[' without ']'")
    return found.end()


def _class(inside: str) -> str:
    negated = inside.startswith("^")
    body = re.sub(r"\\(.)|[\[\]&~|]", lambda found: re.escape(found[1] or found[0]), inside[negated:])
    return f"[{'^' if negated else ''}{body}]"
