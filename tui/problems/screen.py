"""Problems: what is not well anywhere, the worst first, and the way there."""

from __future__ import annotations

import time
from textwrap import wrap
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from distui.amounts import counted
from distui.monitor.problems import Alike, Problem, folded, problems, report
from distui.regex import regex
from distui.tui.frame.actions import Action, bindings
from distui.tui.frame.base import FILTER, View
from distui.tui.frame.context import ViewName, app_of
from distui.tui.paint.paint import Line, cut
from distui.tui.paint.theme import Palette
from distui.tui.widgets.panel import Panel
from distui.tui.widgets.rows import RowList

LOOK_EVERY = 2.0
"""Seconds: all remarks of 256 hosts take a tenth of one to find."""
NAME_MOST = 24
HINT_LEAST = 24
"""Cells below which what to do stands only in the panel."""
_NUMBERS = regex(r"\d+")


class ProblemRows(RowList):
    """One row a problem, or one for all hosts that have the same."""

    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("choose", "go there", ("enter",), "Move", footer=True,
               help="The host or run it is about; a row of several hosts opens into one row each."),
    )  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIONS)


class ProblemsScreen(View):
    """Every remark of all hosts and runs as they are now; enter goes to the host or run."""

    PLACE = "Problems"
    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("probe", "probe again", ("p", "r"), "View", "probe", footer=True,
               help="Ask the hosts here again, and for the runs."),
        Action("fold", "fold hosts", ("z",), "Layout", "fold", footer=True,
               help="The same problem of several hosts as one row, or one row a host."),
        FILTER,
        Action("copy_all", "copy all", ("c", "y"), "View", footer=True, help="All problems as text."),
    )  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIONS)
    SHOWS_RUNS = True
    DEFAULT_CSS = """
    ProblemsScreen RowList { height: 1fr; }
    ProblemsScreen #detail { height: auto; min-height: 3; max-height: 8; margin: 1 0 0 0; }
    ProblemsScreen.-h0 #detail, ProblemsScreen.-h24 #detail { margin: 0; }
    """

    def __init__(self, view: ViewName = "hosts") -> None:
        super().__init__()
        self.VIEW = view  # type: ignore[misc]  # of the view it was opened from
        self.folds = True
        self.opened: frozenset[str] = frozenset()
        """Rows of several hosts that were opened."""
        self.found: tuple[Problem, ...] = ()
        self.by_key: dict[str, Alike] = {}

    def compose_body(self) -> ComposeResult:
        """See View."""
        yield ProblemRows(self._paint)
        yield Panel(self._detail, id="detail")

    def on_mount(self) -> None:
        """How long something has been so is shown as it grows; the other two views do not ask for runs."""
        self.set_interval(LOOK_EVERY, self._look)
        if self.VIEW in ("jobs", "doctor"):
            app_of(self).ask_runs()
        self._look()

    @property
    def rows(self) -> ProblemRows:
        """The list."""
        return self.query_one(ProblemRows)

    @property
    def shown(self) -> Alike | None:
        """The problem under the cursor."""
        return self.by_key.get(self.rows.key)

    # What is on it.

    @property
    def crumbs(self) -> tuple[str, ...]:
        """See View."""
        return (self.VIEW.title(), "problems")

    def headline(self, line: Line, palette: Palette) -> None:
        """How many there are, and of how many hosts and runs."""
        wrong = sum(one.level == "wrong" for one in self.found)
        if wrong:
            line.put(wrong, palette.wrong).put(" wrong", palette.muted).gap(3)
        if len(self.found) > wrong:
            line.put(len(self.found) - wrong, palette.watch).put(" to watch", palette.muted).gap(3)
        asked = sum(host.status == "unknown" or host.probing for host in self.board.hosts.values())
        if asked:
            line.put(asked, palette.bold).put(" still asked", palette.muted).gap(3)
        line.put(counted(len(self.board.hosts), "host"), palette.muted)

    def news(self, hosts: frozenset[str]) -> None:
        """See View."""
        self._look()

    def filter_changed(self) -> None:
        """Only problems with the text, or of a host or run with it."""
        self._look()

    def _look(self) -> None:
        if self.closing or not self.is_mounted:
            return
        states = {name: live.state for name, live in self.backend.following.items()}
        app = app_of(self)
        self.found = tuple(problems(self.board.hosts.values(), states, app.rows, time.time(), app.looked_at))
        wanted = self.filter_text.lower()
        kept = [one for one in self.found if wanted in f"{one.name} {one.level} {one.text} {one.hint}".lower()]
        self.by_key = self._keyed(folded(kept) if self.folds else [Alike((one,)) for one in kept])
        self.rows.set_rows(tuple(self.by_key))
        self._repaint()
        self.refresh_bars()

    def _keyed(self, found: list[Alike]) -> dict[str, Alike]:
        """The rows by keys that stay when only a figure in the words has changed."""
        keyed: dict[str, Alike] = {}
        for several in found:
            key = _key(several)
            parts = [several]
            if key in self.opened:
                parts = [Alike((one,)) for one in several.problems]
            for part in parts:
                name = _key(part)
                while name in keyed:
                    name += "'"
                keyed[name] = part
        return keyed

    # Painting.

    def _paint(self, number: int, width: int, here: bool) -> Line:
        found, palette = self.by_key[self.rows.rows[number].key], self.palette
        one = found.first
        style = palette.wrong if one.level == "wrong" else palette.watch
        name = min(NAME_MOST, max(len(several.name) for several in self.by_key.values()))
        line = Line().gap(2).put(self.glyphs.bad if one.gone else self.glyphs.remark, style).gap(1)
        put = line.name if one.kind == "run" else line.host
        put(found.name, palette.bold if here else palette.text, width=name).gap(2)
        line.put(one.kind, palette.faint, width=4).gap(2).put(self._words(found.text), style)
        room = width - line.width - 4
        return (
            line.gap(3).put(cut(self._words(one.hint), room), palette.muted)
            if one.hint and room >= HINT_LEAST
            else line
        )

    def _words(self, text: str) -> str:
        return text if self.glyphs.degree else text.replace("°", "")

    def _detail(self, width: int) -> list[Line]:
        found, palette = self.shown, self.palette
        if found is None:
            return self._nothing()
        count = len(found.problems)
        facts = f"{count} hosts" if count > 1 else found.first.kind
        title = Line().gap(1).put(found.name, palette.bold).gap(2).put(facts, palette.muted)
        lines = [title.rule(width - 1, palette.rule, self.glyphs.rule)]
        for label, words in (("saw", self._words(found.text)), ("do", self._words(found.first.hint))):
            for i, part in enumerate(wrap(words, max(10, width - 12))):
                shown = Line().put("" if i else label, palette.faint, width=8, right=True).gap(2)
                lines.append(shown.put(part, palette.text))
        return lines

    def _nothing(self) -> list[Line]:
        palette = self.palette
        if self.found:
            return [Line().gap(3).put("no problem has this text; esc shows all of them", palette.muted)]
        up = sum(host.status == "up" for host in self.board.hosts.values())
        words = f"nothing is wrong at the {counted(up, 'host')} that answered" if up else "no host has answered yet"
        return [Line().gap(3).put(words, palette.muted)]

    @on(RowList.Moved)
    def _repaint(self) -> None:
        self.rows.repaint()
        self.query_one("#detail", Panel).refresh(layout=True)

    # Actions.

    @on(RowList.Chosen)
    def _go(self) -> None:
        found = self.shown
        if found is None:
            return
        if len(found.problems) > 1:
            self.opened |= {_key(found)}
            self._look()
        elif found.first.kind == "run":
            app_of(self).follow_run(found.first.name)
        else:
            app_of(self).open_host(found.first.name)

    def action_fold(self) -> None:
        """The same problem of several hosts as one row, or one a host."""
        self.folds, self.opened = not self.folds or bool(self.opened), frozenset()
        self._look()

    def action_probe(self) -> None:
        """Ask the hosts that are listed again, all of them when nothing is, and for the runs."""
        listed = {one.name for one in self.found if one.kind == "host"}
        known = [host.name for host in self.backend.hosts]
        app_of(self).probe([name for name in known if name in listed] or known)
        app_of(self).ask_runs()

    def action_copy_all(self) -> None:
        """As text to pass on."""
        app_of(self).copy(report(self.found) or "nothing is wrong")


def _key(found: Alike) -> str:
    count = f"{len(found.problems)} " if len(found.problems) > 1 else ""
    return f"{count}{found.first.name} {_NUMBERS.sub('#', found.first.text)}"
