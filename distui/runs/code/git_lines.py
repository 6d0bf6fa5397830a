"""A line of an ignore file as git reads it, rewritten for pathspec, which reads some of them otherwise.

Git compares bytes: `?` and a bracket take one of them, of which a letter like é has two. So lines and paths become
texts with a character for each byte (`as_bytes`), and what a bracket takes is worked out here: pathspec sees one that
is no byte in its place (`Classes`).
"""

from __future__ import annotations

import re

from distui.regex import regex

_CLASSES = {
    "alnum": "09AZaz",
    "alpha": "AZaz",
    "blank": "  \t\t",
    "cntrl": "\x00\x1f\x7f\x7f",
    "digit": "09",
    "graph": "!~",
    "lower": "az",
    "print": " ~",
    "punct": "!/:@[`{~",
    "space": "  \t\n\r\r",
    "upper": "AZ",
    "xdigit": "09AFaf",
}
"""What git takes for each class, in pairs: the first and the last of a range."""
_FIRST = 0x10000
"""The first character that stands for a bracket: none of them is a byte, and they mean nothing to pathspec."""
_STANDS = regex(r"[\U00010000-\U0010ffff]")
_SPECIAL = regex(r"\\.|\\|\[", re.DOTALL)


def as_bytes(text: str) -> str:
    """A text with one character for each byte of it."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("latin-1")


class Classes:
    """What brackets take, and the characters that stand for them."""

    def __init__(self) -> None:
        self._stands: dict[frozenset[int], str] = {}
        self._made: dict[str, str] = {}

    def stands_for(self, taken: frozenset[int]) -> str:
        """A character for one that takes these bytes."""
        if taken not in self._stands:
            char = self._stands[taken] = chr(_FIRST + len(self._stands))
            self._made[char] = _expression(taken)
        return self._stands[taken]

    def put_into(self, expression: str) -> str:
        """An expression of pathspec's with the brackets in their places."""
        return _STANDS.sub(lambda char: self._made[char[0]], expression)


def for_pathspec(line: str, classes: Classes) -> str:
    """The line, of bytes, with the same meaning to pathspec; empty for one that names nothing.

    pathspec takes `a/**/` for `a/`; to git it is the folders in it.
    """
    line = _trimmed(line)
    if line in ("!", "!/") or line.startswith("#"):
        return ""
    if "[" in line or line.endswith("\\") or "\\/" in line:
        line = _plain(line, classes)
    if line and line[-1] != " " and line[-1].isspace():  # pathspec would cut it off
        line = f"{line[:-1]}{classes.stands_for(frozenset((ord(line[-1]),)))}"
    return f"{line}*/" if line.endswith("/**/") else line


def _trimmed(line: str) -> str:
    """Without the blanks at its end, but for one after a backslash."""
    kept = line.rstrip(" ")
    slashes = len(kept) - len(kept.rstrip("\\"))
    return f"{kept} " if slashes % 2 and kept != line else kept


def _plain(line: str, classes: Classes) -> str:
    """With characters in the place of brackets; empty where git says that it names nothing: a class that there is not,
    a bracket that is not closed, a backslash at the end or before a slash there, or at the beginning.
    """
    parts, at, anchored = list[str](), 0, False
    close = _Closes(line)
    while (token := _SPECIAL.search(line, at)) is not None:
        parts.append(line[at : token.start()])
        at, part = token.end(), token[0]
        if part == "[":
            found = _bracket(line, at, close)
            if found is None:
                return ""
            anchored = anchored or "/" in line[at : found[1]]  # no bracket names it, and yet it is one of the line
            taken, at = found
            part = classes.stands_for(taken)
        elif part == "\\":
            return ""
        elif part == "\\/":
            if "".join(parts) in ("", "!") or at == len(line):
                return ""
            part = "/"
        parts.append(part)
    made = "".join((*parts, line[at:]))
    bang = "!" if made.startswith("!") else ""
    return f"{bang}/{made[len(bang) :].removeprefix('/')}" if anchored else made


class _Closes:
    """Where the next `]` is: asked for ever later places, each part of the line is looked through once."""

    def __init__(self, line: str) -> None:
        self._line = line
        self._at = -1

    def after(self, place: int) -> int:
        """The next one from this place on; the line's end where there is none."""
        if self._at < place:
            found = self._line.find("]", place)
            self._at = found if found >= 0 else len(self._line)
        return self._at


def _bracket(line: str, at: int, close: _Closes) -> tuple[frozenset[int], int] | None:
    """The bytes that a bracket takes whose inside begins here, and where the line goes on; None where it names nothing.

    As git's wildmatch.c does it, step by step: a `]` that comes first is no end, a class has no range behind it, and a
    backslash before a character means that one.
    """
    negated = line[at : at + 1] in ("!", "^")
    at += negated
    taken, before, first = set[int](), "", True
    while True:
        char = line[at : at + 1]
        if not char:
            return None
        if char == "]" and not first:
            break
        first = False
        if char == "\\":
            at, char = at + 1, line[at + 1 : at + 2]
            if not char:
                return None
            taken.add(ord(char))
        elif char == "-" and before and line[at + 1 : at + 2] not in ("", "]"):
            at += 2 if line[at + 1] == "\\" else 1
            if not (last := line[at : at + 1]):
                return None
            taken.update(range(ord(before), ord(last) + 1))
            char = ""
        elif char == "[" and line[at + 1 : at + 2] == ":" and (end := close.after(at + 2)) >= at + 3:
            if end == len(line):
                return None
            if line[end - 1] == ":":
                pairs = _CLASSES.get(line[at + 2 : end - 1])
                if pairs is None:
                    return None
                for low, high in zip(pairs[::2], pairs[1::2], strict=True):
                    taken.update(range(ord(low), ord(high) + 1))
                at, char = end, ""
            else:
                taken.add(ord(char))
        else:
            taken.add(ord(char))
        before, at = char, at + 1
    return frozenset((set(range(256)) - taken if negated else taken) - {ord("/")}), at + 1


def _expression(taken: frozenset[int]) -> str:
    """A regular expression that takes these bytes: the shorter of what it takes and what it leaves."""
    if not taken:
        return "(?!)"
    left = frozenset(range(256)) - taken
    return f"[^{_ranges(left)}]" if len(left) < len(taken) else f"[{_ranges(taken)}]"


def _ranges(chars: frozenset[int]) -> str:
    parts = list[str]()
    ordered = sorted(chars)
    start = 0
    for end in range(1, len(ordered) + 1):
        if end == len(ordered) or ordered[end] != ordered[end - 1] + 1:
            low, high = ordered[start], ordered[end - 1]
            parts.append(f"\\x{low:02x}" if low == high else f"\\x{low:02x}-\\x{high:02x}")
            start = end
    return "".join(parts)
