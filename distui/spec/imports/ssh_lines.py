"""The lines of OpenSSH's client configuration (ssh_config(5)): keywords, quoted words, patterns, Include.

Read by those who want to log in (`distui.remote.sshconfig`) and by those who only look for names (`import_ssh`).
"""

from __future__ import annotations

import fnmatch
import glob
import os
import re
from collections.abc import Iterator
from pathlib import Path

from distui.regex import regex

INCLUDE_DEPTH = 16
"""How deep files may include one another; as in ssh."""
_KEYWORD = regex(r'\s*("?)([A-Za-z0-9]+)\1[ \t]*=?[ \t]*(.*)$')
_WORD = regex(r'(?:"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|\\.|[^\s"\'\\])+')
_PIECE = regex(r'"((?:\\.|[^"\\])*)"|\'((?:\\.|[^\'\\])*)\'|\\(.)|([^"\'\\]+)')


def option_of(line: str) -> tuple[str, str] | None:
    """The keyword of a line as it is written, and the text after it; None when the line is not an option."""
    found = _KEYWORD.match(line)
    return (found[2], found[3].strip()) if found else None


def is_blank(line: str) -> bool:
    """Whether a line says nothing: it is empty or a comment."""
    return not line.strip() or line.lstrip().startswith("#")


def words_of(text: str) -> tuple[str, ...]:
    """The words of a value, without their quotes; a comment ends them. Raises ValueError for a quote left open."""
    found: list[str] = []
    position = 0
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        if text[position] == "#":
            break
        match = _WORD.match(text, position)
        if match is None:
            raise ValueError("a quote is not closed")
        found.append("".join(map(_unquoted, _PIECE.finditer(match[0]))))
        position = match.end()
    return tuple(found)


def host_matches(patterns: tuple[str, ...], name: str) -> bool:
    """Whether some pattern matches and no pattern with `!` does; `*` and `?` only, whatever their case."""
    matched, name = False, name.lower()
    for pattern in patterns:
        word = pattern.lstrip("!").lower()  # most are names, and with thousands of hosts each is asked for each
        wild = "*" in word or "?" in word
        if word == name or (wild and fnmatch.fnmatchcase(name, word.replace("[", "[[]"))):
            if pattern.startswith("!"):
                return False
            matched = True
    return matched


def included(pattern: str, base: Path, home: Path) -> Iterator[Path]:
    """The files an Include names, in the order of their names, as glob(3) gives them."""
    path = home / pattern[2:] if pattern.startswith("~/") else base / pattern
    # pathlib's glob also gives hidden files, such as an editor's copies, and has no `**` within a name
    yield from (Path(found) for found in sorted(glob.glob(str(path))) if os.path.isfile(found))  # noqa: PTH113, PTH207


def _unquoted(found: re.Match[str]) -> str:
    """A piece of a word without its quotes; a backslash counts only before a quote, a backslash or a blank."""
    double, single, escaped, plain = found.groups()
    if plain is not None:
        return plain
    if escaped is not None:
        return escaped if escaped in "\"'\\ " else "\\" + escaped
    return re.sub(r"\\([\"'\\])", r"\1", double if double is not None else single)
