"""How the run under the cursor goes: step and loss over time, its GPUs and links now, and what it said last."""

from __future__ import annotations

import statistics
from collections import OrderedDict
from collections.abc import Callable

from distui.amounts import counted, duration
from distui.files import tail_lines
from distui.frozen import frozen
from distui.monitor.board import Board
from distui.monitor.host_board import HostBoard
from distui.runs.lines.events import Progressed
from distui.runs.lines.text import text_of
from distui.runs.report.history import RunRow
from distui.runs.state.reducer import RunState
from distui.runs.store.masking import NOTHING, Mask
from distui.runs.store.recorded import stored_progress
from distui.runs.store.runs import StoredRun
from distui.tui.metrics.panels import panels_of
from distui.tui.metrics.progress import progress_line
from distui.tui.metrics.reading import Readings, RunReader
from distui.tui.paint import figures
from distui.tui.paint.glyphs import Glyphs
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette
from distui.tui.plot.plot import AXIS, Curve, Plot, axis_line, plot_lines
from distui.tui.plot.scale import length_words, time_ticks

LABEL = 8
"""Cells of the labels at the left, as above."""
PLOT_ROWS = 4
MOST_HOSTS = 4
OLD_S = 30.0
"""Figures of a run that lives and that nobody follows are said to be old from then on."""
KEPT = 32
"""Runs of which what was read is kept."""
TAIL = 4096
"""Bytes at the end of a log in which its last line is."""


@frozen
class Look:
    """What was read of a run's folder."""

    readings: Readings
    last_line: str = ""
    progress: Progressed | None = None
    """What it said of its progress last, as `show` has it; the readings are means, where they are coarse."""


class Looker:
    """Reads the folder of a run on, without asking any host. Blocks: for a thread, one call at a time.

    `mask` hides values of secrets: whoever wrote the folder may not have known them.
    """

    def __init__(self, stored: StoredRun, mask: Mask) -> None:
        self.stored = stored
        self._mask = mask
        self._reader = RunReader.of(stored)

    def look(self, cells: int) -> Look:
        """As fine as `cells` columns are."""
        span = self._reader.span()
        every = (span[1] - span[0]) / max(1, cells) if span is not None else 0.0
        lines = tail_lines(self.stored.rank_log(0), TAIL)
        last = text_of(self._mask.raw(lines[-1])) if lines else ""
        return Look(self._reader.read(finest=every), last, self._mask.event(stored_progress(self.stored)))


class Looks:
    """What was read of the runs that the cursor was on last. Only the files of one run are kept to be read on: those of
    a long one have many megabytes, and an app stays open for weeks.
    """

    def __init__(self, mask_of: Callable[[StoredRun], Mask] = lambda stored: NOTHING) -> None:
        """`mask_of` gives what hides values of a run's secrets."""
        self._mask_of = mask_of
        self._looker: Looker | None = None
        self._kept: OrderedDict[str, tuple[RunRow, Look]] = OrderedDict()

    def of(self, run: str) -> Look | None:
        """What was read of a run."""
        known = self._kept.get(run)
        return known[1] if known is not None else None

    def are_final(self, row: RunRow) -> bool:
        """Whether all of it was read, and nothing is news."""
        known = self._kept.get(row.run)
        return known is not None and known[0] == row and not row.live

    def read(self, row: RunRow, stored: StoredRun, cells: int) -> Look:
        """Read a run, on from where it was left where the last one was the same. Blocks: see Looker."""
        known = self._looker
        looker = known if known is not None and known.stored == stored and row.live else None
        looker = looker or Looker(stored, self._mask_of(stored))
        self._looker = looker if row.live else None
        return looker.look(cells)

    def keep(self, row: RunRow, look: Look) -> None:
        """Note what was read of a run as the list has it."""
        self._kept.pop(row.run, None)
        self._kept[row.run] = row, look
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)


def last_line(state: RunState | None, look: Look | None, heard: str = "") -> str:
    """What any rank said last, where the run is followed; else what its host says, or the end of rank 0's log here."""
    said = [r for r in state.ranks.values() if r.last_line and r.last_line_at is not None] if state is not None else []
    if said:
        newest = max(said, key=lambda rank: rank.last_line_at or 0.0)
        return f"rank {newest.rank}: {newest.last_line}"
    if heard:
        return heard
    return look.last_line if look is not None else ""


def live_lines(
    palette: Palette,
    glyphs: Glyphs,
    row: RunRow,
    state: RunState | None,
    look: Look | None,
    board: Board,
    width: int,
    now: float,
    heard: str = "",
) -> list[Line]:
    """Progress, the curve, GPUs by host, the last line; what is not known takes no row."""
    lines: list[Line] = []
    progress = state.progress if state is not None else None
    measured = _measured(look) if progress is None else None
    lives = row.live and not row.leftover
    age = now - measured.at if measured is not None and lives else 0.0
    over = not lives or age > OLD_S or row.state == "stopping"
    stands = row.stalled if row.stands else None
    shown = progress_line(palette, progress or measured, over=over, room=width - LABEL - 4, stands=stands, now=now)
    if shown.width:
        if lives and age > OLD_S:
            shown.put(f"   {duration(age, coarse=True)} ago", palette.watch)
        lines.append(_label("progress", palette).add(shown))
    lines += _curve(palette, glyphs, look, width)
    if lives:
        known = {host.name: host for host in board.hosts.values()}
        lines += [_host(palette, glyphs, row, known[name], now) for name in row.hosts[:MOST_HOSTS] if name in known]
        if len(row.hosts) > MOST_HOSTS:
            lines.append(_label("", palette).put(counted(len(row.hosts) - MOST_HOSTS, "more host"), palette.faint))
    if text := last_line(state, look, heard):
        lines.append(_label("last", palette).put(text, palette.muted))
    return lines


def _label(label: str, palette: Palette) -> Line:
    return Line().put(label, palette.faint, width=LABEL, right=True).gap(2)


def _measured(look: Look | None) -> Progressed | None:
    """The newest values of a run that nobody follows here."""
    if look is None or look.progress is not None or not look.readings.steps:
        return look.progress if look is not None else None
    points = {name: line[-1].mid for name, line in look.readings.points.items() if line}
    name = _figure(look.readings)
    figure = {name: points[name]} if name in points else {}
    at, step = look.readings.steps[-1]
    return Progressed(at, 0, "", {"step": step, **figure}, {}, points.get("step_time"))


def _figure(readings: Readings) -> str:
    """The series that tells how well it goes; empty where there is none."""
    return next((panel.name for panel in panels_of(readings.names) if not panel.has_zero), "")


def _curve(palette: Palette, glyphs: Glyphs, look: Look | None, width: int) -> list[Line]:
    name = _figure(look.readings) if look is not None else ""
    if look is None or not name or look.readings.span is None or width < 40:
        return []
    begin, end = look.readings.span
    room = min(width - LABEL - 3, 90)
    plot = Plot([Curve(look.readings.points.get(name, ()), palette.data[3])], begin, max(end, begin + 1))
    rows = plot_lines(palette, glyphs, plot, room, PLOT_ROWS)
    places = time_ticks(0, max(1.0, end - begin), max(2, (room - AXIS) // 14), clock=False)
    below = axis_line(palette, 0, max(1.0, end - begin), places, length_words(places), room)
    return [_label(name[:LABEL] if i == 0 else "", palette).add(line) for i, line in enumerate([*rows, below])]


def _host(palette: Palette, glyphs: Glyphs, row: RunRow, host: HostBoard, now: float) -> Line:
    """Its GPUs that the run has, the median of their load as in the view of the run, and what its data links carry; of
    one that does not answer when it did last: what it measured then is not so now.
    """
    line = _label(host.name, palette)
    if host.status in ("down", "lost"):
        line.put(host.status, palette.watch).gap(2)
        return line.put(f"seen {figures.ago(now - host.seen)}" if host.seen else "never seen", palette.faint)
    gpus = [gpu for gpu in host.gpus_in_order() if (use := host.owner(gpu).use) is not None and use.run == row.run]
    for gpu in gpus:
        figures.tank(line, palette, glyphs, gpu.utilization, 2).gap(1)
    loads = [gpu.utilization for gpu in gpus]
    if gpus:
        known = [load for load in loads if load is not None]
        line.gap(1).put(figures.percent(statistics.median(known) if known else None), palette.bold, width=4, right=True)
        memory = [gpu.memory_used for gpu in gpus if gpu.memory_used is not None]
        line.gap(2).put(figures.gib(sum(memory) if memory else None), palette.text).put(" GiB", palette.faint).gap(3)
    (rx, tx), unit = figures.rates(*(host.rates() or (None, None)))
    line.put("rx ", palette.faint).put(rx, palette.text).put("  tx ", palette.faint).put(tx, palette.text)
    return line.put(f" {unit}", palette.faint)
