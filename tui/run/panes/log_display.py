"""What of the active pane's log is shown, and how: following, wrapping, times, the last minutes, marks, folds."""

from __future__ import annotations

from typing import ClassVar

from distui.tui.frame.actions import Action
from distui.tui.frame.base import View
from distui.tui.frame.context import app_of
from distui.tui.frame.parts import Part
from distui.tui.logs.log_pane import SINCE_S, LogPane
from distui.tui.logs.merged.pane import MergedPane
from distui.tui.run.panes.panes import Panes

SINCE_WORDS = ("all", "1 min", "5 min", "15 min", "30 min", "1 h", "6 h")


def since_words(index: int) -> str:
    """What the state row says."""
    return SINCE_WORDS[index] if index else "all"


class LogDisplay(Part):
    """The keys that show the log of the active pane in another way."""

    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("follow", "follow", ("s", "F"), "Logs", "follow", help="Follow the end of the log, or stop following."),
        Action("wrap", "wrap", ("b",), "Logs", "wrap", help="Wrap (break) long lines, or not."),
        Action("times", "times", ("t",), "Logs", help="Times of lines on or off; they are on our clock."),
        Action("since_all", "all lines", ("0",), "Logs", help="All lines of the log again."),
        Action("since_longer", "longer since", ("u",), "Logs",
               help="The last minute, 5, 15, 30 minutes, 1 hour, 6 hours, all; `:since 5m`."),
        Action("since_shorter", "shorter since", ("U",), "Logs"),
        Action("mark", "mark line", ("m",), "Logs", help="Mark the line of the cursor, or take the mark away."),
        Action("clear", "clear", ("C",), "Logs", "clear", help="Hide what is there; the file keeps it, 0 shows it."),
        Action(
            "unfold", "unfold", ("z",), "Logs", footer=True,
            help="Merged log: who said the line, and when. One rank: library frames of the traceback at the cursor.",
        ),
        Action("fold", "fold all", ("D",), "Logs", "fold", footer=True, help="Merged log: fold equal lines, or not."),
    )  # fmt: skip

    def __init__(self, view: View, panes: Panes) -> None:
        self.view = view
        self.panes = panes

    def action_follow(self) -> None:
        """Follow, or stay."""
        pane = self.panes.active
        pane.set_follow(not pane.follow)
        self.panes.changed()

    def action_wrap(self) -> None:
        """Wrap long lines, or not."""
        pane = self.panes.active
        if isinstance(pane, LogPane):
            pane.wrap, pane.left = not pane.wrap, 0
            pane.repaint() if pane.cursor is None else pane.go(pane.cursor)
        else:
            app_of(self.view).tell("lines of the merged log are not wrapped; c copies a whole one")
        self.panes.changed()

    def action_times(self) -> None:
        """Times, or more room for text."""
        pane = self.panes.active
        if isinstance(pane, LogPane | MergedPane):
            pane.times = not pane.times
            pane.repaint()
        self.panes.changed()

    # The last minutes.

    def set_since(self, index: int) -> None:
        """Only lines of the last minutes; 0 is all."""
        pane, now = self.panes.active, self.panes.feed.now
        if isinstance(pane, MergedPane):
            pane.floor = now - SINCE_S[index] if index else 0.0
        elif isinstance(pane, LogPane) and pane.view is not None:
            first = pane.view.buffer.first_since(now - SINCE_S[index]) if index else 0
            if first is None:
                app_of(self.view).tell("this log has no times", level="warning")
                return
            pane.view.floor = first
        pane.since = index
        pane.dirty = True
        pane.set_follow(True)
        self.panes.changed()

    def action_since_all(self) -> None:
        """All lines."""
        self.set_since(0)

    def action_since_longer(self) -> None:
        """A longer time than now; after the longest all."""
        self._turn_since(1)

    def action_since_shorter(self) -> None:
        """A shorter time than now."""
        self._turn_since(-1)

    def _turn_since(self, step: int) -> None:
        self.set_since((self.panes.active.since + step) % len(SINCE_WORDS))

    def command_since(self, argument: str) -> None:
        """`:since 5m`."""
        known = {"all": 0, "0": 0} | {word: index for index, word in enumerate(self.complete_since())}
        if argument in known:
            self.set_since(known[argument])
        else:
            app_of(self.view).tell(f"since takes one of {', '.join(known)}", level="warning")

    def complete_since(self) -> tuple[str, ...]:
        """What may follow `:since`."""
        return ("all", "1m", "5m", "15m", "30m", "1h", "6h")

    # Lines.

    def action_clear(self) -> None:
        """Hide what is there now."""
        pane = self.panes.active
        if isinstance(pane, LogPane) and pane.view is not None:
            pane.view.floor = pane.view.buffer.count
        elif isinstance(pane, MergedPane):
            pane.floor = self.panes.feed.now
        pane.dirty = True
        pane.set_follow(True)

    def action_mark(self) -> None:
        """Mark a line."""
        pane = self.panes.active
        if isinstance(pane, LogPane) and pane.view is not None and pane.rows:
            pane.marks ^= {pane.view.line(pane.at)}
            pane.repaint()
        elif isinstance(pane, MergedPane):
            app_of(self.view).tell("lines are marked in the log of one rank")

    def action_unfold(self) -> None:
        """Merged: who said the line. One rank: what is folded of a traceback."""
        pane = self.panes.active
        if isinstance(pane, MergedPane):
            pane.toggle()
        elif isinstance(pane, LogPane) and not pane.toggle_fold():
            app_of(self.view).tell("nothing to fold at this line")

    def action_fold(self) -> None:
        """Fold equal lines of the merged log, or show each."""
        feed = self.panes.feed
        feed.merged = feed.merged.refolded(fold=not feed.merged.fold)
        self.panes.show_merged()
        self.panes.changed()

    def read_back(self) -> None:
        """The first row of the merged log was asked for: read further back."""
        feed = self.panes.feed
        if not feed.merged.from_start:
            feed.merged = feed.merged.earlier()
            self.panes.show_merged()
            app_of(self.view).tell("reading further back")
