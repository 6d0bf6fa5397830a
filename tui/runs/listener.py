"""What a run says that nobody of this machine follows: its first rank's last line, asked for at its host."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from distui.runs.hosts.discover import FoundTask
from distui.runs.report.history import RunRow
from distui.tui.frame.base import View
from distui.tui.frame.context import app_of

EVERY_S = 10.0
"""How often a host is asked while the cursor is on the run."""


class Listener:
    """Asks one host at a time, through the connections that are there; nothing is followed, written or started."""

    def __init__(self, view: View, clock: Callable[[], float] = time.monotonic) -> None:
        self.view = view
        self.clock = clock
        self._heard: dict[str, str] = {}
        self._asked: dict[str, float] = {}
        self._asking = False

    def heard(self, row: RunRow) -> str:
        """What it said when it was asked last; empty for a run that is followed, or over."""
        return self._heard.get(row.run, "") if row.live and row.run not in self.view.backend.following else ""

    def listen(self, row: RunRow | None) -> None:
        """Ask, where it is due."""
        if row is None or not row.live or self._asking or row.run in self.view.backend.following:
            return
        task = self._first(row)
        if task is None or self.clock() - self._asked.get(row.run, -EVERY_S) < EVERY_S:
            return
        self._asking = True
        self.view.work(self._ask(row, task), name="last line", alone=False)

    def _first(self, row: RunRow) -> FoundTask | None:
        """The task with the first rank, of those that run."""
        found = app_of(self.view).found.get(row.run, row.launch)
        running = [task for task in found.tasks if task.running] if found is not None else []
        return min(running, key=lambda task: task.labels.ranks, default=None)

    async def _ask(self, row: RunRow, task: FoundTask) -> None:
        try:
            stored = self.view.backend.stored(row.run) if row.recorded else None
            if stored is None or not await asyncio.to_thread(lambda: stored.is_followed):
                self._heard[row.run] = await self.view.backend.last_line(task)
            else:
                self._heard.pop(row.run, None)  # whoever follows it writes its log here
        finally:
            self._asking = False
            self._asked[row.run] = self.clock()
        if not self.view.closing:
            self.view.query_one("#preview").refresh()
