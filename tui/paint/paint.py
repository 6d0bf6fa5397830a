"""Paints one row of cells: pieces of text with a style, in columns, never wider than asked.

Widgets that draw by line (`render_line`) build a `Line` and turn it into Textual's Strip. Text from hosts goes
through `safe` first, so that nothing in it can steer a terminal.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from distui.regex import regex
from distui.runs.lines.text import safe

NOTHING = Style()
LAST_CELLS = 4
"""So many cells of the end of a name stay where it has eight: `0012`, `8ff4`."""
_DOMAIN = regex(r"(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,}")
"""What follows the first label of a host's full name."""
UNIT_CELLS = 3
_NUMBER = regex(
    rf"[0-9]+(?:[.,][0-9]+)*(?:[eE][-+]?[0-9]+(?![.,]?[0-9]))?(?:[A-Za-z%]{{1,{UNIT_CELLS}}}(?![A-Za-z0-9_]))?"
)
"""A number with all that makes it another one: decimals, thousands, the exponent, a unit right behind it."""
_OF_NUMBERS = frozenset("0123456789.,+-eE")


def cut(text: str, width: int, mark: str = "…") -> str:
    """`text` in at most `width` cells; a longer one ends in `mark`. A number that has no room is left out: cut, it
    reads as another one (`port 2000…`).
    """
    if cell_len(text) <= width:
        return text
    kept = _begin(text, width, mark)
    at = len(kept) - len(mark) if kept.endswith(mark) else len(kept)
    begin, _ = _number_at(text, at)
    if begin == at:
        return kept
    return text[:begin].rstrip() + mark if width >= cell_len(mark) else ""


def cut_left(text: str, width: int, mark: str = "…") -> str:
    """`text` in at most `width` cells; of a longer one the end is kept: in a path it says the most. Numbers as in
    `cut`.
    """
    if cell_len(text) <= width:
        return text
    kept = _end(text, width, mark)
    _, end = _number_at(text, len(text) - len(kept) + len(mark))
    return mark + text[end:]


def _begin(text: str, width: int, mark: str) -> str:
    """`cut`, wherever that is."""
    if cell_len(text) <= width:
        return text
    if width <= cell_len(mark):
        return set_cell_size(text, max(0, width))
    return set_cell_size(text, width - cell_len(mark)).rstrip() + mark


def _end(text: str, width: int, mark: str) -> str:
    """`cut_left`, wherever that is."""
    if cell_len(text) <= width:
        return text
    while text and cell_len(text) > width - cell_len(mark):
        text = text[1:]
    return mark + text


def _number_at(text: str, at: int) -> tuple[int, int]:
    """Where the number begins and ends that a cut before character `at` would cut; twice `at` where there is none."""
    start = max(0, at - UNIT_CELLS)
    while start > 0 and text[start - 1] in _OF_NUMBERS:
        start -= 1
    for found in _NUMBER.finditer(text, start):
        if found.end() > at:
            return found.span() if found.start() < at else (at, at)
    return at, at


def cut_host(text: str, width: int, mark: str = "…") -> str:
    """As `cut_name`, of a host or several: of a full name the domain goes first, which others have, too."""
    label, _, domain = text.partition(".")
    if cell_len(text) > width and _DOMAIN.fullmatch(domain):
        text = label + mark if cell_len(label + mark) <= width else label
    return cut_name(text, width, mark)


def cut_name(text: str, width: int, mark: str = "…") -> str:
    """The name of a run, a job or a file in at most `width` cells: both ends of a longer one say which it is.

    Many share their beginning (`llm-pretraining-8ff4`, `resnet.imagenet.base`).
    """
    if cell_len(text) <= width:
        return text
    if width <= 2 * cell_len(mark):
        return _begin(text, width, mark)
    kept = max(width // 4, min(LAST_CELLS, width // 2))
    end = _end(text, kept + cell_len(mark), mark)
    return _begin(text, max(0, width - cell_len(end)), "").rstrip() + end


def names_apart(hosts: Sequence[str], width: int) -> dict[str, str]:
    """Each host's name in at most `width` cells, cut where that leaves the most of them different from the others."""
    names = [safe(host) for host in hosts]
    ways = [[cut_host(name, width) for name in names], [cut_name(name, width) for name in names]]
    ways += [[way(name, width, "…") for name in names] for way in (_begin, _end)]
    first, last = _alike(names), _alike([name[::-1] for name in names])
    ways.append([_end(name[: len(name) - last] + "…" * (last > 0), width, "…") for name in names])
    ways.append([_begin("…" * (first > 0) + name[first:], width, "…") for name in names])
    return dict(zip(hosts, max(ways, key=lambda found: len(set(found))), strict=True))


def _alike(names: Sequence[str]) -> int:
    """With how many letters all of them begin."""
    return next(
        (at for at, letters in enumerate(zip(*names, strict=False)) if len(set(letters)) > 1),
        min(map(len, names), default=0),
    )


class Line:
    """One row being painted, from left to right. Every method returns the line, so that calls chain."""

    __slots__ = ("pieces", "width")

    def __init__(self) -> None:
        self.pieces: list[tuple[str, Style]] = []
        self.width = 0

    def put(
        self, text: object, style: Style = NOTHING, *, width: int | None = None, right: bool = False, click: str = ""
    ) -> Line:
        """Append text; with `width` in a column of so many cells, `right` aligned if asked.

        `click` is a Textual action (`screen.open`) done when the text is clicked.
        """
        words = safe(str(text)).replace("\n", " ")
        if width is not None:
            words = _fit(words, width, right=right)
        if words:
            self.pieces.append((words, style + Style.from_meta({"@click": click}) if click else style))
            self.width += cell_len(words)
        return self

    def name(self, text: str, style: Style = NOTHING, *, width: int) -> Line:
        """Append the name of a run or a job in a column of so many cells."""
        return self.put(cut_name(safe(text), width), style, width=width)

    def host(self, text: str, style: Style = NOTHING, *, width: int) -> Line:
        """Append the name of a host, or of several, in a column of so many cells."""
        return self.put(cut_host(safe(text), width), style, width=width)

    def gap(self, cells: int = 2) -> Line:
        """Append empty cells."""
        return self.put(" " * max(0, cells))

    def to(self, column: int) -> Line:
        """Fill up to a column; at least one space when something is there already."""
        return self.gap(column - self.width if column > self.width else 1)

    def rule(self, until: int, style: Style, glyph: str = "─") -> Line:
        """A space and a thin rule up to a column, if there is room."""
        if until - self.width > 2:
            self.gap(1).put(glyph * (until - self.width), style)
        return self

    def add(self, other: Line) -> Line:
        """Append another line's pieces."""
        self.pieces += other.pieces
        self.width += other.width
        return self

    def ends_with(self, other: Line, width: int, *, gap: int = 2) -> Line:
        """Append `other` so that it ends at `width`; this line is cut when both do not fit."""
        room = width - other.width - gap
        if self.width > room:
            self.cut(max(0, room))
        return self.gap(width - other.width - self.width).add(other)

    def cut(self, width: int) -> Line:
        """Cut to at most `width` cells; what was longer ends in an ellipsis."""
        if self.width <= width:
            return self
        kept: list[tuple[str, Style]] = []
        room = width
        for text, style in self.pieces:
            size = cell_len(text)
            if size > room or (size == room and room > 0 and (text, style) != self.pieces[-1]):
                kept.append((cut(text + "  ", room), style))
                room = 0
                break
            kept.append((text, style))
            room -= size
        self.pieces, self.width = kept, sum(cell_len(t) for t, _ in kept)
        return self

    @property
    def plain(self) -> str:
        """The text without its styles."""
        return "".join(text for text, _ in self.pieces)

    def strip(self, width: int, base: Style = NOTHING) -> Strip:
        """The row in exactly `width` cells over the style `base`."""
        segments = [Segment(text, base + style) for text, style in self.pieces]
        return Strip(segments, self.width).adjust_cell_length(width, base)


def _fit(text: str, width: int, *, right: bool) -> str:
    text = cut(text, width)
    missing = " " * (width - cell_len(text))
    return missing + text if right else text + missing
