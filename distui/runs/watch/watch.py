"""Follows all hosts of a run and hands what each follower says to who takes it in: hosts, ends, lines."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial

from distui.codec import read
from distui.errors import DistuiError
from distui.facts.host import HostFacts
from distui.plan.command.process import task_folder
from distui.plan.labels import named_ranks
from distui.plan.model import RunPlan, Task
from distui.runs.follow.feed import EngineAccess
from distui.runs.follow.followed import (
    Back,
    Drained,
    Exited,
    FollowEvent,
    FollowTarget,
    Lost,
    Note,
    Records,
    Removed,
    Room,
    Sampled,
    no_wait,
)
from distui.runs.follow.follower import HostFollower
from distui.runs.follow.resume import ResumePoint
from distui.runs.follow.survived import survived, unborne
from distui.runs.insight.seen.clocks import Reading
from distui.runs.lines.events import Event, Notice
from distui.runs.state.samples import host_sampled
from distui.runs.store.logs import TaskLog
from distui.runs.store.masking import NOTHING, Mask
from distui.runs.store.runs import StoredRun
from distui.runs.task.host_run import HostRun
from distui.runs.watch.disks import DiskWatch, worth_watching
from distui.runs.watch.ends import EndsBefore, WatchedEnds
from distui.runs.watch.hosts import WatchedHosts
from distui.runs.watch.lines import WatchedLines
from distui.runs.watch.network import NetworkWatch
from distui.runs.watch.track import TaskTrack, splitter
from distui.runs.watch.tracker import RunTracker


class Watch:
    """What the followers of all hosts say, as events and as what is `known`."""

    def __init__(
        self,
        plan: RunPlan,
        *,
        emit: Callable[[Event], Awaitable[None]],
        stored: StoredRun,
        facts: Mapping[str, HostFacts],
        clock: Callable[[], float],
        mask: Mask = NOTHING,
        room: Room = no_wait,
    ) -> None:
        self._plan = plan
        self._emit = emit
        self._room = room
        self._facts = facts
        self._clock = clock
        self._mask = mask
        self._stored = stored
        self._disks: dict[str, DiskWatch] = {}
        self.broken = False
        """Whether a follower ended since its host can't be reached, or not even its end could be reported; that is
        raised where `following` ends.
        """
        self.tracker = RunTracker(plan, facts=facts, clock=clock)
        self.tracker.tracks.update({t.index: self._track(t) for t in plan.tasks})
        self.hosts = WatchedHosts(self.tracker, emit)
        self.judged_ends = WatchedEnds(self.tracker, self.hosts, emit)
        self.ends: WatchedEnds | EndsBefore = self.judged_ends
        """What takes in that tasks end; EndsBefore for a run whose verdict is recorded."""
        self.network = NetworkWatch(plan, facts)
        self._lines = WatchedLines(self.tracker, emit, self.network)
        self._followers: Mapping[str, HostFollower] = {}

    def _track(self, task: Task) -> TaskTrack:
        offset = self.tracker.offset_ms(task.host) / 1000
        numbers: dict[int, int] = {}
        split = splitter(self._plan, task, numbers)
        log = TaskLog(self._stored, task.index, task.ranks, split, offset=offset, clock=self._clock, mask=self._mask)
        return TaskTrack(task, log, numbers=numbers)

    def ended_before(self) -> None:
        """The run's verdict is recorded: from now on its logs are read, and nothing is said of its ranks' ends."""
        self.ends = EndsBefore(self.tracker, self._emit)
        self.hosts.ranks_ended = True

    def lines_before(self) -> dict[int, int]:
        """Rank -> lines of its log that an earlier distui has read into its file here."""
        return {
            rank: count for track in self.tracker.tracks.values() for rank, count in track.log.lines_before().items()
        }

    @contextlib.asynccontextmanager
    async def following(self, hosts: Mapping[str, HostRun], *, adopted: bool) -> AsyncIterator[None]:
        """One follower a host while the block runs. Raises why a link was given up.

        A host whose follower ends with any other error is out of reach from then on.
        """
        self.tracker.starting()
        self.hosts.runs = hosts
        followers = {h.host: await self._follower(h, adopted=adopted) for h in hosts.values() if self._has_more(h)}
        self._followers = followers
        running = [asyncio.create_task(self._run(host, follower)) for host, follower in followers.items()]
        room = asyncio.create_task(self._lines.room.run())
        try:
            yield
        finally:
            await asyncio.gather(*(follower.close() for follower in followers.values()))
            room.cancel()
            *results, waited = await asyncio.gather(*running, room, return_exceptions=True)
            for track in self.tracker.tracks.values():
                if track.over and track.log.error is not None and not track.log.given_up:
                    track.log.retry()  # a last time: nobody else has what waits
                track.save()
                track.log.close()
        for result in (*results, None if isinstance(waited, asyncio.CancelledError) else waited):
            if isinstance(result, BaseException):
                raise result

    async def time_passed(self) -> None:
        """Asked twice a second and more: report what waited for it."""
        await self._lines.time_passed()

    def ask_clocks(self) -> None:
        """Our clock was set: have those of the hosts read at once, by which their times are corrected."""
        for follower in self._followers.values():
            follower.ask_clock()

    async def left(self) -> None:
        """The run is not followed any more: report what was not yet."""
        await self._lines.left()

    def _has_more(self, host: HostRun) -> bool:
        """Whether anything may still come of a task there."""
        return any(not self.tracker.tracks[task.index].over for task in host.tasks)

    async def _run(self, host: str, follower: HostFollower) -> None:
        try:
            try:
                await follower.run()
            except DistuiError:
                raise
            except Exception as error:
                await self._unfollowed(host, error)
        except BaseException:
            self.broken = True
            self.tracker.changed.set()
            raise

    async def _unfollowed(self, host: str, error: Exception) -> None:
        """What a host said could not be borne: that host is lost, its logs stay there, and the run has its owner."""
        survived(error, f"following {host}")
        self.tracker.unfollowed.add(host)
        await self.hosts.lost(host, Lost("host", unborne(error)))
        await self.ends.explain(host)

    async def _follower(self, host: HostRun, *, adopted: bool) -> HostFollower:
        facts = self._facts.get(host.host)
        access = EngineAccess(host.first.engine, host.first.engine_command, facts.engine.socket if facts else None)
        tasks = [task for task in host.tasks if not self.tracker.tracks[task.index].over]
        targets = [await self._target(host, task, adopted=adopted) for task in tasks]
        return HostFollower(
            host.link,
            access,
            lambda event: self.take(host.host, event),
            room=self._room,
            run_id=self._plan.run_id,
            targets=targets,
            disks=worth_watching(facts.disks if facts else ()),
            boot_id=host.planned_boot,
            engine_down=self.hosts.without_engine(host.host),
            on_clock=lambda asked, said, heard: self.tracker.clock_read(host.host, Reading(asked, said, heard)),
        )

    async def _target(self, host: HostRun, task: Task, *, adopted: bool) -> FollowTarget:
        track = self.tracker.tracks[task.index]
        resume = track.log.restore(partial(read, ResumePoint)) if adopted else None
        if resume is not None:
            track.recall(self._stored)
        ref = host.ids.get(task.index, "")
        if ref and task.engine == "process":
            ref = task_folder(await host.run_dir(), task.index)
        find, grace = partial(host.ref, task), self._plan.stop_grace
        return FollowTarget(task.index, ref, resume, track.room, adopted, find, grace)

    async def take(self, host: str, event: FollowEvent) -> None:
        """One event of a host's follower."""
        await self.hosts.heard(host, event)
        tracks = self.tracker.tracks
        match event:
            case Records():
                await self._lines.records(tracks[event.task], event)
            case Exited():
                await self.ends.exited(tracks[event.task], event)
            case Drained():
                await self._lines.drained(tracks[event.task], event.resume)
                await self.ends.drained(tracks[event.task])
            case Removed():
                await self._lines.end(tracks[event.task])
                await self.ends.removed(tracks[event.task], read=event.read)
            case Sampled():
                await self._sampled(host, event)
            case Lost():
                await self.hosts.lost(host, event)
                await self.ends.explain(host)
            case Back():
                await self.hosts.back(host, event)
                await self.ends.explain(host)
            case Note():
                track = tracks[event.task] if event.task is not None else None
                if track is not None and event.lines_missing:
                    track.lines_missing = True
                whose = f"{named_ranks(track.task.ranks)}: " if track is not None else ""
                await self._emit(Notice(self._clock(), "warning", f"{whose}{event.text}", host))

    async def _sampled(self, host: str, event: Sampled) -> None:
        await self._emit(host_sampled(self._clock(), host, event.sample))
        for text in self._disks.setdefault(host, DiskWatch()).news(event.sample.at, event.sample.disks):
            await self._emit(Notice(self._clock(), "warning", text, host))
        for carried in self.network.take(host, event.sample, self._clock()):
            await self._emit(carried)
