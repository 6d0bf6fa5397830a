"""All ranks in one log: rows in time, folded, with a strip that shows who said each one."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from distui.amounts import counted
from distui.runs.lines.text import safe
from distui.tui.frame.context import glyphs_of, palette_of
from distui.tui.logs.log_pane import clock_words
from distui.tui.logs.merged.groups import Group
from distui.tui.logs.merged.log import MergedLog, matching
from distui.tui.logs.merged.who_columns import WhoColumns, ranks_by_host
from distui.tui.logs.pane import Pane
from distui.tui.logs.search import Pattern
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette

REMARKS_FROM = 70
"""From this width on a row says at its right edge how far its numbers differ."""
WIDE = 72
"""From this width on all columns are shown; below it time, line and count."""
UNFOLDED = 3
"""Members shown of an unfolded row before the rest is counted."""
CACHED = 800
SEARCHED = 1000
"""Rows that are searched at once."""

Item = tuple[Group, int]
"""A row: a group (-1), one of its members (0..), or what is left of them (-2)."""


class Hit(NamedTuple):
    """Whether a filter wants a group, as it was with so many steps. Held, the group is known by its identity: another
    one may take the place of one that is gone.
    """

    group: Group
    parts: int
    wanted: bool


class MergedPane(Pane):
    """Rows of a `MergedLog`. `z` unfolds one, `D` folds or unfolds all."""

    def __init__(self, number: int, *, id: str | None = None) -> None:
        super().__init__(number, id=id)
        self.merged = MergedLog({})
        self.reader: Callable[[float], bool] = lambda budget: False
        """Reads the log on for at most so many seconds; whether more is to do."""
        self.latest: Callable[[], MergedLog] = lambda: self.merged
        """The log as it is now: after many late lines another one, of the same lines in order."""
        self.live = True
        self.behind = False
        self.pattern: Pattern | None = None
        self.filter: Pattern | None = None
        self.inverse = False
        self.floor = 0.0
        """Rows said before this moment are not shown."""
        self.full = False
        """Whether it has the screen to itself and shows every column."""
        self.times = True
        self.open: dict[int, tuple[Group, int]] = {}
        """Unfolded groups, by identity, and how many members of each are shown."""
        self.hosts: dict[str, tuple[int, ...]] = {}
        self._items: list[Item] = []
        self._state: tuple[object, ...] = ()
        self._indexed = 0
        """How many groups of the log the items are of."""
        self._strips: OrderedDict[tuple[object, ...], Strip] = OrderedDict()
        self._hits: dict[int, Hit] = {}
        self._trimmed = 0
        """How many rows of the log had gone at its front when it was looked at last."""

    def show(self, log: MergedLog) -> None:
        """Show another log, or the same one folded otherwise."""
        self.merged, self._trimmed = log, log.trimmed
        self.hosts = ranks_by_host(log.buffers.values())
        self.open.clear()
        self._hits.clear()
        self._strips.clear()
        self._state = ()
        self.dirty = True
        if not self.follow:
            self.set_follow(True)
        self.repaint()

    # Rows.

    @property
    def plain(self) -> bool:
        """Whether rows are groups one to one."""
        return not self.open and self.filter is None and not self.floor

    @property
    def rows(self) -> int:
        """See Pane."""
        return len(self.merged.groups) if self.plain else len(self._index())

    def _index(self) -> list[Item]:
        """What the rows show. Where rows came at the end only those are looked at: there may be many before them."""
        groups = self.merged.groups
        unfolded = tuple((key, shown) for key, (_, shown) in self.open.items())
        changes = self.merged.version if unfolded or self.floor else None  # a member more may be shown, or be earlier
        state = (self.merged.order, changes, unfolded, self.filter, self.inverse, self.floor)
        if state != self._state or len(groups) < self._indexed:
            self._state, self._indexed = state, 0
            self._items = []
        if self._indexed < len(groups):
            new = groups[self._indexed :]
            self._indexed = len(groups)
            self._match(new)
            self._items += [item for group in new if self._wanted(group) for item in self._unfold(group)]
        return self._items

    def _wanted(self, group: Group) -> bool:
        if group.at < self.floor:
            return False
        if self.filter is None:
            return True
        return self._hits[id(group)].wanted

    def _match(self, groups: Sequence[Group]) -> None:
        """Try the filter on those it was not tried on yet, and on ranges that have more steps by now."""
        if self.filter is None:
            return
        hits = self._hits
        new = [g for g in groups if (hit := hits.get(id(g))) is None or hit.parts != len(g.parts)]
        wanted = set(matching(new, self.filter, inverse=self.inverse))
        hits |= {id(group): Hit(group, len(group.parts), index in wanted) for index, group in enumerate(new)}
        if len(hits) > 2 * len(self.merged.groups):
            self._hits = {key: hits[key] for group in self.merged.groups if (key := id(group)) in hits}

    def _unfolded(self, group: Group) -> int:
        """How many members of a group are shown; 0 of one that is folded."""
        return self.open.get(id(group), (group, 0))[1]

    def _unfold(self, group: Group) -> Iterator[Item]:
        yield group, -1
        limit = self._unfolded(group)
        if limit and group.members > 1:
            yield from ((group, i) for i in range(min(limit, group.members)))
            if group.members > limit:
                yield group, -2

    def item(self, row: int) -> Item:
        """What a row shows."""
        return (self.merged.groups[row], -1) if self.plain else self._index()[row]

    @property
    def group(self) -> Group | None:
        """The group under the cursor, else the last one that several ranks said."""
        if self.cursor is not None and self.cursor < self.rows:
            return self.item(self.cursor)[0]
        recent = reversed(self.merged.groups[-200:])
        return next((g for g in recent if g.members > 1), self.merged.groups[-1] if self.merged.groups else None)

    def set_filter(self, pattern: Pattern | None, *, inverse: bool = False) -> None:
        """Show only rows that match."""
        self.filter, self.inverse = pattern, inverse
        self._hits.clear()
        self.dirty = True
        self.set_follow(True)

    def toggle(self) -> None:
        """Unfold the row of the cursor, show all of it, fold it again."""
        if not self.rows:
            return
        group, _ = self.item(self.at)
        if group.parts:
            self.merged.open(group)
            self.go(next((i for i in range(self.rows) if self.item(i)[0] is group.parts[0]), 0))
            self.repaint()
            return
        if group.members < 2:
            return
        limit = self._unfolded(group)
        if limit == 0:
            self.open[id(group)] = group, UNFOLDED
        elif limit < group.members:
            self.open[id(group)] = group, group.members
        else:
            del self.open[id(group)]
        row = next((i for i in range(self.rows) if self.item(i) == (group, -1)), 0)
        self.go(row)
        parts = min(group.members, self._unfolded(group) + 1)
        self.top = max(self.top, min(row, row + parts - self.height + 1))
        self.repaint()

    @property
    def content(self) -> object:
        """See Pane; rows that were joined look different, too, and the title says whether there is more to read."""
        return self.rows, self.merged.version, self.behind

    def grow(self, budget: float) -> bool:
        """See Pane."""
        self.merged.held = not self.follow
        self.behind = self.reader(budget)
        if (latest := self.latest()) is not self.merged:
            self.show(latest)
        elif self.merged.trimmed != self._trimmed:
            self._rows_went()
        return self.behind

    def _rows_went(self) -> None:
        """Old rows went at the front: who reads the others stays at them."""
        here = {id(group) for group in self.merged.groups}
        if self.plain:
            gone = self.merged.trimmed - self._trimmed
        else:
            gone = sum(id(group) not in here for group, _ in self._items)
            self.open = {key: one for key, one in self.open.items() if key in here}
            self._index()
        self._trimmed = self.merged.trimmed
        self.top, self.seen = max(0, self.top - gone), max(0, self.seen - gone)
        if self.cursor is not None:
            self.cursor = max(0, self.cursor - gone)

    # Search.

    def find(self, pattern: Pattern | None, step: int) -> bool:
        """Go to the next row that matches, or to the next trouble without a pattern; round the end."""
        count = self.rows
        rows = [(self.at + step * i) % count for i in range(1, count + 1)]
        rows = [row for row in rows if self.item(row)[1] == -1]
        for begin in range(0, len(rows), SEARCHED):
            part = rows[begin : begin + SEARCHED]
            groups = [self.item(row)[0] for row in part]
            hits = matching(groups, pattern) if pattern is not None else [i for i, g in enumerate(groups) if g.level]
            if hits:
                self.go(part[hits[0]], centre=True)
                return True
        return False

    def row_text(self, row: int) -> str:
        """The row's line, without time and names."""
        group, part = self.item(row)
        return self._member_text(group, part) if part >= 0 else group.text

    def _member_text(self, group: Group, part: int) -> str:
        rank, line, _ = list(group.each())[part]
        return safe("".join(self.merged.buffers[rank].text(line, 1)))

    # Drawing.

    def prepare(self) -> None:
        """See Pane."""
        while len(self._strips) > CACHED:
            self._strips.popitem(last=False)

    def row_strip(self, row: int) -> Strip:
        """See Pane."""
        group, part = self.item(row)
        palette = palette_of(self)
        unfolded, shape = self._unfolded(group), (self.size.width, self.full, self.times)
        said = group.at, group.members, group.spread_at
        key = (id(group), *said, part, unfolded, shape, id(palette), self.pattern)
        strip = self._strips.get(key)
        if strip is None:
            strip = self._strips[key] = self._make(group, part, palette)
        return strip

    @property
    def wide(self) -> bool:
        """Whether there is room for every column."""
        return self.full and self.size.width >= WIDE

    def _make(self, group: Group, part: int, palette: Palette) -> Strip:
        line = self._wide(group, part, palette) if self.wide else self._narrow(group, part, palette)
        return Strip([Segment(text, style) for text, style in line.pieces])

    def _narrow(self, group: Group, part: int, palette: Palette) -> Line:
        line = Line()
        if self.times:
            line.put(clock_words(group.at if part < 0 else None), palette.faint).gap(2)
        end = Line()
        remark = self.merged.remark(group) if part == -1 and self.size.width >= REMARKS_FROM else ""
        if remark:
            end.put(remark, palette.watch if group.shift else palette.faint).gap(3)
        if part < 0 and len(self.hosts):
            end.put(f"{glyphs_of(self).times}{len(group.said_by())}", palette.muted)
        width = self.size.width - 1
        text = Line()
        self._words(text, group, part, palette)
        room = max(0, width - line.width - end.width - 1)
        return line.add(text.cut(room)).ends_with(end, width, gap=1)

    def _words(self, line: Line, group: Group, part: int, palette: Palette) -> Line:
        style = {"error": palette.wrong, "warn": palette.watch + Style(bold=False)}.get(group.level, palette.text)
        if part == -1:
            one = group.members == 1 and not group.level
            return self._marked(line, group.shown, palette.muted if one and not self.wide else style, palette)
        if part == -2:
            more = group.members - self._unfolded(group)
            return line.gap(2).put(counted(more, "more line"), palette.muted)
        return self._marked(line.gap(2), self._member_text(group, part), palette.muted, palette)

    def _marked(self, line: Line, text: str, style: Style, palette: Palette) -> Line:
        """Text with what was searched for standing out."""
        if self.pattern is None:
            return line.put(text, style)
        raw, seen = text.encode(), 0
        for match in self.pattern.finditer(raw):
            line.put(raw[seen : match.start()].decode("utf-8", "replace"), style)
            line.put(raw[match.start() : match.end()].decode("utf-8", "replace"), palette.accent + Style(reverse=True))
            seen = match.end()
        return line.put(raw[seen:].decode("utf-8", "replace"), style)

    def _wide(self, group: Group, part: int, palette: Palette) -> Line:
        glyphs = glyphs_of(self)
        members = list(group.each()) if part >= 0 else []
        line = (
            Line().put(self._time(group, members[part][2] if members else None, part), palette.faint, width=12).gap(1)
        )
        if part == -1 and group.members > 1:
            line.put(glyphs.open if id(group) in self.open else glyphs.folded, palette.accent).gap(1)
        else:
            line.put(glyphs.tree if part != -1 else " ", palette.rule).gap(1)
        ranks = frozenset([members[part][0]]) if members else self._said_by(group, part)
        columns = self._columns
        columns.presence(line, ranks, group.level)
        count = group.members if part == -1 else group.members - self._unfolded(group) if part == -2 else 1
        line.gap(1).put(
            count if count > 1 else "", palette.text if part == -1 else palette.muted, width=5, right=True
        ).gap(2)
        columns.who(line, ranks if part != -2 else None)
        return self._tail(line, group, part, palette)

    def _time(self, group: Group, at: float | None, part: int) -> str:
        if not self.times or part == -2:
            return ""
        moment = group.at if at is None else at
        fraction = f".{int(moment * 1000) % 1000:03d}"
        if not self.merged.timed:
            return ""
        if at is not None:
            return (time.strftime("%S", time.localtime(moment)) + fraction).rjust(12)
        return clock_words(moment) + fraction

    def _said_by(self, group: Group, part: int) -> frozenset[int]:
        if part == -1:
            return group.said_by()
        return frozenset(rank for rank, _, _ in list(group.each())[self._unfolded(group) :])

    @property
    def _columns(self) -> WhoColumns:
        """The columns that show who said a row, as they are painted now."""
        log = self.merged
        return WhoColumns(self.hosts, log.buffers, log.names, self.size.width, glyphs_of(self), palette_of(self))

    def _tail(self, line: Line, group: Group, part: int, palette: Palette) -> Line:
        width = self.size.width - 1
        remark = self.merged.remark(group) if part == -1 else ""
        end = Line().put(remark, palette.watch if group.shift else palette.faint).gap(1)
        self._words(line.gap(1), group, part, palette)
        return line.ends_with(end, width, gap=1) if remark else line

    # The title.

    def title(self, width: int) -> Line:
        """Column heads where all columns are shown, else like every pane's."""
        palette = palette_of(self)
        return self._heads(palette) if self.wide else self._title(width, palette)

    def _heads(self, palette: Palette) -> Line:
        columns = self._columns
        line = Line().gap(1).put("TIME" if self.merged.timed else "NO CLOCK", palette.faint, width=12).gap(3)
        each = columns.presence_width == sum(map(len, self.hosts.values())) + len(self.hosts) - 1
        if each and all(len(host) <= len(ranks) for host, ranks in self.hosts.items()):
            for i, (host, ranks) in enumerate(self.hosts.items()):
                line.gap(1 if i else 0).put(host, palette.faint, width=len(ranks))
        else:
            line.put("RANKS" if each or self.size.width < 100 else "HOSTS", palette.faint, width=columns.presence_width)
        return (
            line.gap(1)
            .put("LINES", palette.faint)
            .gap(2)
            .put("FROM", palette.faint, width=columns.who_width + 1)
            .put("LINE", palette.faint)
        )

    def _title(self, width: int, palette: Palette) -> Line:
        glyphs = glyphs_of(self)
        line = (
            Line()
            .gap(1)
            .put("all ranks", palette.key if self.active else palette.bold)
            .gap(2)
            .put("merged", palette.muted)
        )
        end = Line().put(self.number or "", palette.key).gap(1)
        if self.behind:
            end.put("reading on", palette.muted)
        elif not self.follow:
            end.put("paused" + (f", {self.new_rows:,} new" if self.new_rows else ""), palette.muted)
        elif self.live:
            end.put("follow", palette.accent if self.active else palette.muted)
        else:
            end.put("end of logs", palette.muted)
        end.gap(2).put("folded" if self.merged.fold else "each line", palette.muted)
        line.rule(width - end.width - 2, palette.accent if self.active else palette.rule, glyphs.rule)
        return line.ends_with(end, width, gap=1)
