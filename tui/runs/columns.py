"""The list of runs: its columns, and a run painted into them. Pure.

Names of runs share their beginning, that of the job: a long one takes the room that the first failure does not need.
"""

from __future__ import annotations

from collections.abc import Iterable

from distui.amounts import size_words
from distui.frozen import frozen
from distui.runs.report.history import RunRow
from distui.runs.report.run_words import failure_words, took_words
from distui.spec.hosts.names import fold_sorted
from distui.tui.paint.glyphs import Glyphs
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette
from distui.tui.run.words import sign_of, started_words, state_style, state_words

RUN_LEAST, JOB_LEAST = 16, 14
FAILURE = 24
"""Cells that the first failure keeps beside long names."""
FAILURE_LEAST = 12


@frozen
class RunColumns:
    """Cells of the columns that are not always the same; 0 is folded."""

    run: int
    job: int
    hosts: int
    started: int
    owner: int
    here: int

    @classmethod
    def of(cls, width: int, longest: tuple[int, int]) -> RunColumns:
        """In so many cells, with the longest names of a run and of a job."""
        wide, widest = width >= 100, width >= 150
        made = cls(
            RUN_LEAST,
            JOB_LEAST if wide else 0,
            12 if width < 120 else 16,
            12 if width >= 70 else 0,
            18 if widest else 0,
            8 if widest else 0,
        )
        spare = max(0, width - made._used - FAILURE)
        run = min(spare, max(0, longest[0] - made.run))
        job = min(spare - run, max(0, longest[1] - made.job)) if wide else 0
        return cls(made.run + run, made.job + job, made.hosts, made.started, made.owner, made.here)

    @property
    def _used(self) -> int:
        cells = (self.run, self.job, 12, self.hosts, 5, self.started, 8, self.owner, self.here)
        return 3 + sum(each + 2 for each in cells if each)


def longest_names(rows: Iterable[RunRow]) -> tuple[int, int]:
    """Cells of the longest name of a run and of a job."""
    names = [(len(row.run), len(row.job)) for row in rows]
    return max((run for run, _ in names), default=0), max((job for _, job in names), default=0)


def head(at: RunColumns, width: int, palette: Palette) -> Line:
    """The heads of the columns."""
    faint = palette.faint
    line = Line().gap(3).put("RUN", faint, width=at.run).gap(2)
    if at.job:
        line.put("JOB", faint, width=at.job).gap(2)
    line.put("STATE", faint, width=12).gap(2).put("HOSTS", faint, width=at.hosts).gap(2)
    line.put("RANKS", faint, width=5, right=True).gap(2)
    if at.started:
        line.put("STARTED", faint, width=at.started).gap(2)
    line.put("TOOK", faint, width=8, right=True).gap(2)
    if at.owner:
        line.put("OWNER", faint, width=at.owner).gap(2).put("HERE", faint, width=at.here, right=True).gap(2)
    return line.put("FIRST FAILURE", faint) if width - line.width > FAILURE_LEAST else line


def run_line(
    row: RunRow, at: RunColumns, width: int, palette: Palette, glyphs: Glyphs, *, marked: bool, here: bool
) -> Line:
    """One run."""
    line = Line().gap(1).put(glyphs.state(sign_of(row)), palette.state(sign_of(row)))
    line.put(glyphs.mark if marked else " ", palette.accent)
    line.name(row.run, palette.bold if here or row.live else palette.text, width=at.run).gap(2)
    if at.job:
        line.name(row.job, palette.muted, width=at.job).gap(2)
    line.put(state_words(row), state_style(row, palette), width=12).gap(2)
    line.host(fold_sorted(row.hosts) or "-", palette.muted, width=at.hosts).gap(2)
    line.put(row.ranks or "-", palette.text, width=5, right=True).gap(2)
    if at.started:
        line.put(started_words(row.started), palette.muted, width=at.started).gap(2)
    line.put(took_words(row) or "-", palette.text, width=8, right=True).gap(2)
    if at.owner:
        line.put(row.owner or "-", palette.muted, width=at.owner).gap(2)
        line.put(size_words(row.size) if row.recorded else "-", palette.faint, width=at.here, right=True).gap(2)
    words = failure_words(row.failure, brief=True) or "-"
    style = palette.text if row.failure else palette.faint
    return line.put(words, style) if width - line.width > FAILURE_LEAST else line
