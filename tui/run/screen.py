"""One run: its ranks, their logs side by side or merged, what failed first and what followed, GPUs and network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.events import Click, Resize

from distui.cluster.backend.values import LiveRun
from distui.runs.lines.events import Event, HostSampled, LogLines
from distui.runs.report.aftermath import aftermath, troubles
from distui.tui.frame.actions import Action, bindings
from distui.tui.frame.context import app_of
from distui.tui.logs.log_pane import LogPane
from distui.tui.logs.merged_pane import MergedPane
from distui.tui.logs.pane import Pane
from distui.tui.logs.pump import HZ, Pump
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette
from distui.tui.run import change as run_change
from distui.tui.run import failure_banner, timeline
from distui.tui.run import strip as run_strip
from distui.tui.run.failure import FAILURE_ACTIONS, FailureNavigator
from distui.tui.run.fold import Wanted, fold
from distui.tui.run.painting import RunPainter
from distui.tui.run.pane_grid import PaneGrid
from distui.tui.run.panes import PaneKeys
from distui.tui.run.rank_list import RankList
from distui.tui.widgets.painted import Painted

STRIPS = ("auto", "off", "compact", "full")
SLOW_S = 0.5
"""How often figures and ages are painted again."""
STALE_S = 0.2
"""How soon after the last time news of states are painted."""


class RunScreen(PaneKeys):
    """The run view. It shows a followed or a recorded run and may ask it to stop; it never owns it."""

    VIEW = "runs"
    ACTIONS: ClassVar[tuple[Action, ...]] = (
        *PaneKeys.LOG_ACTIONS,
        *PaneKeys.PANE_ACTIONS,
        *FAILURE_ACTIONS,
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
        self.painter = RunPainter(self)
        self.failures = FailureNavigator(self)
        self.pump = Pump(lambda: self.visible_panes)
        self._autopsied = False
        self._ticks = 0
        self._ticked = 0.0
        self._stale = False
        self._painted: list[Painted] = []

    @property
    def crumbs(self) -> tuple[str, ...]:
        """See View."""
        path = ("Runs", self.live.plan.run_id)
        return (*path, "merged log") if self.merged_only else path

    def after_crumbs(self, line: Line, palette: Palette) -> None:
        """See View: the run's state, and for how long."""
        self.painter.after_crumbs(line, palette)

    def headline(self, line: Line, palette: Palette) -> None:
        """See View: ranks, step, speed, loss."""
        self.painter.headline(line, palette)

    def compose_body(self) -> ComposeResult:
        """See View."""
        yield Painted(self.painter.banner, id="banner")
        yield Painted(self.painter.narrow, id="narrow")
        with Horizontal(id="mid"):
            with Vertical(id="side"):
                yield RankList()
                yield Painted(self.painter.loss, id="loss")
            with Vertical(id="logs"):
                yield PaneGrid()
                yield Painted(self.painter.timeline, id="timeline")
        yield MergedPane(0, id="merged")
        yield Painted(self.painter.compare, id="compare")
        yield Painted(self.painter.strip, id="strip")
        yield Painted(self.painter.state, id="state")

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
        if self.closing:
            return
        self.feed.take(batch)
        for pane in self.visible_panes:
            if isinstance(pane, MergedPane) or (isinstance(pane, LogPane) and pane.rank in self.feed.grown):
                pane.dirty = True
        self.feed.grown.clear()
        self._stale = self._stale or not all(isinstance(event, LogLines | HostSampled) for event in batch)

    def _pump(self) -> None:
        """Fifty times a second: one pane, and news that are not logs at most five times."""
        if self.closing:
            return
        self.pump.tick()
        if self._stale and self.pump.clock() - self._ticked >= STALE_S:
            self._tick()

    def _tick(self) -> None:
        """Everything but the logs: figures, ages, states; twice a second."""
        if self.closing:
            return
        state = self.feed.state
        self._ticks, self._ticked, self._stale = self._ticks + 1, self.pump.clock(), False
        self.painter.moments = aftermath(state) or troubles(state)
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

    def _autopsy(self) -> None:
        """A run that has failed: the rank to blame alone, at its line; not when somebody is reading."""
        if all(pane.follow for pane in self.visible_panes) and not self.merged_only:
            self.grid.wanted = 1
            self.grid.fit()
            self.activate(self.grid.logs[0])
            self.failures.jump()

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
        """Share the rows again."""
        size = self.query_one("#body").size
        if not size.width:
            return
        hosts = len(self.live.plan.hosts)
        wanted = Wanted(
            banner=failure_banner.banner_rows(self.feed.state.failure, self.painter.warnings()),
            events=timeline.rows_wanted(self.painter.moments),
            hosts=hosts,
            ranks=1 + len(self.ranks.list.rows),
            loss=self.painter.loss_name() is not None,
            strip=self.painter.strip_mode,
            merged=self.merged_only,
            zoomed=self.zoomed,
        )
        folded = fold(size.width, size.height, wanted)
        if (folded, self.merged_only) == (self.painter.folded, not self.query_one("#mid").display):
            return
        self.painter.folded = folded
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

    def title_of(self, action: Action) -> str:
        """See View: `n` goes to the next failure while nothing is searched."""
        failures = action.id == "next_match" and not self.search_text and self.failures.failed
        return "next failure" if failures else super().title_of(action)

    def put(self, rank: int) -> None:
        """See PaneKeys; a rank that failed is shown at the line that says why."""
        if rank in self.failures.failed:
            self.failures.show_failed(rank)
        else:
            super().put(rank)

    @on(Click, "#banner")
    def on_banner_click(self, event: Click) -> None:
        """A click on the banner goes to the line, unless it is on a key's word."""
        if "@click" not in event.style.meta:
            self.failures.jump()

    def action_jump(self) -> None:
        """To the line that says what failed first."""
        self.failures.jump()

    def action_next_match(self) -> None:
        """See LogKeys; without a search the next rank that failed."""
        if self.search_text or not self.failures.failed:
            super().action_next_match()
        else:
            self.failures.step(1)

    def action_previous_match(self) -> None:
        """See LogKeys; without a search the failed rank before."""
        if self.search_text or not self.failures.failed:
            super().action_previous_match()
        else:
            self.failures.step(-1)

    def action_pin(self) -> None:
        """Every rank that failed by itself into a pane."""
        self.failures.pin()

    def action_evidence(self) -> None:
        """All that is known of every rank's end, as a text."""
        self.work(self.failures.evidence(), name="evidence")

    def action_copy_report(self) -> None:
        """The report into the clipboard."""
        self.work(self.failures.copy_report(), name="report")

    def action_strip(self) -> None:
        """GPUs and network in other sizes."""
        self.painter.strip_mode = STRIPS[(STRIPS.index(self.painter.strip_mode) + 1) % len(STRIPS)]
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
