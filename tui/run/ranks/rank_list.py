"""The ranks of a run at the left: state, load, age of the last line, step and lag, and which pane shows it.

More than sixteen ranks fold to a row per host; hosts with trouble are open and rise to the top. Rows are painted by
`rank_lines.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.events import Click
from textual.message import Message

from distui.runs.lines.events import HostSampled
from distui.runs.report.rank_rows import RankRow, digits, suspects
from distui.runs.state.load import readings
from distui.tui.frame.actions import Action, bindings
from distui.tui.frame.context import glyphs_of, palette_of
from distui.tui.paint.paint import Line
from distui.tui.run.ranks import rank_lines
from distui.tui.run.ranks.rank_lines import Columns
from distui.tui.widgets.painted import Painted
from distui.tui.widgets.rows import Row, RowList

FOLD_ABOVE = 16
"""More ranks than this fold by host."""
Order = Literal["host", "lag"]
HEADS = "heads"
"""The key of the row with the heads of the columns, where steps are known."""


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

    DEFAULT_CSS = """
    RankList { width: 1fr; height: 1fr; padding-right: 1; }
    RankList Painted { height: 1; }
    """

    class Chosen(Message):
        """A rank should be shown."""

        def __init__(self, rank: int) -> None:
            super().__init__()
            self.rank = rank

    class Under(Message):
        """A rank is under the cursor now."""

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
        self.order: Order = "host"
        """By host and number, or who is furthest behind first."""
        self.opened: set[str] = set()
        """Hosts that were unfolded by hand."""
        self.folded: set[str] = set()
        """Hosts with trouble that were folded by hand; they open again when another rank there has some."""
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
        before = {rank for rank, row in self.ranks.items() if row.trouble}
        self.folded -= {row.host for row in ranks if row.trouble and row.rank not in before}
        self.ranks = {row.rank: row for row in ranks}
        self.samples, self.panes = samples, panes
        self._width = max(digits(self.ranks), *(len(row.name) for row in ranks), 0)
        wanted = self._rows()
        if wanted != list(self.list.rows):
            self.list.set_rows(wanted)
        else:
            self.list.refresh_changed()
        self._head.refresh_changed()

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
        rows = [Row(HEADS, plain=True)] if self._columns(0).steps else []
        if self.order == "lag":
            first = suspects(self.ranks.values())
            rest = sorted(self.ranks.values(), key=lambda row: (-(row.lag or 0), row.rank))
            return rows + [Row(str(rank)) for rank in dict.fromkeys([*first, *(row.rank for row in rest)])]
        for host, ranks in self.by_host().items():
            rows.append(Row(f"host {host}", plain=not self.folding))
            if not self.folding or self._is_open(host, ranks):
                rows += [Row(str(r.rank)) for r in ranks]
                rows += [Row(str(self.launchers[host]))] if host in self.launchers else []
        return rows

    def _is_open(self, host: str, ranks: Sequence[RankRow]) -> bool:
        """Whether the ranks of a host are listed where hosts fold."""
        return host in self.opened or (host not in self.folded and any(r.trouble for r in ranks))

    def _toggle(self, host: str) -> None:
        """Fold a host by hand that is open, open one that is folded."""
        if self._is_open(host, [r for r in self.ranks.values() if r.host == host]):
            self.opened.discard(host)
            self.folded.add(host)
        else:
            self._open(host)
        self.list.set_rows(self._rows())

    def _open(self, host: str) -> None:
        self.opened.add(host)
        self.folded.discard(host)

    @property
    def rank(self) -> int | None:
        """The rank (or launcher) under the cursor; of a folded host its first."""
        key = self.list.key
        if key.startswith("host "):
            return next((r.rank for r in self.ranks.values() if r.host == key[5:]), None)
        return int(key) if key else None

    def set_order(self, order: Order) -> None:
        """Show the ranks in another order, from its first on."""
        self.order = order
        self.list.set_rows(self._rows())
        self.list.action_first()
        self._head.repaint()

    def go(self, rank: int) -> None:
        """Put the cursor on a rank, unfolding its host when it must."""
        row = self.ranks.get(rank)
        host = row.host if row is not None else next((h for h, n in self.launchers.items() if n == rank), None)
        if host is None:
            return
        if self.folding and not any(r.key == str(rank) for r in self.list.rows):
            self._open(host)
            self.list.set_rows(self._rows())
        self.list.go(str(rank))

    def on_row_list_moved(self, event: RowList.Moved) -> None:
        """The cursor is on another row: of moves that a person made, the rank is reported."""
        event.stop()
        if self.list.has_focus and (rank := self.rank) is not None:
            self.post_message(self.Under(rank))

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        """Enter or a double click."""
        event.stop()
        if event.key.startswith("host "):
            self._toggle(event.key[5:])
        elif event.key:
            self.post_message(self.Chosen(int(event.key)))

    # Painting.

    def _title(self, width: int, height: int) -> list[Line]:
        return [rank_lines.title_line(palette_of(self), glyphs_of(self), self.ranks, width, self.order)]

    def _columns(self, width: int) -> Columns:
        return Columns.of(tuple(self.ranks.values()), width)

    def _paint(self, number: int, width: int, here: bool) -> Line:
        key, palette, glyphs = self.list.rows[number].key, palette_of(self), glyphs_of(self)
        columns = self._columns(width)
        if key == HEADS:
            return Line().ends_with(columns.heads(palette), width - rank_lines.PANE, gap=0)
        if key.startswith("host "):
            ranks = [r for r in self.ranks.values() if r.host == key[5:]]
            if self.folding:
                gpus = readings(self.samples.get(key[5:]))
                return rank_lines.folded_line(palette, glyphs, ranks, gpus, key[5:], columns, width)
            return rank_lines.host_line(palette, ranks, key[5:], width, None if number else columns.heads(palette))
        if int(key) < 0:
            return self._launcher(int(key), width)
        row = self.ranks.get(int(key))
        if row is None:
            return Line()
        pane = self.panes.get(row.rank, "")
        return rank_lines.rank_line(palette, glyphs, row, columns, width, number=self._width, here=here, pane=pane)

    def _launcher(self, number: int, width: int) -> Line:
        """The log of a host's launcher."""
        palette = palette_of(self)
        line = Line().gap(3).put("launcher's log", palette.muted)
        return line.ends_with(Line().put(self.panes.get(number, ""), palette.key), width, gap=0)
