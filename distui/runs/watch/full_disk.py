"""When a disk here is full: logs that can't be written are let go of on their hosts, and read on once there is room."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from distui.runs.lines.events import Event, Notice
from distui.runs.watch.track import TaskTrack
from distui.runs.watch.tracker import RunTracker

FIRST_WAIT, LONGEST_WAIT = 0.5, 5.0
"""Seconds before the first try to write again, doubling up to the longest."""
CALM = 60.0
"""Seconds without trouble after which the first wait holds again: a disk that is nearly full is soon full once more."""
_LOOK = 0.2
"""Seconds between two looks for the run's end."""


class DiskFullRetry:
    """`run` it as a task while a run is followed, and have it `look` at a log after each write."""

    def __init__(self, tracker: RunTracker, emit: Callable[[Event], Awaitable[None]]) -> None:
        self._tracker = tracker
        self._emit = emit
        self._short = asyncio.Event()
        self._said: set[str] = set()
        self._wait = FIRST_WAIT

    async def look(self, track: TaskTrack) -> None:
        """Have its log let go of when it can't be written. Each reason is said once, until all is written again."""
        error = track.log.error
        if error is None or track.log.given_up or not track.room.is_set():
            return
        track.room.clear()
        self._short.set()
        words = error.strerror or str(error)
        if words not in self._said:
            self._said.add(words)
            until = "" if track.log.changed else " until there is room here"
            stays = f"the run is still running, and logs stay on their hosts{until}"
            text = f"can't write the log of {track.task.name}: {words}; {stays}"
            await self._emit(Notice(self._tracker.clock(), "error", text))

    async def run(self) -> None:
        """Try to write again, until cancelled."""
        calm_since = float("-inf")
        while True:
            await self._short.wait()
            if self._tracker.clock() - calm_since > CALM:
                self._wait = FIRST_WAIT
            await self._until_written()
            calm_since = self._tracker.clock()

    async def _until_written(self) -> None:
        gave_up = False
        while held := [track for track in self._tracker.tracks.values() if not track.room.is_set()]:
            await self._rest()
            over = self._all_over()
            for track in held:
                if track.log.retry() or over:
                    track.room.set()
                if over and track.log.error is not None:
                    track.log.give_up()
                    gave_up = True
        self._short.clear()
        self._said.clear()
        if not gave_up:
            text = "there is room here again: all logs are read on from where they stopped"
            await self._emit(Notice(self._tracker.clock(), "info", text))

    async def _rest(self) -> None:
        """Wait a little longer each time, but not beyond the run's end."""
        left, self._wait = self._wait, min(self._wait * 2, LONGEST_WAIT)
        while left > 0 and not self._all_over():
            await asyncio.sleep(_LOOK)
            left -= _LOOK
        self._tracker.waited_at = self._tracker.clock()

    def _all_over(self) -> bool:
        """Whether every task has ended, so that nothing but logs which wait for room keeps the run from its end."""
        tracks = self._tracker.tracks.values()
        return all(track.over or (track.phase == "exited" and not track.room.is_set()) for track in tracks)
