"""What the run view says beside its panes: crumbs, headline, banner, strip, loss, timeline, comparison, state row."""

from __future__ import annotations

from rich.style import Style

from distui.amounts import duration, size_words
from distui.runs.report.aftermath import Moment
from distui.runs.report.rank_rows import digits, failed_at, numbers, remark, started
from distui.runs.state.progress import figure_name
from distui.tui.logs.log_pane import LogPane
from distui.tui.logs.merged_pane import MergedPane
from distui.tui.paint.glyphs import Glyphs
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette
from distui.tui.run import compare, failure_banner, loss_plot, timeline
from distui.tui.run import strip as run_strip
from distui.tui.run.fold import Fold
from distui.tui.run.keys import since_words
from distui.tui.run.panes import PaneKeys
from distui.tui.run.strip import HostRow

WORDS = {"launching": "starting", "launch_failed": "not started"}
QUIET = ("off", "none", "all")
"""What the state row says least loudly, and leaves out first where it is narrow."""


class RunPainter:
    """Paints what stands around the panes of a run view, from the view and its run; it changes neither."""

    def __init__(self, view: PaneKeys) -> None:
        self.view = view
        self.live, self.feed = view.live, view.feed
        self.strip_mode = "auto"
        """GPUs and network: `auto`, `off`, `compact` or `full`."""
        self.folded: Fold | None = None
        """How the rows are shared out now."""
        self.moments: list[Moment] = []
        """What went wrong and what followed, the oldest first."""

    @property
    def palette(self) -> Palette:
        """The colours."""
        return self.view.palette

    @property
    def glyphs(self) -> Glyphs:
        """The signs."""
        return self.view.glyphs

    def after_crumbs(self, line: Line, palette: Palette) -> None:
        """The run's state, and for how long."""
        state = self.feed.state
        summary = state.summary
        word = WORDS.get(summary, summary).upper()
        line.gap(3).put(self.glyphs.state(summary), palette.state(summary)).gap(1)
        line.put(word, palette.state(summary) + Style(bold=True))
        if state.attempts > 1:
            line.gap(2).put(f"attempt {state.attempt} of {state.attempts}", palette.muted)
        if state.restarts:
            line.gap(2).put(f"{len(state.restarts)} restart{'s' * (len(state.restarts) != 1)}", palette.muted)
        if summary == "launching" and state.phase:
            line.gap(2).put(state.phase, palette.muted).gap(1).put(state.detail[:40], palette.faint)
        elif (began := self.feed.started) is not None:
            reported = state.ended.took if state.ended is not None and not state.adopted else 0.0
            took = reported if reported > 0 else self.feed.now - began
            line.gap(2).put(("after " if state.ended is not None else "") + duration(took), palette.muted)

    def headline(self, line: Line, palette: Palette) -> None:
        """Ranks, step, speed, loss: as many as fit, the first ones first."""
        wide = self.view.size.width
        if self.view.merged_only:
            merged = self.feed.merged
            line.put("folded  " if merged.fold else "", palette.muted).put(f"{len(merged.groups):,}", palette.bold)
            line.put(" of ", palette.muted).put(f"{merged.members:,}", palette.bold).put(" lines shown", palette.muted)
            return
        total = len(self.feed.placed)
        running = started(self.feed.state)
        if not self.feed.over:
            line.put(running, palette.bold).put(f" of {total}", palette.muted)
            line.put(" ranks" if wide >= 110 else "", palette.muted)
        elif self.feed.state.ended is not None and wide >= 110:
            line.put("logs drained to the end" if self.feed.state.summary != "unknown" else "", palette.muted)
        for words in self._progress_words(palette, wide):
            line.gap(4 if wide >= 110 else 2).add(words)

    def _progress_words(self, palette: Palette, wide: int) -> list[Line]:
        progress = self.feed.progress
        if progress is None or progress.last is None or wide < 70:
            return []
        found: list[Line] = []
        step, total = progress.value("step"), progress.value("total") or progress.value("steps")
        if step is not None:
            words = (
                Line().put("last step " if self.feed.over else "step ", palette.muted).put(f"{step:,.0f}", palette.bold)
            )
            found.append(words.put(f" of {total:,.0f}" if total and wide >= 110 else "", palette.muted))
        speed = progress.seconds_per_step()
        if speed is not None and wide >= 110 and not self.feed.over:
            rate = (f"{speed:.2f}", " s/it") if speed >= 0.5 else (f"{1 / speed:.1f}", " it/s")
            found.append(Line().put(rate[0], palette.bold).put(rate[1], palette.muted))
        name = self.loss_name()
        if name is not None:
            found.append(
                Line().put(f"{name} ", palette.muted).put(loss_plot.shown(progress.value(name) or 0), palette.bold)
            )
        return found

    def loss_name(self) -> str | None:
        """The group that is plotted: the loss, else the first that is no count."""
        progress = self.feed.progress
        if progress is None or progress.last is None:
            return None
        return figure_name(progress.last.values)

    def banner(self, width: int, height: int) -> list[Line]:
        """What failed first, or what an end without failure warns of."""
        failure = self.feed.state.failure
        if failure is None:
            return failure_banner.warning_lines(self.palette, self.glyphs, self.warnings(), width, height)
        _, gpus = self.feed.placed.get(failure.rank if failure.rank is not None else -1, (None, ()))
        where = f"GPU {','.join(map(str, gpus))}" if gpus else ""
        return failure_banner.banner_lines(
            self.palette, self.glyphs, failure, width, height, gpus=where, again=self.feed.over
        )

    def warnings(self) -> tuple[str, ...]:
        """What belongs to the verdict of a run that has ended."""
        ended = self.feed.state.ended
        return ended.warnings if ended is not None else ()

    def _hosts(self) -> list[HostRow]:
        state, rows = self.feed.state, self.feed.rows()
        networks = {n.host: n for n in self.live.plan.networks}
        made = []
        for host in self.live.plan.hosts:
            mine = [r for r in rows if r.host == host]
            known = state.hosts.get(host)
            lost = (known.reason or "no answer") if known is not None and known.connection == "lost" else ""
            worst = min(mine, key=lambda r: {"wrong": 0, "watch": 1, "muted": 2}.get(r.tone, 3), default=None)
            made.append(
                HostRow(
                    host, "lost" if lost else worst.sign if worst is not None else "starting",
                    numbers([r.rank for r in mine], digits(self.feed.buffers)),
                    list(self.feed.samples.get(host, ())), networks.get(host), lost,
                    trouble=any(r.tone == "wrong" for r in mine), remark=remark(mine, digits(self.feed.buffers)),
                )
            )  # fmt: skip
        return made

    def narrow(self, width: int, height: int) -> list[Line]:
        """The hosts on a small window."""
        return run_strip.narrow_lines(self.palette, self.glyphs, self._hosts(), width, height)

    def strip(self, width: int, height: int) -> list[Line]:
        """GPUs and network of the hosts."""
        full = self.folded is not None and self.folded.history
        return run_strip.strip_lines(
            self.palette, self.glyphs, self._hosts(), width, height, self._strip_end(), full=full
        )

    def _strip_end(self) -> Line:
        """What the data goes over; after the end, whether the promise was kept."""
        ended, palette = self.feed.state.ended, self.palette
        if ended is not None and ended.leftovers:
            return Line().put(f"{len(ended.leftovers)} things are left on hosts", palette.watch)
        if ended is not None and ended.outcome not in ("detached", "unknown"):
            hosts = len(self.live.plan.hosts)
            where = {1: " on the host", 2: " on either host"}.get(hosts, f" on {hosts} hosts")
            return Line().put("nothing of this run is left", palette.good).put(where, palette.muted)
        return Line().put(run_strip.fabric_words(self.live.plan.networks), palette.muted)

    def loss(self, width: int, height: int) -> list[Line]:
        """The loss over time."""
        name, progress = self.loss_name(), self.feed.progress
        if name is None or progress is None:
            return []
        return loss_plot.plot_lines(self.palette, self.glyphs, name, progress.series(name), width - 1, height)

    def timeline(self, width: int, height: int) -> list[Line]:
        """What followed a failure."""
        state = self.feed.state
        if state.failure is None or failed_at(state) is None:
            return timeline.timeline_lines(
                self.palette, self.glyphs, self.moments, width, height, "", head="What went wrong"
            )
        ended = sum(not r.live for r in state.ranks.values()) - (state.failure.rank is not None)
        who = state.failure.who or "the launcher"
        if state.failure.is_of_all:
            return timeline.timeline_lines(self.palette, self.glyphs, self.moments, width, height, "")
        message = f"{ended} rank{'s' * (ended != 1)} ended because of {who}" if ended > 0 else f"after {who} failed"
        return timeline.timeline_lines(self.palette, self.glyphs, self.moments, width, height, message)

    def compare(self, width: int, height: int) -> list[Line]:
        """The ranks of one folded line of the merged log."""
        merged = self.view.full_merged
        return compare.compare_lines(
            self.palette, self.glyphs, merged.merged.groups, merged.group, list(self.feed.placed), width, height
        )

    def state(self, width: int, height: int) -> list[Line]:
        """How the active pane is set, and how much was printed."""
        palette, pane = self.palette, self.view.pane
        parts = [("follow", "end" if self.feed.over and pane.follow else "on" if pane.follow else "off")]
        if isinstance(pane, MergedPane):
            parts.append(("fold", "on" if pane.merged.fold else "off"))
            parts.append(("clock", "corrected, 500 ms window" if pane.merged.timed else "none, by line number"))
            only = self.view.only_text if pane.filter is not None else ""
        else:
            assert isinstance(pane, LogPane)
            only = self.view.only_text if pane.view is not None and pane.view.filter is not None else ""
            parts += [("wrap", "on" if pane.wrap else "off"), ("time", "local" if pane.times else "off")]
        parts += [("since", since_words(pane.since)), ("filter", only or "none")]
        parts += [("search", self.view.search_text)] if self.view.search_text else []
        parts += [("strip", self.strip_mode)] if self.strip_mode != "auto" else []
        count, size = self.feed.totals()
        lines = f"{count:,} line{'s' * (count != 1)}"
        end = Line().put(lines, palette.muted).gap(3).put(size_words(size), palette.muted).gap(1)
        gap, room = 3 if width >= 100 else 2, width - end.width - 2
        while parts and sum(len(name) + len(value) + 1 + gap for name, value in parts) > room:
            quiet = [part for part in parts if part[1] in QUIET]
            parts.remove(quiet[-1] if quiet else parts[-1])
        line = Line().gap(1)
        for name, value in parts:
            line.put(name, palette.faint).gap(1).put(value, palette.muted if value in QUIET else palette.text).gap(gap)
        return [line.ends_with(end, width)]
