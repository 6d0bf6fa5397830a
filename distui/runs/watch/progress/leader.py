"""The progress of a run, read as its ranks print: of the one that leads, and who that is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from distui.plan.model import Task
from distui.runs.lines.events import Event, LogLine, Notice, Progressed
from distui.runs.state.leading import LeadingRank
from distui.runs.state.progress import ProgressTeller, given_up_words
from distui.runs.store.logs import Written
from distui.runs.watch.tracker import RunTracker


class ProgressWatch:
    """Takes in what ranks print, tells the progress of the run; nothing where the job does not say how to read it."""

    def __init__(self, tracker: RunTracker, emit: Callable[[Event], Awaitable[None]]) -> None:
        self._tracker = tracker
        self._emit = emit
        self._tasks = {rank: task for task in tracker.plan.tasks for rank in task.ranks}
        regex = tracker.plan.progress
        self._leading = LeadingRank(regex, min(self._tasks, default=0)) if regex else None
        self._teller: ProgressTeller | None = None

    async def take(self, group: Written) -> None:
        """What a rank said."""
        if self._leading is None or group.rank is None or group.rank not in self._tasks:
            return
        now = self._tracker.clock()
        if self._leading.may_be(group.rank) and self._leading.hear(group.rank, group.lines, now):
            await self._look(self._leading, group.rank, len(group.lines))
        if self._teller is not None and self._teller.rank == group.rank:
            await self._read(self._teller, group.lines)

    async def time_passed(self) -> None:
        """Tell what waited for its second to be over: whoever says nothing more stands at its last step, not at one
        before.
        """
        if self._leading is not None and self._leading.due(self._tracker.clock()):
            await self._look(self._leading)
        if self._teller is not None:
            await self._tell(self._teller.due(self._tracker.clock()))

    async def drained(self, task: Task | None = None) -> None:
        """A task is read to its end, or the run is left: nobody waits for the next second."""
        if self._leading is not None:
            await self._look(self._leading)
        if self._teller is not None and (task is None or self._teller.rank in task.ranks):
            await self._tell(self._teller.tell(self._tracker.clock()))

    async def _look(self, leading: LeadingRank, speaks: int | None = None, said: int = 0) -> None:
        """Whether another rank leads from now on; its lines are read but for the last `said`, which the one that
        speaks says just now.
        """
        lines, saved = leading.look(self._tracker.clock())
        if leading.rank is not None and (self._teller is None or self._teller.rank != leading.rank):
            self._teller = self._teller_of(leading.rank)
            before = lines if leading.rank != speaks else lines[: max(0, len(lines) - said)]
            if before:
                await self._read(self._teller, before)
        if self._teller is not None:
            for found in saved:
                self._teller.saved(found, self._tracker.clock())
        await self._give_up(leading.given_up)

    def _teller_of(self, rank: int) -> ProgressTeller:
        return ProgressTeller(self._tracker.plan.progress or "", rank, self._tasks[rank].host, before=self._teller)

    async def _read(self, teller: ProgressTeller, lines: Sequence[LogLine]) -> None:
        now, host = self._tracker.clock(), self._tasks[teller.rank].host
        teller.offset = self._tracker.offset_ms(host) / 1000
        for earlier in teller.earlier(lines, now):
            await self._emit(earlier)
        await self._tell(teller.take(lines, now))
        for words in teller.odd():
            await self._warn(f"rank {teller.rank}: {words}", host)
        await self._give_up(teller.given_up)

    async def _give_up(self, why: str) -> None:
        if why and self._leading is not None:
            self._leading = self._teller = None
            await self._warn(given_up_words(why))

    async def _warn(self, words: str, host: str | None = None) -> None:
        await self._emit(Notice(self._tracker.clock(), "warning", words, host))

    async def _tell(self, progress: Progressed | None) -> None:
        if progress is not None:
            await self._emit(progress)
