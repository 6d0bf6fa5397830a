"""A line of an ignore file as git reads it, rewritten for pathspec, which reads some of them otherwise."""

from __future__ import annotations

import re

from distui.regex import regex

_ASCII = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": " \t",
    "cntrl": "\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "0-~!-.",
    "lower": "a-z",
    "print": "0-~ -.",
    "punct": ":-@[-`{-~!-.",
    "space": " \t\n\r",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}
"""What git takes for each class: without `/`, which no bracket names, and none begins with `!`, which would negate."""

_ITEM = r"\[:(?P<name>[^\]]{0,40}):\]|\\?(?P<first>(?<=\\).|[^\\\]])-\\?(?P<last>(?<=\\).|[^\\\]])|\\.|[^\\\]]"
"""In a bracket: a class, whose name is looked for as far as names go, a range, a character."""
_IN_BRACKET = regex(_ITEM, re.DOTALL)
_TOKEN = regex(rf"\\.|(?P<head>\[[!^]?\]?+)(?P<inside>(?:{_ITEM})*+)\]|.", re.DOTALL)


def for_pathspec(line: str) -> str:
    """The line with the same meaning to pathspec; empty for one that names nothing.

    pathspec takes `a/**/` for `a/`; to git it is the folders in it.
    """
    line = _trimmed(line)
    if line in ("!", "!/") or line.startswith("#"):
        return ""
    if "[" in line or line.endswith("\\") or "\\/" in line:
        line = _plain(line)
    return f"{line}*/" if line.endswith("/**/") else line


def _trimmed(line: str) -> str:
    """Without the blanks at its end, but for one after a backslash."""
    kept = line.rstrip()
    slashes = len(kept) - len(kept.rstrip("\\"))
    return f"{kept[:-1]}[{line[len(kept)]}]" if slashes % 2 and kept != line else kept


def _plain(line: str) -> str:
    """With ranges in the place of classes; empty where git says that it names nothing: a class that there is not, a
    bracket that is not closed, a backslash at the end or before a slash there, or at the beginning.
    """
    parts = list[str]()
    for token in _TOKEN.finditer(line):
        part = token[0]
        if part in ("\\", "["):
            return ""
        if part == "\\/":
            if parts in ([], ["!"]) or token.end() == len(line):
                return ""
            part = "/"
        if token["inside"]:
            names = {item["name"] for item in _IN_BRACKET.finditer(token["inside"])} - {None}
            if not _ASCII.keys() >= names:
                return ""
            part = f"{token['head']}{_IN_BRACKET.sub(_ranges, token['inside'])}]"
            part = "\\[" if part == "[[]" else part  # Python warns of what it may mean one day
        parts.append(part)
    return "".join(parts)


def _ranges(item: re.Match[str]) -> str:
    """A class as ranges. Of a range that runs backwards git takes its first character, and others take none at all."""
    if item["name"] is not None:
        return _ASCII[item["name"]]
    backwards = item["first"] is not None and item["first"] > item["last"]
    return item["first"] if backwards else item[0]
