"""A field of dots, two wide and four high in each cell, as braille signs; one sign a cell with `--ascii`. Pure."""

from __future__ import annotations

from typing import NamedTuple

WIDE, HIGH = 2, 4
"""Dots in a cell."""
_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_BLANK = 0x2800


class Dot(NamedTuple):
    """What one cell shows, and of which curve it is."""

    sign: str
    layer: int


class Dots:
    """Dots are put from left to right and from the bottom up; of a cell only the highest layer is shown."""

    def __init__(self, width: int, height: int, *, ascii: bool = False) -> None:
        self.width = width
        self.height = height
        self._ascii = ascii
        self._cells: dict[tuple[int, int], tuple[int, int]] = {}
        """(column, row from the bottom) -> (layer, its dots)."""

    def put(self, x: int, y: int, layer: int) -> None:
        """A dot; what is outside is left out."""
        if not (0 <= x < self.width * WIDE and 0 <= y < self.height * HIGH):
            return
        cell = x // WIDE, y // HIGH
        top, bits = self._cells.get(cell, (layer, 0))
        if layer < top:
            return
        bit = _BITS[HIGH - 1 - y % HIGH][x % WIDE]
        self._cells[cell] = (layer, bits | bit if layer == top else bit)

    def upright(self, x: int, low: int, high: int, layer: int) -> None:
        """All dots of a column from one height to another."""
        for y in range(max(0, min(low, high)), min(self.height * HIGH - 1, max(low, high)) + 1):
            self.put(x, y, layer)

    def cell(self, column: int, row: int) -> Dot | None:
        """What a cell shows, its row counted from the bottom; None where it is empty."""
        found = self._cells.get((column, row))
        if found is None:
            return None
        layer, bits = found
        return Dot(_plain(bits) if self._ascii else chr(_BLANK + bits), layer)


def _plain(bits: int) -> str:
    """The sign that lies where the dots are: high, in the middle, low, or all along."""
    rows = [any(bits & bit for bit in row) for row in _BITS]
    if sum(rows) >= 3:
        return "|"
    return "'" if rows[0] else "-" if rows[1] else "." if rows[2] else "_"
