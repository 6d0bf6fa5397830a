"""Tasks of a run that end: how each did and what explains it, whose doing it was, and which failure came first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from distui.plan.limit import reached
from distui.run import elastic
from distui.run.diagnose import exit_words
from distui.run.events import Event, Failure, FailureFound, Notice, RankChanged, RankPhase
from distui.run.followed import Exited
from distui.run.known import KILLED, REMOVED, Known
from distui.run.track import TaskTrack
from distui.run.verdict.old import STOP_CODES, Exit, corrected
from distui.run.watch_hosts import WatchedHosts


class EndsBefore:
    """Takes in the ends of a run whose verdict is recorded: its logs are read to the end, and nothing is judged."""

    def __init__(self, known: Known) -> None:
        self._known = known

    async def exited(self, track: TaskTrack, event: Exited) -> None:
        """A task has ended."""
        track.phase = "exited"
        self._known.changed.set()

    async def drained(self, track: TaskTrack) -> None:
        """Its log is read to the end."""
        track.phase = "drained"
        self._known.changed.set()

    async def removed(self, track: TaskTrack) -> None:
        """Its container or folder is gone."""
        track.phase = "removed"
        self._known.changed.set()

    async def explain(self, host: str) -> None:
        """Nothing is left to explain."""


class WatchedEnds:
    """Takes in that tasks have ended, are read to their end, or were removed."""

    def __init__(self, known: Known, hosts: WatchedHosts, emit: Callable[[Event], Awaitable[None]]) -> None:
        self._known = known
        self._hosts = hosts
        self._emit = emit
        self._announced: Failure | None = None

    async def announce(self, failure: Failure | None) -> None:
        """Say which failure came first, when that is new."""
        if failure is not None and failure != self._announced:
            self._announced = failure
            await self._emit(FailureFound(self._known.clock(), failure))

    async def exited(self, track: TaskTrack, event: Exited) -> None:
        """A task ended; its last lines may still come."""
        if track.exit is not None:
            return
        known = self._known
        words = event.error or ("nobody saw how it ended: its supervisor is gone" if event.state == "lost" else "")
        offset = known.offset_ms(track.task.host)
        track.exit_at = corrected(event.finished_at, offset, otherwise=known.clock())
        track.exit = Exit(event.code, bool(event.oom), words, event.finished_at)
        track.started_at = event.started_at and event.started_at - (offset or 0.0) / 1000
        track.never_started = event.state == "never_started"
        track.phase = "exited"
        self._explain(track)
        if self._over_limit(event):
            await self._end_by_limit(track)
        elif event.code in STOP_CODES and not event.oom:
            await self._maybe_stopped(track)
        track.before_stop = known.stop_began is None
        if event.signalled and track.before_stop and track.exit.bad and not track.exit.error and not track.exit.oom:
            track.exit = replace(track.exit, error=KILLED)
        await self._say_ended(track)
        known.changed.set()

    async def drained(self, track: TaskTrack) -> None:
        """A task that ended is read to its end: what it said tells the cause."""
        track.phase = "drained"
        if self._known.failed:
            await self.announce(self._known.failure())
        await self._say_left(track)
        self._known.changed.set()

    async def removed(self, track: TaskTrack) -> None:
        """Its container or folder is gone, though we did not remove it."""
        known, task, words = self._known, track.task, REMOVED
        track.phase = "removed"
        if track.exit is None:
            track.exit = Exit(None, error=words)
            track.exit_at = known.clock()
            self._explain(track)
            words = track.exit.error
            await self._maybe_stopped(track)
            track.before_stop = known.stop_began is None
            state: RankPhase = "removed" if track.before_stop else "stopped"
            if not track.before_stop:
                words = f"stopped and removed by {known.stopped_by}" if known.stopped_by else "not there any more"
            for rank in task.ranks:
                await self._emit(RankChanged(known.clock(), rank, task.host, state, words=words))
        elif not known.stopped_by:
            if track.exit.bad and track.exit.error in ("", KILLED):
                track.exit = replace(track.exit, error=words)
            await self._emit(Notice(known.clock(), "warning", f"{task.name}: {words}", task.host))
        known.changed.set()

    async def explain(self, host: str) -> None:
        """Something became known of a host after tasks had ended there: it may be what ended them."""
        for track in self._known.failed_tracks():
            if track.task.host == host and self._explain(track):
                await self._say_ended(track)

    async def explain_last(self) -> None:
        """Before the verdict: look whether hosts were restarted. One that shuts down stops its containers first."""
        failed = self._known.failed_tracks()
        await self._hosts.ask_boots(failed)
        for host in {track.task.host for track in failed}:
            await self.explain(host)

    def _explain(self, track: TaskTrack) -> bool:
        """Note what happened to its host as what ended a task, where it explains that; whether it is news."""
        assert track.exit is not None
        words = self._hosts.restart_explains(track)
        if not words and track.exit.error in ("", KILLED):
            words = self._hosts.engine_explains(track)
        news = words not in ("", track.exit.error)
        if news:
            track.exit = replace(track.exit, error=words)
        return news

    def _over_limit(self, event: Exited) -> bool:
        """Whether the job's `max_duration` ended the task, and not a stop."""
        known = self._known
        stopped = known.stop_began is not None and not known.over_limit
        if stopped or event.oom or None in (event.started_at, event.finished_at):
            return False
        assert event.started_at is not None
        assert event.finished_at is not None
        return reached(event.code, event.finished_at - event.started_at, known.plan.max_duration)

    async def _end_by_limit(self, track: TaskTrack) -> None:
        """The run is over: what its other tasks did since then is no failure."""
        known = self._known
        if known.over_limit:
            known.stop_began = min(track.exit_at, known.stop_began or track.exit_at)
            return
        known.over_limit = True
        text = f"the job's max_duration is over: tasks end {known.plan.max_duration:g} s after their start"
        await self._emit(Notice(known.clock(), "warning", text))
        known.stopped_by = known.stopped_by or "max_duration"
        known.begin_end(track.exit_at)

    async def _maybe_stopped(self, track: TaskTrack) -> None:
        """It ended as stopped ones do, but not by us: read who did now, for they remove their word soon."""
        known = self._known
        if known.stop_began is None:
            await self._hosts.ask_who_stopped(track.task.host)
            if known.stopped_by:
                known.begin_stop(track.exit_at)

    async def _say_ended(self, track: TaskTrack) -> None:
        assert track.exit is not None
        known, exit, task = self._known, track.exit, track.task
        words = exit_words(exit.code, oom=exit.oom, error=exit.error, engine=task.engine)
        state: RankPhase = "exited"
        if exit.oom:
            state = "oom"
        elif known.ours(track):
            state, words = "stopped", f"stopped by {known.stopped_by or 'distui'} (exit {exit.code})"
        elif track.never_started:
            state = "never_started"
        elif track.phase == "removed" and exit.code is None:
            state = "removed"
        elif exit.code is not None and exit.code > 128:
            state = "killed"
        for rank in task.ranks:
            await self._emit(RankChanged(known.clock(), rank, task.host, state, exit.code, exit.oom, words))

    async def _say_left(self, track: TaskTrack) -> None:
        """What the end of a node means for a run that may lose some."""
        known = self._known
        bad = known.bad()
        if known.plan.min_nodes is None or track.task.index not in bad:
            return
        assert track.exit is not None
        task = track.task
        how = exit_words(track.exit.code, oom=track.exit.oom, error=track.exit.error, engine=task.engine)
        text = f"{task.name} ended: {how}; {elastic.words_on_loss(known.plan, task.index, bad)}"
        await self._emit(Notice(known.clock(), "warning", text, task.host))
