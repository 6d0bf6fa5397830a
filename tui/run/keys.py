"""What keys do to log panes in the run view: search, filter, errors, following, times, marks, copies."""

from __future__ import annotations

import asyncio
import contextlib
from abc import abstractmethod
from pathlib import Path
from typing import ClassVar, Literal

from textual.widgets import Input, Static

from distui.patterns import given_up
from distui.tui.frame.actions import Action
from distui.tui.frame.bars import FilterBar
from distui.tui.frame.base import View
from distui.tui.frame.context import app_of
from distui.tui.logs.buffer import LogBuffer
from distui.tui.logs.log_pane import SINCE_S, LogPane
from distui.tui.logs.merged_pane import MergedPane
from distui.tui.logs.pane import Pane
from distui.tui.logs.search import TROUBLE, LogView, Pattern, find, pattern_of, read_on

SINCE_WORDS = ("all", "1 min", "5 min", "15 min", "30 min", "1 h", "6 h")
COPY_BYTES = 100_000
"""A larger selection goes to a file: terminals refuse long clipboard sequences."""


def fresh_path(folder: Path, name: str) -> Path:
    """`name` in a folder, with a number when a file of that name is there already."""
    stem, _, suffix = name.rpartition(".")
    path, number = folder / name, 2
    while path.exists():
        path, number = folder / f"{stem}-{number}.{suffix}", number + 1
    return path


class LogKeys(View):
    """The half of the run view that acts on the active pane."""

    LOG_ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("search", "search", ("slash",), "Logs", "search", footer=True, help="Find text or a regex in the log."),
        Action(
            "next_match", "next match", ("n",), "Logs", footer=True,
            help="The next line that matches; without a search, the next rank that failed.",
        ),
        Action("previous_match", "previous match", ("N",), "Logs"),
        Action(
            "only", "filter", ("ampersand",), "Logs", "filter", footer=True,
            help="Show only lines that match; `!text` those that do not.",
        ),
        Action("next_error", "next error", ("e",), "Logs", footer=True, help="The next line that looks like trouble."),
        Action("previous_error", "previous error", ("E",), "Logs"),
        Action("follow", "follow", ("s", "F"), "Logs", "follow", help="Follow the end of the log, or stop following."),
        Action("wrap", "wrap", ("w",), "Logs", "wrap", help="Wrap long lines."),
        Action("times", "times", ("t",), "Logs", help="Times of lines on or off; they are on our clock."),
        Action("since_0", "all lines", ("0",), "Logs"),
        Action("since_1", "last minute", ("1",), "Logs"),
        Action("since_2", "last 5 min", ("2",), "Logs"),
        Action("since_3", "last 15 min", ("3",), "Logs"),
        Action("since_4", "last 30 min", ("4",), "Logs"),
        Action("since_5", "last hour", ("5",), "Logs"),
        Action("since_6", "last 6 hours", ("6",), "Logs"),
        Action("mark", "mark line", ("m",), "Logs", help="Mark the line of the cursor, or take the mark away."),
        Action("copy_line", "copy", ("c",), "Logs", help="Copy what is selected, else the line of the cursor."),
        Action("save", "save log", ("W",), "Logs", "save", help="Copy the whole file of the log to this folder."),
        Action("clear", "clear", ("C",), "Logs", "clear", help="Hide what is there; the file keeps it, 0 shows it."),
        Action(
            "unfold", "unfold", ("z",), "Logs", footer=True,
            help="Merged log: who said the line, and when. One rank: library frames of the traceback at the cursor.",
        ),
        Action("fold", "fold all", ("D",), "Logs", "fold", footer=True, help="Merged log: fold equal lines, or not."),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.search_text = ""
        self._asking: Literal["search", "only"] = "search"

    @property
    @abstractmethod
    def pane(self) -> Pane:
        """The active pane: keys for logs mean it."""

    @property
    def only_text(self) -> str:
        """The filter of the active pane, as it was typed."""
        return self.pane.only

    def panes_changed(self) -> None:
        """Something the state row or the titles say has changed."""

    # Typing.

    def _ask(self, what: Literal["search", "only"], sign: str, text: str, hint: str) -> None:
        self._asking = what
        bar = self.query_one(FilterBar)
        bar.query_one(Static).update(sign)
        bar.query_one(Input).placeholder = hint
        bar.open(text)

    def action_search(self) -> None:
        """Open the search row."""
        self._ask("search", "/", "", "text or regex, enter finds the next one, n N go on, esc ends")

    def action_only(self) -> None:
        """Open the filter row."""
        self._ask("only", "&", self.only_text, "show only lines with this text or regex, !text without, esc shows all")

    def on_filter_bar_changed(self, event: FilterBar.Changed) -> None:
        """What is typed takes effect at once; enter looks for the next match."""
        event.stop()
        event.prevent_default()
        if self._asking == "only":
            self.set_only(event.text)
        elif event.text or not event.done:
            self.set_search(event.text)
        else:
            self.set_search("")
        if event.done:
            self.focus_back()
            self._say_slow()
            if self._asking == "search" and event.text:
                self._look(1)
        self.panes_changed()

    def set_search(self, text: str) -> None:
        """Mark what matches in the active pane."""
        self.search_text = text
        pattern = pattern_of(text) if text else None
        pane = self.pane
        if isinstance(pane, LogPane | MergedPane):
            pane.pattern = pattern
            pane.repaint()

    def set_only(self, text: str) -> None:
        """Show only matching lines in the active pane."""
        pane = self.pane
        pane.only = text
        if isinstance(pane, LogPane) and pane.view is not None:
            pane.view.set_filter(text)
            pane.dirty = True
            pane.set_follow(True)
        elif isinstance(pane, MergedPane):
            inverse = text.startswith("!") and len(text) > 1
            pane.set_filter(pattern_of(text[inverse:]) if text else None, inverse=inverse)

    def _say_slow(self) -> None:
        """A pattern that took too long finds nothing: that is said."""
        pane = self.pane
        merged = pane.filter if isinstance(pane, MergedPane) else None
        single = pane.view.filter.pattern if isinstance(pane, LogPane) and pane.view and pane.view.filter else None
        searched = pane.pattern if isinstance(pane, LogPane | MergedPane) else None
        if words := given_up(merged) or given_up(single) or given_up(searched):
            app_of(self).tell(f"this pattern {words}; write another", level="warning")

    def command_search(self, argument: str) -> None:
        """`:search TEXT`."""
        self.set_search(argument)
        self._look(1)

    def command_filter(self, argument: str) -> None:
        """`:filter TEXT`."""
        self.set_only(argument)
        self._say_slow()
        self.panes_changed()

    # Finding.

    def action_next_match(self) -> None:
        """Further down."""
        self._look(1)

    def action_previous_match(self) -> None:
        """Further up."""
        self._look(-1)

    def action_next_error(self) -> None:
        """Further down."""
        self._look(1, trouble=True)

    def action_previous_error(self) -> None:
        """Further up."""
        self._look(-1, trouble=True)

    def _look(self, step: int, *, trouble: bool = False) -> None:
        if not trouble and not self.search_text:
            app_of(self).tell("nothing to look for; / starts a search")
            return
        pattern = TROUBLE if trouble else pattern_of(self.search_text)
        what = "trouble" if trouble else self.search_text
        pane = self.pane
        if isinstance(pane, MergedPane):
            if not pane.find(None if trouble else pattern, step):
                app_of(self).tell(f"no line with {what}")
        elif isinstance(pane, LogPane) and pane.view is not None:
            self.work(self._find(pane, pane.view, pattern, step, what), name="find", group="find")

    async def _find(self, pane: LogPane, view: LogView, pattern: Pattern, step: int, what: str) -> None:
        """Search the file, round the end once, over lines a filter hides."""
        await read_on(view)
        buffer = view.buffer
        start = view.line(pane.at) if view.rows else 0
        line = await find(buffer, pattern, start, step)
        if line is None or line < view.floor:
            line = await find(buffer, pattern, view.floor - 1 if step > 0 else buffer.count, step)
        if words := given_up(pattern):
            app_of(self).tell(f"{what} {words}; write another", level="warning")
            return
        if line is None or pane.view is not view or line < view.floor:
            app_of(self).tell(f"no line with {what} in {buffer.path.name}")
            return
        pane.go_to_line(line)
        self.panes_changed()

    # What is shown, and how.

    def action_follow(self) -> None:
        """Follow, or stay."""
        self.pane.set_follow(not self.pane.follow)
        self.panes_changed()

    def action_wrap(self) -> None:
        """Wrap long lines, or not."""
        pane = self.pane
        if isinstance(pane, LogPane):
            pane.wrap = not pane.wrap
            pane.left = 0
            pane.repaint()
        self.panes_changed()

    def action_times(self) -> None:
        """Times, or more room for text."""
        pane = self.pane
        if isinstance(pane, LogPane | MergedPane):
            pane.times = not pane.times
            pane.repaint()
        self.panes_changed()

    def set_since(self, index: int) -> None:
        """Only lines of the last minutes; 0 is all."""
        pane, now = self.pane, self.since_now
        if isinstance(pane, MergedPane):
            pane.floor = now - SINCE_S[index] if index else 0.0
        elif isinstance(pane, LogPane) and pane.view is not None:
            first = pane.view.buffer.first_since(now - SINCE_S[index]) if index else 0
            if first is None:
                app_of(self).tell("this log has no times", level="warning")
                return
            pane.view.floor = first
        pane.since = index
        pane.dirty = True
        pane.set_follow(True)
        self.panes_changed()

    @property
    @abstractmethod
    def since_now(self) -> float:
        """The moment that `the last minute` ends at."""

    def action_since_0(self) -> None:
        """All lines."""
        self.set_since(0)

    def action_since_1(self) -> None:
        """The last minute."""
        self.set_since(1)

    def action_since_2(self) -> None:
        """The last five minutes."""
        self.set_since(2)

    def action_since_3(self) -> None:
        """The last quarter of an hour."""
        self.set_since(3)

    def action_since_4(self) -> None:
        """The last half hour."""
        self.set_since(4)

    def action_since_5(self) -> None:
        """The last hour."""
        self.set_since(5)

    def action_since_6(self) -> None:
        """The last six hours."""
        self.set_since(6)

    def command_since(self, argument: str) -> None:
        """`:since 5m`."""
        words = {"all": 0, "0": 0, "1m": 1, "5m": 2, "15m": 3, "30m": 4, "1h": 5, "6h": 6}
        if argument in words:
            self.set_since(words[argument])
        else:
            app_of(self).tell(f"since takes one of {', '.join(words)}", level="warning")

    def complete_since(self) -> tuple[str, ...]:
        """What may follow `:since`."""
        return ("all", "1m", "5m", "15m", "30m", "1h", "6h")

    def action_clear(self) -> None:
        """Hide what is there now."""
        pane = self.pane
        if isinstance(pane, LogPane) and pane.view is not None:
            pane.view.floor = pane.view.buffer.count
        elif isinstance(pane, MergedPane):
            pane.floor = self.since_now
        pane.dirty = True
        pane.set_follow(True)

    def action_mark(self) -> None:
        """Mark a line."""
        pane = self.pane
        if isinstance(pane, LogPane) and pane.view is not None and pane.rows:
            pane.marks ^= {pane.view.line(pane.at)}
            pane.repaint()

    def action_unfold(self) -> None:
        """Merged: who said the line. One rank: what is folded of a traceback."""
        pane = self.pane
        if isinstance(pane, MergedPane):
            pane.toggle()
        elif isinstance(pane, LogPane) and not pane.toggle_fold():
            app_of(self).tell("nothing to fold at this line")

    # Out of here.

    def action_copy_line(self) -> None:
        """A selection, else the line."""
        pane = self.pane
        text = self.get_selected_text() or (pane.row_text(pane.at) if pane.rows else "")
        if len(text) <= COPY_BYTES:
            app_of(self).copy(text)
            return
        path = fresh_path(Path.cwd(), "distui-selection.txt")
        try:
            path.write_text(text, "utf-8")
        except OSError as error:
            app_of(self).tell(f"can't write {path}: {error.strerror}", level="error")
        else:
            app_of(self).tell(f"too much for a clipboard: saved to {path}")

    def action_save(self) -> None:
        """The file of the active pane, whole."""
        pane = self.pane
        if isinstance(pane, LogPane) and pane.view is not None:
            self.work(self._save([pane.view.buffer]), name="save")
        elif isinstance(pane, MergedPane):
            self.work(self._save(list(pane.merged.buffers.values())), name="save")

    async def _save(self, sources: list[LogBuffer]) -> None:
        done: list[Path] = []
        for source in sources:
            target = fresh_path(Path.cwd(), f"{self.crumbs[1]}-{source.path.name}")
            with contextlib.suppress(FileNotFoundError):
                try:
                    await asyncio.to_thread(source.copy, target)
                except OSError as error:
                    app_of(self).tell(f"can't save {target}: {error.strerror}", level="error")
                    return
                done.append(target)
        if not done:
            app_of(self).tell("nothing to save: the rank has not written a line")
        else:
            app_of(self).tell(f"saved {done[0]}" if len(done) == 1 else f"saved {len(done)} logs to {Path.cwd()}")


def since_words(index: int) -> str:
    """What the state row says."""
    return SINCE_WORDS[index] if index else "all"
