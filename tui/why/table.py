"""Ranks as rows of cells: who holds the others up, how far behind or late each is, where it is, what it does. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from distui.frozen import frozen
from distui.runs.lines.explanation import RankPlace
from distui.runs.report.why_words import Row, cells, heads
from distui.tui.paint.glyphs import Glyphs
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette
from distui.tui.why.answers import Answer

BAR = 8
"""Cells of the bar that shows how far behind a rank is, or how late; each is one collective, while that is enough."""
GAP = 2
MOST = {"HOST": 14, "AT": 22}
"""Cells of columns that may be long."""
LEAST = 40
"""Cells that are left for what a rank does, if that is so long; where it has fewer, other columns go."""
GO_FIRST = ("WRITTEN", "READ", "NO CORE", "CPU", "AT")
BARS = frozenset({"BEHIND", "LATE"})
RIGHT = frozenset({"CPU", "NO CORE", "READ", "WRITTEN"})


@frozen
class Table:
    """One answer as rows under heads."""

    places: tuple[RankPlace, ...]
    heads: Row
    rows: tuple[Row, ...]
    top: float
    """What a full bar stands for."""

    @classmethod
    def of(cls, answer: Answer | None) -> Table:
        """The table of an answer; empty without one."""
        if answer is None:
            return cls((), (), (), 1.0)
        found, slow = answer.record.found, answer.slow
        columns = heads(found, slow)
        rows = tuple(cells(place, columns, slow) for place in found.ranks)
        values = [_measure(place, columns) or 0.0 for place in found.ranks]
        least = BAR if "BEHIND" in columns else 0.01
        return cls(found.ranks, columns, rows, max(least, *values, 0.0))

    def cells_of(self, rank: int) -> dict[str, str]:
        """All cells of a rank by their heads."""
        number = next(n for n, place in enumerate(self.places) if place.rank == rank)
        return dict(zip(self.heads, self.rows[number], strict=True))

    def columns(self, width: int) -> list[tuple[int, int]]:
        """The columns that fit, each with its cells; what a rank does has the rest."""
        wide = {}
        for number, head in enumerate(self.heads[:-1]):
            longest = max([cell_len(head), *(cell_len(row[number]) for row in self.rows)])
            wide[number] = min(longest, MOST.get(head, longest))
            if head in BARS:
                wide[number] = max(len(head), BAR + 1 + max((cell_len(row[number]) for row in self.rows), default=1))
        least = min(LEAST, max((cell_len(row[-1]) for row in self.rows), default=LEAST))
        for head in GO_FIRST:
            if width - 1 - sum(room + GAP for room in wide.values()) >= least or head not in self.heads:
                continue
            wide.pop(self.heads.index(head), None)
        rest = width - 1 - sum(room + GAP for room in wide.values())
        return [*wide.items(), (len(self.heads) - 1, max(1, rest))]


def _measure(place: RankPlace, columns: Sequence[str]) -> float | None:
    """What the bar shows."""
    return float(place.behind) if "BEHIND" in columns and place.behind is not None else place.late


def head_line(palette: Palette, table: Table, width: int) -> Line:
    """The names of the columns."""
    line = Line().gap(1)
    for number, room in table.columns(width) if table.heads else ():
        head = table.heads[number]
        line.gap(GAP if line.width > 1 else 0).put(head, palette.faint, width=room, right=head in RIGHT)
    return line.cut(width)


def rank_line(palette: Palette, glyphs: Glyphs, table: Table, number: int, width: int) -> Line:
    """One rank."""
    place, row = table.places[number], table.rows[number]
    loud = palette.watch if place.culprit else palette.text
    line = Line().gap(1)
    for column, room in table.columns(width):
        head, cell = table.heads[column], row[column]
        line.gap(GAP if line.width > 1 else 0)
        match head:
            case "RANK":
                line.put(glyphs.remark if place.culprit else " ", palette.watch).put(cell[1:], loud, width=room - 1)
            case "BEHIND" | "LATE":
                _bar(line, palette, glyphs, table, place).gap(1).put(cell or "-", loud, width=room - BAR - 1)
            case "DOES":
                line.put(cell, palette.bold if place.culprit else palette.text, width=room)
            case _:
                style = palette.text if place.culprit else palette.muted
                line.put(cell or "-", style, width=room, right=head in RIGHT)
    return line.cut(width)


def _bar(line: Line, palette: Palette, glyphs: Glyphs, table: Table, place: RankPlace) -> Line:
    """Half a cell at least for who is behind at all."""
    value = _measure(place, table.heads)
    halves = 0 if value is None else round(min(1.0, value / table.top) * BAR * 2)
    if value is not None and value >= (1 if "BEHIND" in table.heads else 0.0005):
        halves = max(1, halves)
    full, half = divmod(halves, 2)
    line.put(glyphs.level * full + glyphs.level_half * half, palette.watch if place.culprit else palette.data[2])
    return line.put(glyphs.absent * (BAR - full - half), palette.rule)
