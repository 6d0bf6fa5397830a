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
from distui.tui.frame.actions import Action, bindings
from distui.tui.frame.bars import Bar, FilterBar
from distui.tui.frame.base import View
from distui.tui.frame.context import app_of
from distui.tui.logs.feed import RunFeed
from distui.tui.logs.log_pane import LogPane
from distui.tui.logs.merged.pane import MergedPane
from distui.tui.logs.pane import Pane
from distui.tui.logs.pump import HZ, Pump
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette
from distui.tui.run.acts import RunActs
from distui.tui.run.around import strip
from distui.tui.run.around.folding import Folding
from distui.tui.run.around.hang import WhyPanel
from distui.tui.run.around.header import RunHeader
from distui.tui.run.around.painting import RunPainter
from distui.tui.run.panes.failure import FailureNavigator
from distui.tui.run.panes.log_copies import LogCopies
from distui.tui.run.panes.log_display import LogDisplay
from distui.tui.run.panes.log_search import LogSearch
from distui.tui.run.panes.pane_grid import PaneGrid
from distui.tui.run.panes.pane_layout import PaneLayout
from distui.tui.run.panes.panes import Panes
from distui.tui.run.panes.rank_order import RankOrder
from distui.tui.run.plots import MetricsPage
from distui.tui.run.ranks.rank_list import RankList
from distui.tui.run.state_row import StateRow
from distui.tui.widgets.painted import Painted

SLOW_S = 1.0
"""How often figures and ages are painted again."""
STALE_S = 0.2
"""How soon after the last time news of states are painted."""


class RunScreen(View):
    """The run view. It shows a followed or a recorded run and may ask it to stop; it never owns it.

    Here widgets, time and keys meet; what the keys do is done by `parts`, each of which knows one subject.
    """

    VIEW = "runs"
    PLACE = "One run"
    ACTIONS: ClassVar[tuple[Action, ...]] = (
        *LogSearch.ACTIONS,
        *LogDisplay.ACTIONS,
        *LogCopies.ACTIONS,
        *PaneLayout.ACTIONS,
        *FailureNavigator.ACTIONS,
        *Folding.ACTIONS,
        *RankOrder.ACTIONS,
        *WhyPanel.ACTIONS,
        *MetricsPage.ACTIONS,
        Action("back", "back", ("escape",), "Global", help="Undo search, filter, zoom and merged log, then go back."),
        *RunActs.ACTIONS,
    )
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIONS)
    DEFAULT_CSS = """
    RunScreen #mid { height: 1fr; width: 1fr; padding-right: 1; }
    RunScreen #side { height: 1fr; }
    RunScreen #merged { height: 1fr; width: 1fr; margin-right: 1; }
    RunScreen #banner { background: $dangerbg; }
    RunScreen #banner.-stands { background: $warnbg; }
    """

    def __init__(self, live: LiveRun) -> None:
        super().__init__()
        self.live = live
        self.feed = RunFeed(live)
        self.panes = Panes(self, self.feed, lambda: self.folding.fit())
        self.folding = Folding(self, self.feed, self.panes)
        self.failures = FailureNavigator(self, live, self.panes)
        self.why = WhyPanel(self, self.feed, self.failures)
        self.search = LogSearch(self, self.panes, self.failures)
        self.log_display = LogDisplay(self, self.panes)
        self.pane_layout = PaneLayout(self.panes)
        copies = LogCopies(self, live.plan.run_id, self.panes)
        self.acts = RunActs(self, live)
        self.parts = (
            self.search, self.log_display, copies, self.pane_layout, self.failures, self.folding, self.why,
            RankOrder(self, self.panes), MetricsPage(self, self.feed), self.acts,
        )  # fmt: skip
        self.header = RunHeader(self, self.feed, self.panes)
        self.painter = RunPainter(self, live, self.feed, self.panes, self.folding, self.why)
        self.state_row = StateRow(self, self.feed, self.panes, self.search, self.folding)
        self.pump = Pump(lambda: self.panes.visible)
        self._ticked = 0.0
        self._stale = False
        self._painted: list[Painted] = []

    @property
    def crumbs(self) -> tuple[str, ...]:
        """See View."""
        path = ("Runs", self.live.plan.run_id)
        return (*path, "merged log") if self.panes.merged_only else path

    def after_crumbs(self, line: Line, palette: Palette) -> None:
        """See View: the run's state, and for how long."""
        self.header.after_crumbs(line, palette)

    def headline(self, line: Line, palette: Palette) -> None:
        """See View: ranks, step, speed, loss."""
        self.header.headline(line, palette)

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
        yield Painted(self.state_row.lines, id="state")

    def on_mount(self) -> None:
        """Show what is known, then follow."""
        panes = self.panes
        for pane in panes.merged:
            pane.reader, pane.latest = self.feed.grow_merged, lambda: self.feed.merged
        panes.show_merged()
        panes.full_merged.full = True
        self._painted = list(self.query("#body Painted").results(Painted))
        for host in self.live.plan.hosts:
            known = self.feed.state.hosts.get(host)
            self.feed.seed(host, [known.sample] if known is not None and known.sample is not None else [])
        panes.fill()
        panes.ranks.launchers = {buffer.host: number for number, buffer in self.feed.launchers.items()}
        self._tick()
        self.folding.fit()
        panes.activate(panes.grid.logs[0])
        panes.focus_list()
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
        for pane in self.panes.visible:
            if isinstance(pane, MergedPane) or (isinstance(pane, LogPane) and pane.rank in self.feed.grown):
                pane.dirty = True
        self.feed.grown.clear()
        self._stale = self._stale or not all(isinstance(event, LogLines | HostSampled) for event in batch)

    def _pump(self) -> None:
        """Fifty times a second: one pane, else more of a long log; news that are not logs at most five times."""
        if self.closing:
            return
        if self.pump.tick() is None and self.feed.behind:
            self.feed.grow_progress()
        if self._stale and self.pump.clock() - self._ticked >= STALE_S:
            self._tick()

    def _tick(self) -> None:
        """Everything but the logs: figures, ages, states; once a second, and when there is news."""
        if self.closing:
            return
        self._ticked, self._stale = self.pump.clock(), False
        self.feed.recount()
        for pane in self.panes.visible:
            pane.dirty = True
        self.panes.now_is()
        self.panes.ranks.set_ranks(self.feed.rows(), strip.samples_of(self.feed.samples), self.panes.by_rank)
        self.folding.fit()
        self.query_one("#banner").set_class(self.why.stands, "-stands")
        if self.feed.over:
            self.failures.over()
            if self.is_current:
                labels = self.live.plan.own_labels
                app_of(self).looked_at.add((self.live.plan.run_id, labels.launch if labels else ""))
        for steady in (*self._painted, *self.query(Bar)):
            steady.refresh_changed()

    def on_screen_resume(self) -> None:
        """Its run may have been removed under what was over it."""
        self.acts.leave_removed()

    def on_resize(self, event: Resize) -> None:
        """Parts fold with the window."""
        self.call_after_refresh(self.folding.fit)

    # Keys, and what widgets say.

    def offers(self, action: Action) -> bool:
        """See View: a run that lives can be stopped, one that has ended can run again."""
        over, failed = self.feed.over, self.feed.state.failure is not None
        stuck = self.feed.stands is not None
        merged = isinstance(self.panes.active, MergedPane)
        now = {
            **dict.fromkeys(("rerun", "prune", "job"), over),
            **dict.fromkeys(("evidence", "copy_report"), failed),
            **dict.fromkeys(("next_error", "only", "zoom"), not (failed or stuck)),
            "stop": not over,
            "fold": merged,
            "unfold": merged or failed,
            "panes": not self.panes.merged_only and not failed and self.panes.grid.most > 1,
            "next_match": self.failures.more if self.search.by_rank else failed or bool(self.search.text),
        }
        return now.get(action.id, True)

    def title_of(self, action: Action) -> str:
        """See View: `n` goes to the next rank to look at while nothing is searched."""
        if action.id != "next_match" or not self.search.by_rank:
            return super().title_of(action)
        return "next failure" if self.failures.failed else "culprit"

    async def action_back(self) -> None:
        """One thing after the other."""
        if not self.search.undo() and not self.pane_layout.undo():
            await self.app.run_action("app.back")
        self.panes.changed()

    def on_filter_bar_changed(self, event: FilterBar.Changed) -> None:
        """What is typed is a search, or a filter of the active pane."""
        event.stop()
        event.prevent_default()
        self.search.typed(event.text, done=event.done)

    def on_rank_list_chosen(self, event: RankList.Chosen) -> None:
        """Enter on a rank: into the active pane."""
        event.stop()
        self.failures.show(event.rank)

    def on_rank_list_under(self, event: RankList.Under) -> None:
        """The cursor moved in the list: while nobody asked for more panes, the pane shows that rank."""
        event.stop()
        self.panes.look_at(event.rank)

    @on(Click, "#banner")
    def on_banner_click(self, event: Click) -> None:
        """A click on the banner goes to the line, or tells why it stands, unless it is on a key's word."""
        if "@click" in event.style.meta:
            return
        if self.why.stands:
            self.why.action_why()
        else:
            self.failures.action_jump()

    def on_pane_active(self, event: Pane.Active) -> None:
        """A pane was focused."""
        event.stop()
        self.panes.activate(event.pane)

    def on_pane_at_top(self, event: Pane.AtTop) -> None:
        """The first row of the merged log was asked for: read further back."""
        event.stop()
        if isinstance(event.pane, MergedPane):
            self.log_display.read_back()
