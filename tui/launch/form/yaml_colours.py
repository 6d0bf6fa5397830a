"""Colours of the text of a job file: comments, keys, quoted text, variables. Pure, a line at a time."""

from __future__ import annotations

from collections.abc import Iterator

from rich.style import Style

from distui.regex import regex
from distui.tui.paint.theme import Palette

_PARTS = regex(
    r"""(?P<comment>(?:^|(?<=\s))\#.*$)"""
    r"""|(?P<key>(?:^\s*(?:-\s+)*|(?<=[{,])\s*)["']?[\w.-]+["']?\s*:(?=\s|$))"""
    r"""|(?P<quoted>"(?:[^"\\]|\\.)*"?|'[^']*'?)"""
    r"""|(?P<variable>\$\{[^}]*\}?|\{[a-z_]+\})"""
    r"""|(?P<number>(?<![\w./:-])-?\d+(?:\.\d+)?(?:[smhdgkGMT]i?)?(?![\w./:-]))"""
    r"""|(?P<mark>^---.*$|^%.*$|[\[\]{},])"""
)


def coloured(line: str, palette: Palette) -> Iterator[tuple[int, int, Style]]:
    """From, to (in characters) and style of what stands out in a line."""
    styles = {
        "comment": palette.faint,
        "key": palette.accent,
        "quoted": palette.good,
        "variable": palette.watch + Style(bold=False),
        "number": palette.good,
        "mark": palette.muted,
    }
    for found in _PARTS.finditer(line):
        kind = found.lastgroup or ""
        yield found.start(), found.end() - (kind == "key"), styles[kind]
