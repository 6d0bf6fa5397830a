"""Which lines of one log are folded away: rows without them. Pure.

A closed fold is one row, that of its first line. There are a few of them at most: one traceback's.
"""

from __future__ import annotations

from collections.abc import Iterable

from distui.runs.lines.traceback import Fold


class Folds:
    """The folds of a log that are known, and which of them are open."""

    __slots__ = ("_closed", "_known")

    def __init__(self) -> None:
        self._known: dict[int, Fold] = {}
        self._closed: list[Fold] = []

    def clear(self) -> None:
        """The log was cut back: line numbers mean nothing any more."""
        self._known.clear()
        self._closed.clear()

    def add(self, folds: Iterable[Fold]) -> bool:
        """Close folds that were not known. Whether there were any."""
        new = [fold for fold in folds if not any(fold.start < f.stop and f.start < fold.stop for f in self._all)]
        self._known |= {fold.start: fold for fold in new}
        self._closed = sorted([*self._closed, *new], key=lambda f: f.start)
        return bool(new)

    @property
    def _all(self) -> Iterable[Fold]:
        return self._known.values()

    def mark(self, line: int) -> Fold | None:
        """The closed fold that stands in the place of this line."""
        return next((fold for fold in self._closed if fold.start == line), None)

    def toggle(self, line: int) -> Fold | None:
        """Open the closed fold of this line, or close the open one it lies in. The fold; None when there is none."""
        found = next((fold for fold in self._all if fold.start <= line < fold.stop), None)
        if found is None:
            return None
        if found in self._closed:
            self._closed.remove(found)
        else:
            self._closed = sorted([*self._closed, found], key=lambda f: f.start)
        return found

    def toggle_between(self, begin: int, end: int) -> bool:
        """Open all folds of these lines, or close them when none is closed. Whether there are any."""
        found = [fold for fold in self._all if begin <= fold.start < end]
        closed = [fold for fold in found if fold in self._closed]
        others = [fold for fold in self._closed if fold not in found]
        self._closed = others if closed else sorted([*others, *found], key=lambda f: f.start)
        return bool(found)

    def reveal(self, line: int) -> bool:
        """Open what hides this line. Whether something did."""
        hiding = [fold for fold in self._closed if fold.start < line < fold.stop]
        for fold in hiding:
            self._closed.remove(fold)
        return bool(hiding)

    def hidden(self, floor: int = 0) -> int:
        """How many lines from `floor` on are not rows."""
        return sum(fold.hidden for fold in self._closed if fold.start >= floor)

    def line(self, row: int, floor: int = 0) -> int:
        """The line of a row, when the first row is line `floor`."""
        line = floor + row
        for fold in self._closed:
            if floor <= fold.start < line:
                line += fold.hidden
        return line

    def row(self, line: int, floor: int = 0) -> int:
        """The row of a line; of one that is hidden, the row of its fold."""
        before = (fold for fold in self._closed if floor <= fold.start < line)
        return line - floor - sum(min(line - fold.start, fold.hidden) for fold in before)
