"""What the run view does about failures: to the line that says why, from one failed rank to the next, evidence."""

from __future__ import annotations

import asyncio
import re
from typing import ClassVar

from distui.cluster.backend.values import LiveRun
from distui.runs.lines.severity import headline_of
from distui.runs.report.rank_rows import suspects
from distui.runs.report.text import evidence, failed_ranks, last_lines, report
from distui.tui.frame.actions import Action
from distui.tui.frame.base import View
from distui.tui.frame.context import app_of
from distui.tui.frame.parts import Part
from distui.tui.logs.log_pane import LogPane
from distui.tui.logs.search import TROUBLE, LogView, find, pattern_of, read_on
from distui.tui.run.panes.pane_grid import MOST
from distui.tui.run.panes.panes import Panes


class FailureNavigator(Part):
    """Goes through the ranks that failed or hold others up, in the panes of a run view, and tells of them as a text."""

    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("jump", "to the failure", ("enter",), "Logs", "failure", help="To the line that says why it failed."),
        Action("pin", "failed ranks", ("A",), "Logs", "failed", help="Put every rank that failed into a pane."),
        Action(
            "evidence", "evidence", ("d",), "Logs", "evidence", footer=True,
            help="Exit code, signal, memory, last lines and cause of every rank, and what followed.",
        ),
        Action(
            "copy_report", "copy report", ("y",), "Logs", "report", footer=True,
            help="The failure as a text to pass on, into the clipboard; `distui show RUN --report` prints it.",
        ),
    )  # fmt: skip

    def __init__(self, view: View, live: LiveRun, panes: Panes) -> None:
        self.view = view
        self.live = live
        self.panes = panes
        self._shown = False
        """Whether a run that has failed was shown at its failure."""
        self._gone_to: int | None = None
        """The rank that was gone to last because it failed or is to be looked at."""

    @property
    def failed(self) -> list[int]:
        """Ranks that failed by themselves, the first failure first."""
        return failed_ranks(self.live.state)

    @property
    def suspects(self) -> list[int]:
        """The ranks to go to one after the other: those that failed, else those that hold up or are behind."""
        return self.failed or suspects(self.panes.ranks.ranks.values())

    @property
    def more(self) -> bool:
        """Whether there is a rank to go to but the one that is shown."""
        return self.suspects not in ([], [self.panes.log_pane.rank])

    def show_failed(self, rank: int) -> None:
        """A failed rank in the pane it has, else in the active one, at its own last words."""
        self._gone_to = rank
        self.panes.leave_merged()
        pane = self.panes.pane_of(rank) or self.panes.log_pane
        self.panes.show_rank(rank, pane)
        self.panes.ranks.go(rank)
        self.panes.activate(pane)
        self.view.work(self._blame(pane, self._words_of(rank)), name="blame", group="find")

    def _words_of(self, rank: int) -> str:
        """What the failure of this rank was said to be; empty when only its log knows."""
        failure = self.live.state.failure
        return headline_of(failure).strip() if failure is not None and failure.rank == rank else ""

    def show(self, rank: int) -> None:
        """A rank in a pane; one that failed at the line that says why."""
        if rank in self.failed:
            self.show_failed(rank)
        else:
            self.panes.put(rank)

    def command_number(self, rank: int) -> None:
        """`:13` goes to a rank."""
        placed = self.panes.feed.placed
        if rank not in placed:
            app_of(self.view).tell(f"there is no rank {rank}; they go from 0 to {max(placed, default=0)}")
            return
        self.panes.ranks.go(rank)
        self.show(rank)

    def over(self) -> None:
        """A run that has failed, once: the rank to blame alone, at its line; not when somebody is reading."""
        if self._shown or self.live.state.failure is None:
            return
        self._shown = True
        if all(pane.follow for pane in self.panes.visible) and not self.panes.merged_only:
            self.panes.grid.wanted = 1
            self.panes.grid.fit()
            self.panes.activate(self.panes.grid.logs[0])
            self.action_jump()

    def action_jump(self) -> None:
        """To the line that says what failed first."""
        failure = self.live.state.failure
        if failure is None:
            return
        if failure.rank is not None and failure.rank in self.panes.feed.buffers:
            self.show_failed(failure.rank)
            return
        self.panes.leave_merged()
        pane = self.panes.log_pane
        self.panes.show_words(self.panes.feed.launcher(failure.host), pane)
        self.panes.activate(pane)
        self.view.work(self._blame(pane, headline_of(failure).strip()), name="blame", group="find")

    async def _blame(self, pane: LogPane, message: str) -> None:
        """Find a failure's words in its log, from the end; without words its last line that looks like trouble."""
        view = pane.view
        if view is None:
            return
        await read_on(view)
        line = await _said(view, message) if message else await find(view.buffer, TROUBLE, view.buffer.count, -1)
        if pane.view is not view:
            return
        if line is None:
            pane.set_follow(True)
        else:
            pane.blame(line)
        self.panes.changed()

    def step(self, step: int) -> None:
        """To the next rank to look at, or with -1 to the one before; to the worst first, also where a pane has it."""
        found, here = self.suspects, self.panes.log_pane.rank
        at = found.index(here) + step if here in found and here == self._gone_to else 0
        rank = self._gone_to = found[at % len(found)]
        self.command_number(rank)
        if len(found) == 1:
            only = "that failed by itself" if self.failed else "to look at"
            app_of(self.view).tell(f"it is the only rank {only}")

    def action_pin(self) -> None:
        """Every rank that failed by itself into a pane, the first failure first."""
        failed = self.failed
        if not failed:
            app_of(self.view).tell("no rank has failed")
            return
        self.panes.leave_merged()
        grid = self.panes.grid
        grid.wanted, grid.with_merged = min(len(failed), MOST), False
        grid.fit()
        panes = grid.log_panes
        for rank, pane in zip(failed, panes, strict=False):
            self.panes.show_rank(rank, pane)
            self.view.work(self._blame(pane, self._words_of(rank)), name=f"blame {rank}", alone=False)
        self.panes.activate(panes[0])
        if len(failed) > len(panes):
            app_of(self.view).tell(f"{len(panes)} of {len(failed)} failed ranks have a pane; n goes to the next one")

    # The text.

    def action_evidence(self) -> None:
        """All that is known of every rank's end, as a text."""
        self.view.work(self._evidence(), name="evidence")

    async def _evidence(self) -> None:
        live = self.live
        tails = await asyncio.to_thread(last_lines, live.stored, live.plan, live.mask)
        text = evidence(live.plan, live.state, tails, str(live.stored.log_dir))
        if self.view.is_active:
            app_of(self.view).open_text(f"{live.plan.run_id} evidence", text)

    def action_copy_report(self) -> None:
        """The report into the clipboard."""
        self.view.work(self._copy_report(), name="report")

    async def _copy_report(self) -> None:
        live = self.live
        failure = live.state.failure
        ranks = [failure.rank] if failure is not None and failure.rank is not None else []
        tails = await asyncio.to_thread(last_lines, live.stored, live.plan, live.mask, ranks)
        app_of(self.view).copy(report(live.plan, live.state, tails, str(live.stored.log_dir)))


async def _said(view: LogView, message: str) -> int | None:
    """The last line with these words, or with their beginning."""
    for text in (message, message[:60]):
        line = await find(view.buffer, pattern_of(re.escape(text)), view.buffer.count, -1)
        if line is not None:
            return line
    return None
