"""The row over the run view: the run's state, then ranks, step, speed and loss."""

from __future__ import annotations

from rich.style import Style

from distui.amounts import counted, duration, plural
from distui.runs.report.rank_rows import started
from distui.tui.frame.base import View
from distui.tui.logs.feed import RunFeed
from distui.tui.metrics.progress import stalled_words
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette
from distui.tui.run.around import loss_plot
from distui.tui.run.panes.panes import Panes

WORDS = {"launching": "starting", "launch_failed": "not started"}


class RunHeader:
    """Says in one row how a run goes."""

    def __init__(self, view: View, feed: RunFeed, panes: Panes) -> None:
        self.view = view
        self.feed = feed
        self.panes = panes

    def after_crumbs(self, line: Line, palette: Palette) -> None:
        """The run's state, and for how long."""
        state = self.feed.state
        summary = state.summary
        stands = self.feed.stands
        seen = "quiet" if stands is not None else summary
        word = WORDS.get(summary, summary).upper() if stands is None else stalled_words(stands, self.feed.now)
        line.gap(3).put(self.view.glyphs.state(seen), palette.state(seen)).gap(1)
        line.put(word, palette.state(seen) + Style(bold=True))
        if state.attempts > 1:
            line.gap(2).put(f"attempt {state.attempt} of {state.attempts}", palette.muted)
        if state.restarts:
            line.gap(2).put(counted(len(state.restarts), "restart"), palette.muted)
        if summary == "launching" and state.phase:
            line.gap(2).put(state.phase, palette.muted).gap(1).put(state.detail[:40], palette.faint)
        elif (began := self.feed.started) is not None and (stands is None or self.view.size.width >= 100):
            reported = state.ended.took if state.ended is not None else 0.0  # as the lists and `show` have it
            took = reported if reported > 0 else self.feed.now - began
            line.gap(2).put(("after " if state.ended is not None else "") + duration(took), palette.muted)

    def headline(self, line: Line, palette: Palette) -> None:
        """Ranks, step, speed, loss: as many as fit, the first ones first."""
        wide = self.view.size.width
        if self.panes.merged_only:
            merged = self.feed.merged
            line.put("folded  " if merged.fold else "", palette.muted).put(f"{len(merged.groups):,}", palette.bold)
            line.put(" of ", palette.muted).put(f"{merged.members:,}", palette.bold)
            line.put(f" {plural(merged.members, 'line')} shown", palette.muted)
            return
        total = len(self.feed.placed)
        running = started(self.feed.state)
        if not self.feed.over:
            line.put(running, palette.bold).put(f" of {total}", palette.muted)
            line.put(f" {plural(total, 'rank')}" if wide >= 110 else "", palette.muted)
        elif self.feed.state.ended is not None and wide >= 110:
            line.put("logs drained to the end" if self.feed.state.summary != "unknown" else "", palette.muted)
        for words in self._progress_words(palette, wide):
            line.gap(4 if wide >= 110 else 2).add(words)

    def _progress_words(self, palette: Palette, wide: int) -> list[Line]:
        feed = self.feed
        if wide < 70:
            return []
        found: list[Line] = []
        step, total = feed.value("step"), feed.value("total") or feed.value("steps")
        if step is not None and feed.stands is None:
            words = Line().put("last step " if feed.over else "step ", palette.muted).put(f"{step:,.0f}", palette.bold)
            found.append(words.put(f" of {total:,.0f}" if total and wide >= 110 else "", palette.muted))
        speed = feed.seconds_per_step
        if speed is not None and wide >= 110 and not feed.over and feed.stands is None:
            rate = (f"{speed:.2f}", " s/it") if speed >= 0.5 else (f"{1 / speed:.1f}", " it/s")
            found.append(Line().put(rate[0], palette.bold).put(rate[1], palette.muted))
        name = feed.figure
        if name is not None:
            shown = loss_plot.shown(feed.value(name) or 0)
            found.append(Line().put(f"{name} ", palette.muted).put(shown, palette.bold))
        return found
