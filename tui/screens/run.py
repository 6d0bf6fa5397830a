"""One run: its ranks, their logs side by side or merged, what failed first and what followed, GPUs and network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.style import Style
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.events import Resize

from distui.run.aftermath import Moment, aftermath
from distui.run.events import Event, HostSampled, LogLines
from distui.run.progress import figure_name
from distui.run.rank_rows import digits, failed_at, numbers, started
from tui.base import Action, app_of, bindings
from tui.desk import LiveRun
from tui.figures import size as size_words
from tui.figures import span
from tui.paint import Line
from tui.screens import run_change
from tui.screens.run_failure import FailureKeys
from tui.screens.run_fold import Fold, Wanted, fold
from tui.screens.run_keys import since_words
from tui.theme import Palette
from tui.widgets import compare, failure_banner, loss_plot, run_strip, timeline
from tui.widgets.log_pane import LogPane
from tui.widgets.merged_pane import MergedPane
from tui.widgets.painted import Painted
from tui.widgets.pane import Pane
from tui.widgets.pane_grid import PaneGrid
from tui.widgets.pump import HZ, Pump
from tui.widgets.rank_list import RankList
from tui.widgets.run_strip import HostRow

STRIPS = ("auto", "off", "compact", "full")
WORDS = {"launching": "starting", "launch_failed": "not started"}
QUIET = ("off", "none", "all")
"""What the state row says least loudly, and leaves out first where it is narrow."""
SLOW_S = 0.5
"""How often figures and ages are painted again."""
STALE_S = 0.2
"""How soon after the last time news of states are painted."""


class RunScreen(FailureKeys):
    """The run view. It shows a followed or a recorded run and may ask it to stop; it never owns it."""

    VIEW = "runs"
    ACTIONS: ClassVar[tuple[Action, ...]] = (
        *FailureKeys.LOG_ACTIONS,
        *FailureKeys.PANE_ACTIONS,
        *FailureKeys.FAILURE_ACTIONS,
        Action("strip", "strip", ("v",), "Layout", "strip", help="GPUs and network: auto, off, short, full."),
        Action("back", "back", ("escape",), "Global", help="Undo search, filter, zoom and merged log, then go back."),
        Action(
            "stop", "stop", ("S",), "Change", "stop", changes=True, footer=True,
            help="SIGTERM, the grace, then SIGKILL.",
        ),
        Action("kill", "kill", ("K",), "Change", "kill", changes=True, help="SIGKILL at once."),
        Action(
            "rerun", "run again", ("R",), "Change", "rerun", changes=True, footer=True,
            help="The job as it was started, on the same hosts, once this run has ended.",
        ),
        Action(
            "prune", "prune", ("X",), "Change", "prune", changes=True, footer=True,
            help="Remove what the run left on its hosts, and its folder here, once it has ended.",
        ),
    )  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIONS)
    DEFAULT_CSS = """
    RunScreen #mid { height: 1fr; width: 1fr; padding-right: 1; }
    RunScreen #side { width: 26; height: 1fr; }
    RunScreen #merged { height: 1fr; width: 1fr; margin-right: 1; }
    RunScreen #banner { background: $dangerbg; }
    """

    def __init__(self, live: LiveRun) -> None:
        super().__init__(live)
        self.strip_mode = "auto"
        self.folded: Fold | None = None
        self.moments: list[Moment] = []
        self.pump = Pump(lambda: self.visible_panes)
        self._autopsied = False
        self._ticks = 0
        self._ticked = 0.0
        self._stale = False
        self._painted: list[Painted] = []

    def compose_body(self) -> ComposeResult:
        """See View."""
        yield Painted(self._banner, id="banner")
        yield Painted(self._narrow, id="narrow")
        with Horizontal(id="mid"):
            with Vertical(id="side"):
                yield RankList()
                yield Painted(self._loss, id="loss")
            with Vertical(id="logs"):
                yield PaneGrid()
                yield Painted(self._timeline, id="timeline")
        yield MergedPane(0, id="merged")
        yield Painted(self._compare, id="compare")
        yield Painted(self._strip, id="strip")
        yield Painted(self._state, id="state")

    def on_mount(self) -> None:
        """Show what is known, then follow."""
        for pane in (self.full_merged, self.grid.merged):
            pane.reader = self.feed.grow_merged
            pane.show(self.feed.merged)
        self.full_merged.full = True
        self._painted = list(self.query("#body Painted").results(Painted))
        for host in self.live.plan.hosts:
            known = self.feed.state.hosts.get(host)
            self.feed.seed(host, [known.sample] if known is not None and known.sample is not None else [])
        self.fill_panes()
        self.ranks.launchers = {buffer.host: number for number, buffer in self.feed.launchers.items()}
        self._tick()
        self.fold_screen()
        self.activate(self.grid.logs[0])
        self.focus_list()
        self.set_interval(1 / HZ, self._pump)
        self.set_interval(SLOW_S, self._tick)
        self.work(self._follow(), name="follow")

    # Following.

    async def _follow(self) -> None:
        async for batch in self.live.batches():
            self.take(batch)

    def take(self, batch: Sequence[Event]) -> None:
        """Note what came; the pump and the slow tick show it."""
        self.feed.take(batch)
        for pane in self.visible_panes:
            if isinstance(pane, MergedPane) or (isinstance(pane, LogPane) and pane.rank in self.feed.grown):
                pane.dirty = True
        self.feed.grown.clear()
        self._stale = self._stale or not all(isinstance(event, LogLines | HostSampled) for event in batch)

    def _pump(self) -> None:
        """Fifty times a second: one pane, and news that are not logs at most five times."""
        self.pump.tick()
        if self._stale and self.pump.clock() - self._ticked >= STALE_S:
            self._tick()

    def _tick(self) -> None:
        """Everything but the logs: figures, ages, states; twice a second."""
        state = self.feed.state
        self._ticks, self._ticked, self._stale = self._ticks + 1, self.pump.clock(), False
        self.moments = aftermath(state) or self._notices()
        self.feed.grow_progress()
        for pane in self.visible_panes:
            pane.dirty = pane.dirty or self._ticks % 2 == 0 or self.feed.over
        for log_pane in self.grid.logs:
            log_pane.now_is(live=not self.feed.over and self._lives(log_pane.rank), place=self.place_of(log_pane))
        for merged in (self.full_merged, self.grid.merged):
            if merged.live == self.feed.over:
                merged.live = not self.feed.over
                merged.repaint()
        self.ranks.set_ranks(self.feed.rows(), run_strip.samples_of(self.feed.samples), self.panes_of)
        self.fold_screen()
        for painted in self._painted:
            painted.repaint()
        self.refresh_bars()
        if self.feed.over and not self._autopsied and state.failure is not None:
            self._autopsied = True
            self._autopsy()

    def _lives(self, rank: int | None) -> bool:
        known = self.feed.state.ranks.get(rank) if rank is not None else None
        return known is None or known.live

    def _notices(self) -> list[Moment]:
        """Warnings and errors when nothing failed: a launch that was refused says why here."""
        state = self.feed.state
        zero = state.started or 0.0
        loud = [n for n in state.notices if n.level != "info"][-6:]
        return [
            Moment(n.at - zero, n.host or "", n.level, n.text, "wrong" if n.level == "error" else "watch") for n in loud
        ]

    def _autopsy(self) -> None:
        """A run that has failed: the rank to blame alone, at its line; not when somebody is reading."""
        if all(pane.follow for pane in self.visible_panes) and not self.merged_only:
            self.grid.wanted = 1
            self.grid.fit()
            self.activate(self.grid.logs[0])
            self.action_jump()

    # Layout.

    def on_resize(self, event: Resize) -> None:
        """Parts fold with the window."""
        self.call_after_refresh(self.fold_screen)

    def panes_changed(self) -> None:
        """See LogKeys."""
        if self.is_mounted:
            self.ranks.panes = self.panes_of
            self.ranks.list.repaint()
            self.query_one("#state", Painted).repaint()
            self.refresh_bars()

    def fold_screen(self) -> None:
        """Share the rows anew."""
        size = self.query_one("#body").size
        if not size.width:
            return
        hosts = len(self.live.plan.hosts)
        wanted = Wanted(
            banner=failure_banner.banner_rows(self.feed.state.failure),
            events=timeline.rows_wanted(self.moments),
            hosts=hosts,
            ranks=1 + len(self.ranks.list.rows),
            loss=self._loss_name() is not None,
            strip=self.strip_mode,
            merged=self.merged_only,
            zoomed=self.zoomed,
        )
        folded = fold(size.width, size.height, wanted)
        if (folded, self.merged_only) == (self.folded, not self.query_one("#mid").display):
            return
        self.folded = folded
        for name in ("banner", "narrow", "loss", "compare", "timeline", "strip", "state"):
            part = self.query_one(f"#{name}", Painted)
            rows: int = getattr(folded, name)
            part.display = rows > 0
            part.styles.height = max(1, rows)
            part.styles.margin = (0 if name == "banner" else folded.gap, 0, folded.gap if name == "banner" else 0, 0)
        self.query_one("#narrow").styles.margin = (0, 0, 1 if size.height >= 18 else 0, 0)
        self.query_one("#side").display = folded.side
        self.query_one("#mid").display = not self.merged_only
        self.full_merged.display = self.merged_only
        if self.focused is self.ranks.list and not folded.side:
            self.pane.focus()

    # Painting.

    @property
    def crumbs(self) -> tuple[str, ...]:
        """See View."""
        path = ("Runs", self.live.plan.run_id)
        return (*path, "merged log") if self.merged_only else path

    def after_crumbs(self, line: Line, look: Palette) -> None:
        """The run's state, and for how long."""
        state = self.feed.state
        summary = state.summary
        word = WORDS.get(summary, summary).upper()
        line.gap(3).put(self.glyphs.state(summary), look.state(summary)).gap(1)
        line.put(word, look.state(summary) + Style(bold=True))
        if state.attempts > 1:
            line.gap(2).put(f"attempt {state.attempt} of {state.attempts}", look.muted)
        if state.restarts:
            line.gap(2).put(f"{len(state.restarts)} restart{'s' * (len(state.restarts) != 1)}", look.muted)
        if summary == "launching" and state.phase:
            line.gap(2).put(state.phase, look.muted).gap(1).put(state.detail[:40], look.faint)
        elif (began := self.feed.started) is not None:
            told = state.ended.took if state.ended is not None and not state.adopted else 0.0
            took = told if told > 0 else self.feed.now - began
            line.gap(2).put(("after " if state.ended is not None else "") + span(took), look.muted)

    def headline(self, line: Line, look: Palette) -> None:
        """Ranks, step, speed, loss: as many as fit, the first ones first."""
        wide = self.size.width
        if self.merged_only:
            merged = self.feed.merged
            line.put("folded  " if merged.fold else "", look.muted).put(f"{len(merged.groups):,}", look.bold)
            line.put(" of ", look.muted).put(f"{merged.members:,}", look.bold).put(" lines shown", look.muted)
            return
        total = len(self.feed.placed)
        running = started(self.feed.state)
        if not self.feed.over:
            line.put(running, look.bold).put(f" of {total}", look.muted)
            line.put(" ranks" if wide >= 110 else "", look.muted)
        elif self.feed.state.ended is not None and wide >= 110:
            line.put("logs drained to the end" if self.feed.state.summary != "unknown" else "", look.muted)
        for words in self._progress_words(look, wide):
            line.gap(4 if wide >= 110 else 2).add(words)

    def _progress_words(self, look: Palette, wide: int) -> list[Line]:
        progress = self.feed.progress
        if progress is None or progress.last is None or wide < 70:
            return []
        found: list[Line] = []
        step, total = progress.value("step"), progress.value("total") or progress.value("steps")
        if step is not None:
            words = Line().put("last step " if self.feed.over else "step ", look.muted).put(f"{step:,.0f}", look.bold)
            found.append(words.put(f" of {total:,.0f}" if total and wide >= 110 else "", look.muted))
        speed = progress.seconds_per_step()
        if speed is not None and wide >= 110 and not self.feed.over:
            rate = (f"{speed:.2f}", " s/it") if speed >= 0.5 else (f"{1 / speed:.1f}", " it/s")
            found.append(Line().put(rate[0], look.bold).put(rate[1], look.muted))
        name = self._loss_name()
        if name is not None:
            found.append(Line().put(f"{name} ", look.muted).put(loss_plot.shown(progress.value(name) or 0), look.bold))
        return found

    def _loss_name(self) -> str | None:
        """The group that is plotted: the loss, else the first that is no count."""
        progress = self.feed.progress
        if progress is None or progress.last is None:
            return None
        return figure_name(progress.last.values)

    def _banner(self, width: int, height: int) -> list[Line]:
        failure = self.feed.state.failure
        if failure is None:
            return []
        _, gpus = self.feed.placed.get(failure.rank if failure.rank is not None else -1, (None, ()))
        where = f"GPU {','.join(map(str, gpus))}" if gpus else ""
        return failure_banner.banner_lines(
            self.look, self.glyphs, failure, width, height, gpus=where, again=self.feed.over
        )

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
                    trouble=any(r.tone == "wrong" for r in mine),
                )
            )  # fmt: skip
        return made

    def _narrow(self, width: int, height: int) -> list[Line]:
        return run_strip.narrow_lines(self.look, self.glyphs, self._hosts(), width, height)

    def _strip(self, width: int, height: int) -> list[Line]:
        full = self.folded is not None and self.folded.history
        return run_strip.strip_lines(self.look, self.glyphs, self._hosts(), width, height, self._strip_end(), full=full)

    def _strip_end(self) -> Line:
        """What the data goes over; after the end, whether the promise was kept."""
        ended, look = self.feed.state.ended, self.look
        if ended is not None and ended.outcome != "detached":
            if ended.leftovers:
                return Line().put(f"{len(ended.leftovers)} things are left on hosts", look.watch)
            hosts = len(self.live.plan.hosts)
            where = {1: " on the host", 2: " on either host"}.get(hosts, f" on {hosts} hosts")
            return Line().put("nothing of this run is left", look.good).put(where, look.muted)
        return Line().put(run_strip.fabric_words(self.live.plan.networks), look.muted)

    def _loss(self, width: int, height: int) -> list[Line]:
        name, progress = self._loss_name(), self.feed.progress
        if name is None or progress is None:
            return []
        return loss_plot.plot_lines(self.look, self.glyphs, name, progress.series(name), width - 1, height)

    def _timeline(self, width: int, height: int) -> list[Line]:
        state = self.feed.state
        if state.failure is None or failed_at(state) is None:
            return timeline.timeline_lines(
                self.look, self.glyphs, self.moments, width, height, "", head="What went wrong"
            )
        ended = sum(not r.live for r in state.ranks.values()) - (state.failure.rank is not None)
        who = state.failure.who or "the launcher"
        words = f"{ended} rank{'s' * (ended != 1)} ended because of {who}" if ended > 0 else f"after {who} failed"
        return timeline.timeline_lines(self.look, self.glyphs, self.moments, width, height, words)

    def _compare(self, width: int, height: int) -> list[Line]:
        merged = self.full_merged
        return compare.compare_lines(
            self.look, self.glyphs, merged.merged.groups, merged.group, list(self.feed.placed), width, height
        )

    def _state(self, width: int, height: int) -> list[Line]:
        look, pane = self.look, self.pane
        parts = [("follow", "end" if self.feed.over and pane.follow else "on" if pane.follow else "off")]
        if isinstance(pane, MergedPane):
            parts.append(("fold", "on" if pane.merged.fold else "off"))
            parts.append(("clock", "corrected, 500 ms window" if pane.merged.timed else "none, by line number"))
            only = self.only_text if pane.filter is not None else ""
        else:
            assert isinstance(pane, LogPane)
            only = self.only_text if pane.view is not None and pane.view.filter is not None else ""
            parts += [("wrap", "on" if pane.wrap else "off"), ("time", "ours" if pane.times else "off")]
        parts += [("since", since_words(pane.since)), ("filter", only or "none")]
        parts += [("search", self.search_text)] if self.search_text else []
        parts += [("strip", self.strip_mode)] if self.strip_mode != "auto" else []
        count, size = self.feed.totals()
        lines = f"{count:,} line{'s' * (count != 1)}"
        end = Line().put(lines, look.muted).gap(3).put(size_words(size), look.muted).gap(1)
        gap, room = 3 if width >= 100 else 2, width - end.width - 2
        while parts and sum(len(name) + len(value) + 1 + gap for name, value in parts) > room:
            quiet = [part for part in parts if part[1] in QUIET]
            parts.remove(quiet[-1] if quiet else parts[-1])
        line = Line().gap(1)
        for name, value in parts:
            line.put(name, look.faint).gap(1).put(value, look.muted if value in QUIET else look.text).gap(gap)
        return [line.ends_with(end, width)]

    # Keys.

    def offers(self, action: Action) -> bool:
        """See View: a run that lives can be stopped, one that has ended can run again."""
        over, merged, failed = self.feed.over, isinstance(self.pane, MergedPane), self.feed.state.failure is not None
        now = {
            **dict.fromkeys(("rerun", "prune"), over),
            **dict.fromkeys(("evidence", "copy_report"), failed),
            **dict.fromkeys(("next_error", "only", "zoom"), not failed),
            "stop": not over,
            "fold": merged,
            "unfold": merged or failed,
            "panes": not self.merged_only and not failed,
            "next_match": failed or bool(self.search_text),
        }
        return now.get(action.id, True)

    def action_strip(self) -> None:
        """GPUs and network in other sizes."""
        self.strip_mode = STRIPS[(STRIPS.index(self.strip_mode) + 1) % len(STRIPS)]
        self.fold_screen()
        for name in ("#strip", "#state"):
            self.query_one(name, Painted).repaint()

    def action_fold(self) -> None:
        """Fold equal lines of the merged log, or show each."""
        self.feed.merged = self.feed.merged.refolded(fold=not self.feed.merged.fold)
        for pane in (self.full_merged, self.grid.merged):
            pane.show(self.feed.merged)
        self.panes_changed()

    async def action_back(self) -> None:
        """One thing after the other."""
        if self.search_text:
            self.set_search("")
        elif self.only_text:
            self.set_only("")
        elif self.zoomed:
            self.action_zoom()
        elif self.merged_only:
            self.action_merged()
        else:
            await self.app.run_action("app.back")
        self.panes_changed()

    def on_pane_at_top(self, event: Pane.AtTop) -> None:
        """The first row of the merged log was asked for: read further back."""
        event.stop()
        if isinstance(event.pane, MergedPane) and not self.feed.merged.from_start:
            self.feed.merged = self.feed.merged.earlier()
            for pane in (self.full_merged, self.grid.merged):
                pane.show(self.feed.merged)
            app_of(self).tell("reading further back")

    def action_stop(self) -> None:
        """Stop the run, after a question."""
        self.work(run_change.stop(self, self.live), name="stop", group="change")

    def action_kill(self) -> None:
        """Kill the run, after a question."""
        self.work(run_change.kill(self, self.live), name="kill", group="change")

    def action_rerun(self) -> None:
        """Run it again, after a question."""
        self.work(run_change.rerun(self, self.live), name="rerun", group="change")

    def action_prune(self) -> None:
        """Remove the run, after a question."""
        self.work(self._prune(), name="prune", group="change")

    async def _prune(self) -> None:
        plan, ended = self.live.plan, self.live.state.ended
        if ended is None or ended.outcome == "detached":
            app_of(self).tell(f"{plan.run_id} still runs; S stops it", level="warning")
        elif await run_change.prune(self, plan.run_id, plan.hosts):
            await self.app.run_action("app.back")
