"""Rows of the rank list: state, load, age of the last line, step and lag of a rank; a folded host. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rich.style import Style

from distui.amounts import counted, duration
from distui.frozen import frozen
from distui.runs.lines.events import GpuReading
from distui.runs.report.rank_rows import RankRow, Tone
from distui.tui.paint.figures import level, percent, tank
from distui.tui.paint.glyphs import Glyphs
from distui.tui.paint.paint import Line, cut_host
from distui.tui.paint.theme import Palette

LEVEL_CELLS = 5
WIDE = 36
"""From here on there is room for step and lag beside the rest."""
NARROW = 22
"""Cells of a row with step and lag alone, but for the name."""
PANE = 2
"""Cells that the number of a pane takes, with the one before it."""
MOST_TANKS = 8
FOLDED_NAME = 12
"""Cells of a folded host's name that its tanks leave it."""


@frozen
class Columns:
    """What a row of a rank has after its number."""

    steps: bool
    """Step and lag, which end beside the number of the pane."""
    others: bool
    """A level beside the load, and the age of the last line."""
    load: bool
    """Whether any rank has a GPU."""

    @property
    def full(self) -> bool:
        """Whether all of them stand there, closer together."""
        return self.steps and self.others

    @property
    def step(self) -> tuple[int, int]:
        """Cells of step and lag."""
        return (7, 6) if self.others else (6, 5)

    @classmethod
    def of(cls, rows: Sequence[RankRow], width: int) -> Columns:
        """For these ranks in so many cells: a step has no room beside a long name (0: not known yet)."""
        steps = any(row.step is not None for row in rows) and not any(row.after is not None for row in rows)
        names = max((len(row.name) for row in rows), default=0)
        steps = steps and (not width or width >= WIDE or width >= NARROW + names)
        return cls(steps, not steps or width >= WIDE, any(row.util is not None for row in rows))

    def heads(self, palette: Palette) -> Line:
        """What stands over them, from the right edge of the row."""
        line = Line()
        if not self.steps:
            return line.put("UTIL  LAST" if self.load else "LAST", palette.faint)
        line.put("UTIL" if self.load else "", palette.faint)
        line.put("LAST" if self.others else "", palette.faint, width=5 if self.others else 0, right=True)
        step, lag = self.step
        step += not self.others
        return line.put("STEP", palette.faint, width=step, right=True).put("LAG", palette.faint, width=lag, right=True)


def tone_style(palette: Palette, tone: Tone) -> Style:
    """The style of a word with this tone."""
    return {
        "": palette.text,
        "muted": palette.muted,
        "watch": palette.watch,
        "wrong": palette.wrong,
        "good": palette.good,
    }[tone]


def step_words(step: float, room: int) -> str:
    """A step in so many cells (four at least): `18240`, `1.82M`, `18k`."""
    words = f"{step:.0f}"
    if len(words) <= room:
        return words
    factor, unit = next(((f, u) for f, u in ((1e3, "k"), (1e6, "M"), (1e9, "G")) if step < 999.5 * f), (1e12, "T"))
    value = step / factor
    words = f"{value:.3g}{unit}"
    return words if len(words) <= room else f"{value:.{int(value < 9.95)}f}{unit}"


def after_words(after: float) -> str:
    """How long after the first failure, in six cells: `+2.9 s`, `+39 s`, `+2h`."""
    if not after:
        return "0.0 s"
    if abs(after) < 9.95:
        return f"{after:+.1f} s"
    if abs(after) < 999.5:
        return f"{after:+.0f} s"
    return ("+" if after > 0 else "-") + duration(abs(after), coarse=True)


def rank_line(
    palette: Palette, glyphs: Glyphs, row: RankRow, columns: Columns, width: int, *, number: int, here: bool, pane: str
) -> Line:
    """One rank; `number` is the width of what ranks are called, `pane` the number of the pane that shows it."""
    tone = tone_style(palette, row.tone)
    line = Line().gap(1).put(glyphs.state(row.sign), palette.state(row.sign)).gap(1)
    style = palette.bold if here and not row.tone else tone
    if row.name:  # figures come first
        number = max(1, min(number, width - _figures(columns) - 1 - line.width))
        line.name(row.name, style, width=number).gap(1)
    else:
        line.put(f"{row.rank:0{number}d}", style).gap(2 if columns.others else 1)
    room = max(0, width - _figures(columns) + columns.others - line.width)
    if not columns.steps:
        room = min(room, LEVEL_CELLS - (number - 2) + bool(row.name))
    busy = row.sign in ("running", "waiting") and row.util is not None
    if busy and columns.others:
        level(line, palette, glyphs, (row.util or 0.0) / 100, max(1, room))
        line.put(percent(row.util), palette.text, width=5, right=True).gap(1 - columns.full)
    elif busy:
        line.put(percent(row.util), palette.text, width=5, right=True).gap(room)
    else:
        line.put(row.word, tone, width=room + 6 - columns.steps - (row.after is not None))
    if row.after is not None:
        line.put(after_words(row.after), tone, width=6, right=True)
    elif columns.others and row.age is None:
        line.gap(5)
    elif columns.others:
        aged = palette.watch if row.tone == "watch" else palette.faint
        line.put(duration(row.age or 0.0, coarse=True), aged, width=5, right=True)
    if columns.steps:
        _steps(line, palette, row, *columns.step)
    return line.ends_with(Line().put(pane, palette.key), width, gap=0)


def _figures(columns: Columns) -> int:
    """Cells of what stands after a rank's number, at least."""
    if not columns.steps:
        return 1 + 6 + 5 + PANE
    return (1 + 5 + 5 if columns.others else 5) + sum(columns.step) + PANE


def _steps(line: Line, palette: Palette, row: RankRow, step: int, lag: int) -> None:
    if row.step is None or row.lag is None:
        line.put("-", palette.faint, width=step, right=True).put("-", palette.faint, width=lag, right=True)
        return
    late = palette.watch if row.tone == "watch" and row.lag else palette.text if row.lag else palette.faint
    line.put(step_words(row.step, step - 1), palette.text, width=step, right=True)
    line.put(step_words(row.lag, lag - 1), late, width=lag, right=True)


def host_line(palette: Palette, ranks: Sequence[RankRow], host: str, width: int, heads: Line | None) -> Line:
    """The name of a host over its ranks; `heads` are those of the columns, over the first host."""
    end, until = _beside_host(palette, ranks, heads), width - 2
    if heads is not None and end is heads:
        until = width - 3
    line = Line().gap(1).put(cut_host(host, max(8, until - end.width - 3 if end.width else width - 1)), palette.muted)
    return line.ends_with(end, until) if end.width else line


def _beside_host(palette: Palette, ranks: Sequence[RankRow], heads: Line | None) -> Line:
    """What stands at the right of a host's name."""
    if any(r.tone == "wrong" for r in ranks):
        return Line().put("first", palette.wrong)
    if heads is not None and any(r.after is not None for r in ranks):
        return Line().put("ended after", palette.faint)
    return heads if heads is not None and any(r.age is not None for r in ranks) else Line()


def folded_line(
    palette: Palette,
    glyphs: Glyphs,
    ranks: Sequence[RankRow],
    gpus: Sequence[GpuReading],
    host: str,
    columns: Columns,
    width: int,
) -> Line:
    """A host as one row: its worst state, its name, a tank for each GPU that these ranks have, step and lag of the
    slowest one.
    """
    worst = min(ranks, key=lambda r: {"wrong": 0, "watch": 1, "muted": 2}.get(r.tone, 3))
    line = Line().gap(1).put(glyphs.state(worst.sign), palette.state(worst.sign)).gap(1)
    room = width - sum(columns.step) - PANE if columns.steps else width - 1
    end = _of_gpus(palette, glyphs, ranks, gpus)
    if columns.steps and room - end.width < FOLDED_NAME + line.width:
        end = Line()
    style, apart = palette.wrong if worst.tone == "wrong" else palette.text, int(end.width > 0)
    line.host(host, style, width=max(4, room - line.width - end.width - apart)).ends_with(end, room, gap=apart)
    if columns.steps:
        slowest = min(ranks, key=lambda r: math.inf if r.step is None else r.step)
        _steps(line.gap(max(0, room - line.width)), palette, slowest, *columns.step)
    return line


def _of_gpus(palette: Palette, glyphs: Glyphs, ranks: Sequence[RankRow], gpus: Sequence[GpuReading]) -> Line:
    """A tank for each GPU that these ranks have; how many ranks there are, where there is none."""
    ours, line = {gpu for row in ranks for gpu in row.gpus}, Line()
    for gpu in [gpu for gpu in gpus if gpu.index in ours][:MOST_TANKS]:
        tank(line, palette, glyphs, gpu.utilization_pct, 1)
    return line if line.width else line.put(counted(len(ranks), "rank"), palette.muted)


def title_line(palette: Palette, glyphs: Glyphs, rows: Mapping[int, RankRow], width: int, order: str) -> Line:
    """The head of the list: its order where it is another one, and how many ranks are in which state."""
    line, end = Line().gap(1).put("Ranks", palette.bold), Line()
    if order != "host":
        line.put(f" by {order}", palette.muted)
    tones, signs = [r.tone for r in rows.values()], [r.sign for r in rows.values()]
    if wrong := tones.count("wrong"):
        end.put(wrong, palette.wrong).put(" failed", palette.muted)
    elif watch := tones.count("watch"):
        end.put(watch, palette.watch).put(" to watch", palette.muted)
    elif waiting := signs.count("waiting"):
        end.put(f"{waiting} {'waits' if waiting == 1 else 'wait'}", palette.watch)
    elif good := signs.count("running"):
        end.put(f"{good} ok", palette.muted)
    else:
        end.put(len(rows), palette.muted)
    line.rule(width - end.width - 1, palette.rule, glyphs.rule)
    return line.ends_with(end, width, gap=1)
