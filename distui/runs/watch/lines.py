"""What the tasks of a run print: to the files and their checkpoints first, then as events, progress and remarks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from distui.runs.follow.followed import Records
from distui.runs.follow.resume import ResumePoint
from distui.runs.lines.events import Event, LogLines
from distui.runs.store.logs import Written
from distui.runs.watch.full_disk import DiskFullRetry
from distui.runs.watch.network import NetworkWatch
from distui.runs.watch.progress import restarts
from distui.runs.watch.progress.leader import ProgressWatch
from distui.runs.watch.said_secrets import SaidSecrets
from distui.runs.watch.track import TaskTrack
from distui.runs.watch.tracker import RunTracker

OFTEN, SELDOM, NOTES = 1.0, 10.0, 16
"""Seconds between two notes of how far a task's log was read: so many notes a second for all tasks together, since each
is a new file, but not more often and not less. What came since is read again by who goes on after a crash.
"""
DRAWN = 1.0
"""Seconds between two looks at a line of a task that has no newline yet."""


class WatchedLines:
    """Takes in what tasks print."""

    def __init__(
        self, tracker: RunTracker, emit: Callable[[Event], Awaitable[None]], network: NetworkWatch | None = None
    ) -> None:
        self._tracker = tracker
        self._emit = emit
        self._network = network
        self.room = DiskFullRetry(tracker, emit)
        self._secrets = SaidSecrets(tracker.clock, emit)
        self.progress = ProgressWatch(tracker, emit)

    async def records(self, track: TaskTrack, event: Records) -> None:
        """Write what a task printed, show it, and now and then note how far its log was read."""
        await self._show(track, track.log.feed(event.batch))
        await self._drawn(track)
        track.unsaved = event.resume
        now = self._tracker.clock()
        every = min(SELDOM, max(OFTEN, len(self._tracker.tracks) / NOTES))
        if not 0 <= now - track.saved_at < every:  # a clock may be set back
            track.saved_at = now
            track.save()
        await self.room.look(track)

    async def end(self, track: TaskTrack) -> None:
        """Nothing more comes: an unfinished line is one now."""
        await self._show(track, track.log.flush())
        await self.room.look(track)

    async def drained(self, track: TaskTrack, resume: ResumePoint) -> None:
        """A task is read to its end."""
        await self.end(track)
        await self.progress.drained(track.task)
        track.unsaved = resume
        track.save()
        await self.room.look(track)

    async def time_passed(self) -> None:
        """Asked now and then: report what waited for it."""
        await self.progress.time_passed()
        await self._secrets.tell()

    async def left(self) -> None:
        """The run is not followed any more: report what was not yet."""
        await self.progress.drained()
        await self._secrets.tell(at_end=True)

    async def _show(self, track: TaskTrack, written: list[Written]) -> None:
        plan, clock = self._tracker.plan, self._tracker.clock
        track.remember(written)
        for event in restarts.restart_events(plan, track, written, clock()):
            await self._emit(event)
        for group in written:
            task = track.task
            if self._network is not None:
                self._network.heard(task.host, group.lines.data, clock())
            await self._emit(LogLines(clock(), task.index, group.rank, task.host, group.lines))
            await self._secrets.take(group.rank, group.hidden, task)
            await self.progress.take(group)

    async def _drawn(self, track: TaskTrack) -> None:
        """A part of a line is a sign of life, and what a progress bar shows counts as said: it ends late."""
        now = self._tracker.clock()
        if 0 <= now - track.looked_at < DRAWN or (part := track.log.drawn()) is None or part.rank is None:
            return
        track.looked_at = now
        await self._emit(LogLines(now, track.task.index, part.rank, track.task.host, ()))
        if part.lines and track.draws(part.rank, now, part.lines.data):
            await self.progress.take(part)
