"""The ranks of a run at the left: state, load, age of the last line, and which pane shows it.

More than sixteen ranks fold to a row per host; hosts with trouble are open and rise to the top.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.style import Style
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.events import Click
from textual.message import Message

from distui.amounts import duration
from distui.runs.lines.events import HostSampled
from distui.runs.report.rank_rows import RankRow, Tone, digits
from distui.runs.state.load import readings
from distui.tui.frame.actions import Action, bindings
from distui.tui.frame.context import glyphs_of, palette_of
from distui.tui.paint.figures import level, percent, tank
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette
from distui.tui.widgets.painted import Painted
from distui.tui.widgets.rows import Row, RowList

FOLD_ABOVE = 16
"""More ranks than this fold by host."""
WIDTH = 25
LEVEL_CELLS = 5


def tone_style(palette: Palette, tone: Tone) -> Style:
    """The style of a word with this tone."""
    return {
        "": palette.text,
        "muted": palette.muted,
        "watch": palette.watch,
        "wrong": palette.wrong,
        "good": palette.good,
    }[tone]


class RankRows(RowList):
    """The rows; enter shows the rank of the cursor in the active pane, or unfolds a host."""

    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("choose", "show in pane", ("enter",), "Logs", footer=True, help="Show the rank in the active pane."),
    )
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIONS)

    def on_click(self, event: Click) -> None:
        """A click shows the rank at once: the list has nothing else to do with it."""
        event.prevent_default()
        number = event.y + self.scroll_offset.y
        if 0 <= number < len(self.rows) and not self.rows[number].plain:
            self.go(self.rows[number].key)
            self.action_choose()


class RankList(Vertical):
    """Title and rows. `set_ranks` with what is known now; it decides what is folded."""

    DEFAULT_CSS = f"""
    RankList {{ width: {WIDTH}; height: 1fr; }}
    RankList Painted {{ height: 1; }}
    """

    class Chosen(Message):
        """A rank should be shown."""

        def __init__(self, rank: int) -> None:
            super().__init__()
            self.rank = rank

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.ranks: Mapping[int, RankRow] = {}
        self.samples: Mapping[str, HostSampled] = {}
        self.panes: Mapping[int, str] = {}
        self.launchers: Mapping[str, int] = {}
        """Host -> the number of its launcher's log, where a launcher has one of its own."""
        self.toggled: set[str] = set()
        """Hosts that were folded or unfolded by hand."""
        self._width = 2
        self._head = Painted(self._title)
        self.list = RankRows(self._paint)

    def compose(self) -> ComposeResult:
        """See textual."""
        yield self._head
        yield self.list

    # What is shown.

    def set_ranks(self, ranks: Sequence[RankRow], samples: Mapping[str, HostSampled], panes: Mapping[int, str]) -> None:
        """Show these ranks; `panes` says in which pane a rank is."""
        self.ranks = {row.rank: row for row in ranks}
        self.samples, self.panes = samples, panes
        self._width = max(digits(self.ranks), *(len(row.name) for row in ranks), 0)
        wanted = self._rows()
        if wanted != list(self.list.rows):
            self.list.set_rows(wanted)
        else:
            self.list.repaint()
        self._head.repaint()

    @property
    def folding(self) -> bool:
        """Whether hosts fold."""
        return len(self.ranks) > FOLD_ABOVE

    def by_host(self) -> dict[str, list[RankRow]]:
        """Host -> its ranks; when hosts fold, those with trouble first."""
        found: dict[str, list[RankRow]] = {}
        for row in self.ranks.values():
            found.setdefault(row.host, []).append(row)
        if self.folding:
            found = dict(sorted(found.items(), key=lambda item: not any(r.trouble for r in item[1])))
        return found

    def _rows(self) -> list[Row]:
        rows: list[Row] = []
        for host, ranks in self.by_host().items():
            rows.append(Row(f"host {host}", plain=not self.folding))
            if not self.folding or any(r.trouble for r in ranks) != (host in self.toggled):
                rows += [Row(str(r.rank)) for r in ranks]
                rows += [Row(str(self.launchers[host]))] if host in self.launchers else []
        return rows

    @property
    def rank(self) -> int | None:
        """The rank (or launcher) under the cursor; of a folded host its first."""
        key = self.list.key
        if key.startswith("host "):
            return next((r.rank for r in self.ranks.values() if r.host == key[5:]), None)
        return int(key) if key else None

    def go(self, rank: int) -> None:
        """Put the cursor on a rank, unfolding its host when it must."""
        row = self.ranks.get(rank)
        host = row.host if row is not None else next((h for h, n in self.launchers.items() if n == rank), None)
        if host is None:
            return
        if self.folding and not any(r.key == str(rank) for r in self.list.rows):
            self.toggled ^= {host}
            self.list.set_rows(self._rows())
        self.list.go(str(rank))

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        """Enter or a double click."""
        event.stop()
        if event.key.startswith("host "):
            self.toggled ^= {event.key[5:]}
            self.list.set_rows(self._rows())
        elif event.key:
            self.post_message(self.Chosen(int(event.key)))

    # Painting.

    def _title(self, width: int, height: int) -> list[Line]:
        palette, glyphs = palette_of(self), glyphs_of(self)
        line, end = Line().gap(1).put("Ranks", palette.bold), Line()
        wrong = sum(r.tone == "wrong" for r in self.ranks.values())
        watch = sum(r.tone == "watch" for r in self.ranks.values())
        good = sum(r.sign == "running" for r in self.ranks.values())
        if wrong:
            end.put(wrong, palette.wrong).put(" failed", palette.muted)
        elif watch:
            end.put(watch, palette.watch).put(" to watch", palette.muted)
        elif good:
            end.put(f"{good} ok", palette.muted)
        else:
            end.put(len(self.ranks), palette.muted)
        line.rule(width - end.width - 1, palette.rule, glyphs.rule)
        return [line.ends_with(end, width, gap=1)]

    def _paint(self, number: int, width: int, here: bool) -> Line:
        key = self.list.rows[number].key
        if key.startswith("host "):
            return self._host(key[5:], number, width)
        if int(key) < 0:
            return self._launcher(int(key), width)
        row = self.ranks.get(int(key))
        return self._rank(row, width, here) if row is not None else Line()

    def _launcher(self, number: int, width: int) -> Line:
        """The log of a host's launcher."""
        palette = palette_of(self)
        line = Line().gap(3).put("launcher's log", palette.muted)
        return line.ends_with(Line().put(self.panes.get(number, ""), palette.key), width, gap=0)

    def _host(self, host: str, number: int, width: int) -> Line:
        palette = palette_of(self)
        ranks = [r for r in self.ranks.values() if r.host == host]
        if self.folding:
            return self._folded(host, ranks, width)
        line = Line().gap(1).put(host, palette.muted)
        ended = any(r.after is not None for r in ranks)
        if any(r.tone == "wrong" for r in ranks):
            return line.ends_with(Line().put("first", palette.wrong), width - 2)
        if ended:
            return line.ends_with(Line().put("ended after", palette.faint), width - 2) if number == 0 else line
        if number == 0 and any(r.age is not None for r in ranks):
            busy = any(r.util is not None for r in self.ranks.values())
            return line.ends_with(Line().put("UTIL  LAST" if busy else "LAST", palette.faint), width - 3)
        return line

    def _folded(self, host: str, ranks: Sequence[RankRow], width: int) -> Line:
        """A host as one row: its worst state, its name, a tank a rank."""
        palette, glyphs = palette_of(self), glyphs_of(self)
        worst = min(ranks, key=lambda r: {"wrong": 0, "watch": 1, "muted": 2}.get(r.tone, 3))
        line = Line().gap(1).put(glyphs.state(worst.sign), palette.state(worst.sign)).gap(1)
        end = Line()
        for gpu in readings(self.samples.get(host))[:8]:
            tank(end, palette, glyphs, gpu.utilization_pct, 1)
        if not end.width:
            end.put(f"{len(ranks)} ranks", palette.muted)
        line.put(host, palette.wrong if worst.tone == "wrong" else palette.text, width=max(4, width - end.width - 5))
        return line.ends_with(end, width - 1, gap=1)

    def _rank(self, row: RankRow, width: int, here: bool) -> Line:
        palette, glyphs = palette_of(self), glyphs_of(self)
        tone = tone_style(palette, row.tone)
        line = Line().gap(1).put(glyphs.state(row.sign), palette.state(row.sign)).gap(1)
        called = row.name.ljust(self._width) if row.name else f"{row.rank:0{self._width}d}"
        line.put(called, palette.bold if here and not row.tone else tone).gap(1 if row.name else 2)
        room = LEVEL_CELLS - (self._width - 2) + bool(row.name)
        if row.sign == "running" and row.util is not None:
            level(line, palette, glyphs, row.util / 100, max(1, room))
            line.put(percent(row.util), palette.text, width=5, right=True).gap(1)
        else:
            line.put(row.word, tone, width=room + 6 - (row.after is not None))
        if row.after is not None:
            line.put(f"{row.after:+.1f} s" if row.after else "0.0 s", tone, width=6, right=True)
        elif row.age is not None:
            line.put(
                duration(row.age, coarse=True),
                palette.watch if row.tone == "watch" else palette.faint,
                width=5,
                right=True,
            )
        return line.ends_with(Line().put(self.panes.get(row.rank, ""), palette.key), width, gap=0)
