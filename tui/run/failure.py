"""What the run view does about failures: to the line that says why, from one failed rank to the next, evidence."""

from __future__ import annotations

import asyncio
import re
from typing import ClassVar

from textual import on
from textual.events import Click

from distui.runs.lines.severity import headline_of
from distui.runs.report.text import evidence, failed_ranks, last_lines, report
from distui.tui.frame.actions import Action
from distui.tui.frame.context import app_of
from distui.tui.logs.log_pane import LogPane
from distui.tui.logs.search import TROUBLE, LogView, find, pattern_of, read_on
from distui.tui.run.pane_grid import MOST
from distui.tui.run.panes import PaneKeys


class FailureKeys(PaneKeys):
    """The part of the run view that is about ranks that failed."""

    FAILURE_ACTIONS: ClassVar[tuple[Action, ...]] = (
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

    def put(self, rank: int) -> None:
        """See PaneKeys; a rank that failed is shown at the line that says why."""
        if rank in failed_ranks(self.feed.state):
            self.show_failed(rank)
        else:
            super().put(rank)

    def show_failed(self, rank: int) -> None:
        """A failed rank in the pane it has, else in the active one, at its own last words."""
        self._leave_merged()
        pane = next((p for p in self.grid.log_panes if p.rank == rank), None) or self._log_pane()
        self.show_rank(rank, pane)
        self.ranks.go(rank)
        self.activate(pane)
        self.work(self._blame(pane, self._words_of(rank)), name="blame", group="find")

    @on(Click, "#banner")
    def on_banner_click(self, event: Click) -> None:
        """A click on the banner goes to the line, unless it is on a key's word."""
        if "@click" not in event.style.meta:
            self.action_jump()

    def _words_of(self, rank: int) -> str:
        """What the failure of this rank was said to be; empty when only its log knows."""
        failure = self.feed.state.failure
        return headline_of(failure).strip() if failure is not None and failure.rank == rank else ""

    def action_jump(self) -> None:
        """To the line that says what failed first."""
        failure = self.feed.state.failure
        if failure is None:
            return
        if failure.rank is not None and failure.rank in self.feed.buffers:
            self.show_failed(failure.rank)
            return
        self._leave_merged()
        pane = self._log_pane()
        self.show_words(self.feed.launcher(failure.host), pane)
        self.activate(pane)
        self.work(self._blame(pane, headline_of(failure).strip()), name="blame", group="find")

    async def _blame(self, pane: LogPane, words: str) -> None:
        """Find a failure's words in its log, from the end; without words its last line that looks like trouble."""
        view = pane.view
        if view is None:
            return
        await read_on(view)
        line = await _said(view, words) if words else await find(view.buffer, TROUBLE, view.buffer.count, -1)
        if pane.view is not view:
            return
        if line is None:
            pane.set_follow(True)
        else:
            pane.blame(line)
        self.panes_changed()

    def action_next_match(self) -> None:
        """See LogKeys; without a search the next rank that failed."""
        failed = failed_ranks(self.feed.state)
        if self.search_text or not failed:
            super().action_next_match()
        else:
            self._step_failure(failed, 1)

    def action_previous_match(self) -> None:
        """See LogKeys; without a search the failed rank before."""
        failed = failed_ranks(self.feed.state)
        if self.search_text or not failed:
            super().action_previous_match()
        else:
            self._step_failure(failed, -1)

    def _step_failure(self, failed: list[int], step: int) -> None:
        pane = self._log_pane()
        at = failed.index(pane.rank) + step if pane.rank in failed else 0
        rank = failed[at % len(failed)]
        self.show_failed(rank)
        if len(failed) == 1:
            app_of(self).tell("it is the only rank that failed by itself")

    def title_of(self, action: Action) -> str:
        """See View: `n` goes to the next failure while nothing is searched."""
        failures = action.id == "next_match" and not self.search_text and failed_ranks(self.feed.state)
        return "next failure" if failures else super().title_of(action)

    def action_pin(self) -> None:
        """Every rank that failed by itself into a pane, the first failure first."""
        failed = failed_ranks(self.feed.state)
        if not failed:
            app_of(self).tell("no rank has failed")
            return
        self._leave_merged()
        grid = self.grid
        grid.wanted, grid.with_merged = min(len(failed), MOST), False
        grid.fit()
        panes = grid.log_panes
        for rank, pane in zip(failed, panes, strict=False):
            self.show_rank(rank, pane)
            self.work(self._blame(pane, self._words_of(rank)), name=f"blame {rank}", alone=False)
        self.activate(panes[0])
        if len(failed) > len(panes):
            app_of(self).tell(f"{len(panes)} of {len(failed)} failed ranks have a pane; n goes to the next one")

    # The text.

    def action_evidence(self) -> None:
        """All that is known of every rank's end, as a text."""
        self.work(self._evidence(), name="evidence")

    async def _evidence(self) -> None:
        live = self.live
        tails = await asyncio.to_thread(last_lines, live.stored, live.plan)
        text = evidence(live.plan, live.state, tails, str(live.stored.log_dir))
        app_of(self).open_text(f"{live.plan.run_id} evidence", text)

    def action_copy_report(self) -> None:
        """The report into the clipboard."""
        self.work(self._report(), name="report")

    async def _report(self) -> None:
        live = self.live
        failure = live.state.failure
        ranks = [failure.rank] if failure is not None and failure.rank is not None else []
        tails = await asyncio.to_thread(last_lines, live.stored, live.plan, ranks)
        app_of(self).copy(report(live.plan, live.state, tails, str(live.stored.log_dir)))


async def _said(view: LogView, words: str) -> int | None:
    """The last line with these words, or with their beginning."""
    for text in (words, words[:60]):
        line = await find(view.buffer, pattern_of(re.escape(text)), view.buffer.count, -1)
        if line is not None:
            return line
    return None
