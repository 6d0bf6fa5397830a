"""The matrix of checks and hosts as lines: titles, a cell for each host that has a column, and the finding. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len

from distui.amounts import counted
from distui.doctor.finding import CheckRow, Finding
from distui.doctor.reach import ReachReport
from distui.doctor.reach_check import REACH, pairs_words
from distui.frozen import frozen
from distui.tui.doctor.columns import LEAST, HostColumns
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette

CHECK = 44
FAIL = 6
"""Cells of a filled one."""
FINDING_LEAST = 24


@frozen
class Matrix:
    """What is painted of it: in so much `width`, around the column of the `chosen` host."""

    width: int
    columns: Sequence[str]
    """The hosts that have a column."""
    known: int
    """How many hosts have answered, also without one."""
    chosen: int
    check_width: int
    palette: Palette

    @property
    def tells(self) -> bool:
        """Whether there is room for the finding in the row; the panel shows it anyway."""
        return self.width >= 100

    @property
    def hosts(self) -> HostColumns:
        """The columns of hosts, as wide as there is room."""
        room = self.width - self.check_width - (0 if self.tells else 1)
        return HostColumns(self.columns, self.known, room, self.tells)

    def head(self) -> Line:
        """The names of the hosts over their columns."""
        palette, line = self.palette, Line().gap(self.check_width)
        hosts = self.hosts
        names, cell, seen = hosts.names(), hosts.cell, hosts.window(self.chosen)
        for host in seen:
            here = host == self.columns[self.chosen]
            line.put(_centred(names[host], cell), palette.accent if here else palette.muted).gap(1)
        others = self.known - len(seen)
        if others:
            line.put(_others(others), palette.faint).gap(1)
        return line.gap(2).put("FINDING", palette.faint) if self.tells else line

    def row(self, row: CheckRow, reach: ReachReport | None, *, here: bool) -> Line:
        """One check on all hosts."""
        palette = self.palette
        bad = row.verdict in ("warn", "fail")
        title = palette.bold if here else palette.text if bad else palette.muted
        line = Line().gap(3).put(row.check.title, title, width=self.check_width - 4).gap(1)
        by_host = {finding.host: finding for finding in row.findings}
        hosts = self.hosts
        cell, seen = hosts.cell, hosts.window(self.chosen)
        for host in seen:
            self._cell(line, by_host.get(host), cell)
        if self.known > len(seen):
            line.gap(len(_others(self.known - len(seen))) + 1)
        if not self.tells:
            return line
        return line.gap(2).put(_words(row, reach), palette.judged(row.verdict) if bad else palette.faint)

    def _cell(self, line: Line, finding: Finding | None, cell: int) -> None:
        palette = self.palette
        words = finding.verdict if finding is not None else "-"
        match words:
            case "fail":
                before = (cell - FAIL) // 2
                line.gap(before).put("FAIL".center(FAIL), palette.fail_cell).gap(cell - before - FAIL + 1)
            case "warn":
                line.put("warn".center(cell), palette.watch).gap(1)
            case "pull":
                line.put("pull".center(cell), palette.text).gap(1)
            case _:
                line.put(words.center(cell), palette.faint).gap(1)


def check_width(width: int, hosts: int, rows: Iterable[CheckRow]) -> int:
    """Cells of the titles of the checks, beside the columns of so many hosts."""
    if width < 110:
        return 34 if width >= 80 else 20
    longest = max((len(row.check.title) for row in rows), default=0) + 5
    return max(34, min(CHECK, longest, width - hosts * (LEAST + 1) - FINDING_LEAST))


def _words(row: CheckRow, reach: ReachReport | None) -> str:
    """What the row says beside its cells."""
    finding = row.worst
    if row.check.id == REACH.id and row.verdict not in ("warn", "fail") and reach is not None:
        return pairs_words(reach)
    if finding is None:
        return ""
    if row.verdict in ("warn", "fail"):
        return f"{finding.saw}"
    return finding.saw if len({f.saw for f in row.findings if f.saw}) == 1 else ""


def _centred(name: str, width: int) -> str:
    before = (width - cell_len(name)) // 2
    return " " * before + name + " " * (width - cell_len(name) - before)


def _others(count: int) -> str:
    return counted(count, "other")
