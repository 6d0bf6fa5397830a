"""What is known of every task while a run is followed: exits, logs, lost hosts, and the first failure."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import replace

from distui.errors import DistuiError, ExitCode
from distui.facts.host import HostFacts
from distui.plan.limit import reached
from distui.plan.model import RunPlan, Task
from distui.plan.process import task_folder
from distui.run import elastic, restarts
from distui.run.diagnose import exit_words
from distui.run.disks import DiskWatch, worth_watching
from distui.run.events import (
    Event,
    Failure,
    FailureFound,
    HostChanged,
    LogLines,
    Notice,
    Progressed,
    RankChanged,
    RankPhase,
)
from distui.run.feed import EngineAccess
from distui.run.follow import HostFollower
from distui.run.followed import (
    Back,
    Drained,
    Exited,
    FollowEvent,
    FollowTarget,
    Lost,
    Note,
    Records,
    Removed,
    Sampled,
)
from distui.run.host_run import HostRun
from distui.run.logs import TaskLog, Written
from distui.run.masking import Mask
from distui.run.progress import ProgressTeller
from distui.run.resume import ResumePoint
from distui.run.sampled import host_sampled
from distui.run.store import StoredRun
from distui.run.track import TaskTrack, splitter
from distui.run.verdict import (
    CLOCK_DOUBT,
    STOP_CODES,
    Evidence,
    Exit,
    corrected,
    first_failure,
    not_told_apart,
    stopped_by_us,
)

CHECKPOINT_SECONDS = 1.0

REMOVED = "its container was removed by somebody else"

KILLED = "by `docker stop` or `docker kill` there, not by distui"

_GIVEN_UP = 255
"""Docker's exit code of containers whose end it did not see: the host went down under them."""

STOP_SLACK = 5.0
"""Seconds by which ranks may end before the one that told of a stop from elsewhere."""

ENGINE_SLACK = 15.0
"""Seconds that an engine may take over stopping its containers before it is seen to be down."""


class Watch:
    """Takes in what the followers of all hosts say and turns it into events and knowledge."""

    def __init__(
        self,
        plan: RunPlan,
        *,
        emit: Callable[[Event], Awaitable[None]],
        stored: StoredRun,
        facts: Mapping[str, HostFacts],
        clock: Callable[[], float],
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        self.plan = plan
        self._mask = Mask(secrets or {})
        self._seen_secrets: set[tuple[int | None, str]] = set()
        self.changed = asyncio.Event()
        self.stop_began: float | None = None
        self._emit = emit
        self._facts = facts
        self._clock = clock
        self.broken = False
        """Whether a follower ended with an error; it is raised where `following` ends."""
        self.stopped_by = ""
        """Who stopped the run from elsewhere, as far as known."""
        self.over_limit = False
        """Whether the job's `max_duration` ended a task, and with it the run."""
        self._hosts: Mapping[str, HostRun] = {}
        self._disks: dict[str, DiskWatch] = {}
        self._unmet: set[str] = set()
        self._engine_lost: dict[str, float] = {}
        """Host -> when its engine was last lost, in our clock."""
        self._lost_since: dict[str, float] = {}
        self._rebooted: set[str] = set()
        self._boot_untold: set[str] = set()
        self._missing: dict[str, set[str]] = {}
        self._announced: Failure | None = None
        self._progress = self._teller()
        self._blamed: int | None = None
        self.tracks = {t.index: self._track(stored, t) for t in plan.tasks}

    def _teller(self) -> ProgressTeller | None:
        """Reads the progress out of the first rank's lines, when the job says how."""
        first = min((t for t in self.plan.tasks if t.ranks), key=lambda t: min(t.ranks), default=None)
        if not self.plan.progress or first is None:
            return None
        offset = (self._offset_ms(first.host) or 0.0) / 1000
        return ProgressTeller(self.plan.progress, min(first.ranks), first.host, offset=offset)

    def _track(self, stored: StoredRun, task: Task) -> TaskTrack:
        offset = (self._offset_ms(task.host) or 0.0) / 1000
        numbers: dict[int, int] = {}
        split = splitter(self.plan, task, numbers)
        log = TaskLog(stored, task.index, task.ranks, split, offset=offset, clock=self._clock, mask=self._mask)
        return TaskTrack(task, log, numbers=numbers)

    # What the controller asks

    @property
    def settled(self) -> bool:
        """Whether every task has ended and its log is read to the end."""
        return all(track.over for track in self.tracks.values())

    @property
    def failed(self) -> bool:
        """Whether a task has ended badly by itself, and the run can't do without it."""
        return elastic.fails(self.plan, self._bad())

    @property
    def done_without(self) -> bool:
        """Whether all that is left are hosts out of reach, which the run could do without: its other nodes are done."""
        lost = {t.task.index for t in self.tracks.values() if not t.over and t.task.host in self._lost_since}
        over = all(t.over or t.task.index in lost for t in self.tracks.values())
        return bool(lost) and over and elastic.can_do_without(self.plan, lost | self._bad())

    def _bad(self) -> frozenset[int]:
        """Tasks that have ended badly by themselves."""
        return frozenset(e.task.index for e in self._evidence())

    def all_succeeded(self) -> bool:
        """Whether every task had ended with status 0 before any stop."""
        return all(t.exit is not None and not t.exit.bad and not self._ours(t) for t in self.tracks.values())

    def live_tasks(self) -> frozenset[int]:
        """Tasks that have not ended, as far as is known."""
        return frozenset(i for i, t in self.tracks.items() if t.phase in ("planned", "running"))

    def unknown_tasks(self) -> frozenset[int]:
        """Tasks whose end was never seen, and matters."""
        unseen = frozenset(i for i, t in self.tracks.items() if t.exit is None and t.phase != "removed")
        return frozenset() if elastic.can_do_without(self.plan, unseen | self._bad()) else unseen

    def unread_tasks(self) -> frozenset[int]:
        """Tasks whose log is not completely in its files here: their containers must stay."""
        return frozenset(i for i, t in self.tracks.items() if t.log.error is not None)

    def lost_longer_than(self, seconds: float) -> bool:
        """Whether a host with unsettled tasks has been out of reach for this long."""
        now = self._clock()
        waiting = {t.task.host for t in self.tracks.values() if not t.over}
        gone = {t.task.index for t in self.tracks.values() if t.task.host in self._lost_since}
        if elastic.can_do_without(self.plan, gone | self._bad()) and not self.done_without:
            return False
        return any(now - since >= seconds for host, since in self._lost_since.items() if host in waiting)

    @property
    def only_unmet(self) -> bool:
        """Whether all that is left is on hosts that this distui never reached."""
        waiting = {t.task.host for t in self.tracks.values() if not t.over}
        return bool(waiting) and waiting <= self._unmet

    @property
    def lost_hosts(self) -> frozenset[str]:
        """Hosts that are out of reach now, or whose engine is."""
        return frozenset(self._lost_since)

    @property
    def done_at(self) -> float | None:
        """When the last task ended whose end is the run's (`done_when`), in our clock; None while one lives."""
        judges = [self.tracks[index] for index in self.plan.judges]
        if self.plan.done_when is None or any(t.exit is None for t in judges):
            return None
        return max(t.exit_at for t in judges)

    def judged(self) -> int | None:
        """The exit code of a run that `done_when` ends: its first judge's own (the chief's, or worker 0's).

        None when the run has no such tasks, or not all of them ended by themselves.
        """
        judges = [self.tracks[index] for index in self.plan.judges]
        exits = [t.exit for t in judges if t.exit is not None and not self._ours(t)]
        if self.plan.done_when is None or len(exits) < len(judges):
            return None
        if not any(e.bad for e in exits):
            return ExitCode.OK
        return exits[0].code or ExitCode.RANK_FAILED

    def begin_stop(self, at: float) -> None:
        """From now on ends by a stop's exit statuses are our own doing."""
        if self.stop_began is None:
            self.stop_began = at

    def begin_end(self, at: float) -> None:
        """The run was over at `at`: whatever else ended later, known or not, did so because of that."""
        self.begin_stop(at)
        for track in self.tracks.values():
            track.before_stop = track.before_stop and track.exit_at <= at

    def starting(self) -> None:
        """Starts are under way."""
        for track in self.tracks.values():
            track.phase = "running"

    def failure(self) -> Failure | None:
        """The failure that explains the run, from all that is known now."""
        found = first_failure(self._evidence(), self._blamed)
        if found is None:
            return None
        self._blamed, failure = found
        return failure

    def uncertain(self) -> str:
        """Who else may have failed first, as far as the hosts' clocks are known, in words; "" when that is clear."""
        if self._blamed is None:
            return ""
        near = not_told_apart(self._evidence(), self._blamed)
        if not near:
            return ""
        doubt = max(e.doubt for e in near) + self._doubt(self.tracks[self._blamed].task.host)
        who = ", ".join(f"{e.task.name} on {e.task.host}" for e in near[:3])
        more = f" and {len(near) - 3} more" if len(near) > 3 else ""
        clocks = f"their clocks are known to {1000 * doubt:.0f} ms"
        return f"{who}{more} failed at the same time as far as can be told ({clocks}): who was first is uncertain"

    async def announce(self, failure: Failure | None) -> None:
        """Say which failure came first, when that is new."""
        if failure is not None and failure != self._announced:
            self._announced = failure
            await self._emit(FailureFound(self._clock(), failure))

    async def stopped_elsewhere(self) -> str:
        """Who stopped the run from another machine, after asking all hosts at once; empty when nobody did."""
        if not self.stopped_by:
            await asyncio.gather(*(self._ask_who(host) for host in self._hosts))
        return self.stopped_by

    async def _ask_who(self, host: str) -> None:
        with contextlib.suppress(DistuiError):
            words = await self._hosts[host].stopped_by()
            if words and not self.stopped_by:
                self.stopped_by = words
                await self._emit(Notice(self._clock(), "info", f"stopped by {words}", host))

    def missed(self, tasks: Iterable[int]) -> None:
        """Tasks whose containers were gone before we removed them: that explains a kill that nobody asked for."""
        for track in (self.tracks[index] for index in tasks):
            if track.exit is not None and track.exit.code in STOP_CODES and track.exit.error in ("", KILLED):
                track.exit = replace(track.exit, error=REMOVED)

    async def unmet(self, host: str, reason: str) -> None:
        """A host of an adopted run is out of reach from the start; its follower's first word brings it back."""
        self._unmet.add(host)
        await self._lost(host, Lost("host", reason))

    # Following

    @contextlib.asynccontextmanager
    async def following(self, hosts: Mapping[str, HostRun], *, adopted: bool) -> AsyncIterator[None]:
        """One follower a host while the block runs. Raises what a follower could not bear."""
        self.starting()
        self._hosts = hosts
        followers = [await self._follower(host, adopted=adopted) for host in hosts.values()]
        running = [asyncio.create_task(self._run(follower)) for follower in followers]
        try:
            yield
        finally:
            await asyncio.gather(*(follower.close() for follower in followers))
            results = await asyncio.gather(*running, return_exceptions=True)
            for track in self.tracks.values():
                self._save(track)
                track.log.close()
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _run(self, follower: HostFollower) -> None:
        try:
            await follower.run()
        except BaseException:
            self.broken = True
            self.changed.set()
            raise

    async def _follower(self, host: HostRun, *, adopted: bool) -> HostFollower:
        facts = self._facts.get(host.host)
        access = EngineAccess(host.first.engine, host.first.engine_command, facts.engine.socket if facts else None)
        targets = [await self._target(host, task, adopted=adopted) for task in host.tasks]
        return HostFollower(
            host.link,
            access,
            lambda event: self._take(host.host, event),
            run_id=self.plan.run_id,
            targets=targets,
            disks=worth_watching(facts.disks if facts else ()),
            boot_id=(facts.boot_id if facts else None) or "",
        )

    async def _target(self, host: HostRun, task: Task, *, adopted: bool) -> FollowTarget:
        resume = self.tracks[task.index].log.restore(ResumePoint.from_json) if adopted else None
        ref = host.ids.get(task.index, task.container)
        if task.engine == "process":
            ref = task_folder(await host.run_dir(), task.index)
        return FollowTarget(task.index, ref, resume)

    async def _take(self, host: str, event: FollowEvent) -> None:
        if host in self._unmet and not isinstance(event, Lost):
            self._unmet.discard(host)
            await self._back(host, Back("host"))
        match event:
            case Records():
                await self._records(self.tracks[event.task], event)
            case Exited():
                await self._exited(self.tracks[event.task], event)
            case Drained():
                await self._drained(self.tracks[event.task], event.resume)
            case Removed():
                await self._removed(self.tracks[event.task])
            case Sampled():
                await self._emit(host_sampled(self._clock(), host, event.sample))
                for text in self._disks.setdefault(host, DiskWatch()).news(event.sample.at, event.sample.disks):
                    await self._emit(Notice(self._clock(), "warning", text, host))
            case Lost():
                await self._lost(host, event)
            case Back():
                await self._back(host, event)
            case Note():
                await self._emit(Notice(self._clock(), "warning", event.text, host))

    async def _records(self, track: TaskTrack, event: Records) -> None:
        await self._show(track, track.log.feed(event.batch))
        track.unsaved = event.resume
        now = self._clock()
        if now - track.saved_at >= CHECKPOINT_SECONDS:
            track.saved_at = now
            self._save(track)

    def _save(self, track: TaskTrack) -> None:
        if track.unsaved is not None and track.log.checkpoint(track.unsaved.to_json()):
            track.unsaved = None

    async def _show(self, track: TaskTrack, written: list[Written]) -> None:
        track.remember(written)
        for event in restarts.told(self.plan, track, written, self._clock()):
            await self._emit(event)
        for group in written:
            task = track.task
            await self._emit(LogLines(self._clock(), task.index, group.rank, task.host, group.lines))
            await self._say_hidden(group, task)
            if self._progress is not None and group.rank == self._progress.rank:
                await self._tell(self._progress.take(group.lines, self._clock()))
        if track.log.error is not None and not track.said_error:
            track.said_error = True
            why = f"can't write the log of {track.task.name}: {track.log.error.strerror}"
            stays = f"the run goes on, and the log stays on {track.task.host}"
            await self._emit(Notice(self._clock(), "error", f"{why}; {stays}"))

    async def _say_hidden(self, group: Written, task: Task) -> None:
        """Once for each rank and secret: whoever reads `***` in a log must know where it comes from."""
        for name in group.hidden:
            if (group.rank, name) in self._seen_secrets:
                continue
            self._seen_secrets.add((group.rank, name))
            who = f"rank {group.rank}" if group.rank is not None else task.name
            words = f"{who} printed the value of secret {name}: its log has *** there"
            await self._emit(Notice(self._clock(), "warning", words, task.host))

    async def _tell(self, progress: Progressed | None) -> None:
        if progress is not None:
            await self._emit(progress)

    async def _exited(self, track: TaskTrack, event: Exited) -> None:
        if track.exit is not None:
            return
        offset = self._offset_ms(track.task.host)
        words = self._reboot_words(track, event) or event.error
        words = words or ("nobody saw how it ended: its supervisor is gone" if event.state == "lost" else "")
        track.exit_at = corrected(event.finished_at, offset, otherwise=self._clock())
        track.exit = Exit(event.code, bool(event.oom), words or self._engine_words(track, event), event.finished_at)
        track.never_started = event.state == "never_started"
        track.phase = "exited"
        if self._over_limit(event):
            await self._end_by_limit(track)
        elif event.code in STOP_CODES and not event.oom:
            await self._maybe_stopped(track)
        track.before_stop = self.stop_began is None
        if event.signalled and track.before_stop and track.exit.bad and not track.exit.error and not track.exit.oom:
            track.exit = replace(track.exit, error=KILLED)
        await self._say_ended(track)
        self.changed.set()

    def _over_limit(self, event: Exited) -> bool:
        """Whether the job's `max_duration` ended the task, and not a stop."""
        stopped = self.stop_began is not None and not self.over_limit
        if stopped or event.oom or None in (event.started_at, event.finished_at):
            return False
        assert event.started_at is not None
        assert event.finished_at is not None
        return reached(event.code, event.finished_at - event.started_at, self.plan.max_duration)

    async def _end_by_limit(self, track: TaskTrack) -> None:
        """The run is over: what its other tasks did since then is no failure."""
        if self.over_limit:
            self.stop_began = min(track.exit_at, self.stop_began or track.exit_at)
            return
        self.over_limit = True
        text = f"the job's max_duration is over: tasks end {self.plan.max_duration:g} s after their start"
        await self._emit(Notice(self._clock(), "warning", text))
        self.stopped_by = self.stopped_by or "max_duration"
        self.begin_end(track.exit_at)

    def _reboot_words(self, track: TaskTrack, event: Exited) -> str:
        """A boot ends everything; Docker then gives 255 for what it had to give up, or what its own stop left."""
        ended = event.state == "lost" or event.code in (*STOP_CODES, _GIVEN_UP)
        return "its host was restarted" if ended and track.task.host in self._rebooted else ""

    def _engine_words(self, track: TaskTrack, event: Exited) -> str:
        """A daemon that stops or starts again stops its containers, unless live-restore is on."""
        lost = self._engine_lost.get(track.task.host)
        near = lost is not None and track.exit_at >= lost - ENGINE_SLACK
        return "its container engine was stopped or restarted" if near and event.code in STOP_CODES else ""

    async def _maybe_stopped(self, track: TaskTrack) -> None:
        """It ended as stopped ones do, but not by us: read who did now, for they remove their word soon."""
        if self.stop_began is None:
            await self._ask_who(track.task.host)
            if self.stopped_by:
                self.begin_stop(track.exit_at)

    async def _say_ended(self, track: TaskTrack) -> None:
        assert track.exit is not None
        exit, task = track.exit, track.task
        words = exit_words(exit.code, oom=exit.oom, error=exit.error, engine=task.engine)
        state: RankPhase = "exited"
        if exit.oom:
            state = "oom"
        elif self._ours(track):
            state, words = "stopped", f"stopped by {self.stopped_by or 'distui'} (exit {exit.code})"
        elif track.never_started:
            state = "never_started"
        elif exit.code is not None and exit.code > 128:
            state = "killed"
        for rank in task.ranks:
            await self._emit(RankChanged(self._clock(), rank, task.host, state, exit.code, exit.oom, words))

    async def _drained(self, track: TaskTrack, resume: ResumePoint) -> None:
        await self._show(track, track.log.flush())
        if self._progress is not None and self._progress.rank in track.task.ranks:
            await self._tell(self._progress.tell(self._clock()))
        track.unsaved = resume
        self._save(track)
        track.phase = "drained"
        if self.failed:
            await self.announce(self.failure())
        await self._say_left(track)
        self.changed.set()

    async def _say_left(self, track: TaskTrack) -> None:
        """What the end of a node means for a run that may lose some."""
        bad = self._bad()
        if self.plan.min_nodes is None or track.task.index not in bad:
            return
        assert track.exit is not None
        task = track.task
        how = exit_words(track.exit.code, oom=track.exit.oom, error=track.exit.error, engine=task.engine)
        text = f"{task.name} ended: {how}; {elastic.words_on_loss(self.plan, task.index, bad)}"
        await self._emit(Notice(self._clock(), "warning", text, task.host))

    async def _removed(self, track: TaskTrack) -> None:
        await self._show(track, track.log.flush())
        task = track.task
        words = REMOVED
        track.phase = "removed"
        if track.exit is None:
            track.exit = Exit(None, error=words)
            track.exit_at = self._clock()
            await self._maybe_stopped(track)
            track.before_stop = self.stop_began is None
            state: RankPhase = "removed" if track.before_stop else "stopped"
            if not track.before_stop:
                words = f"stopped and removed by {self.stopped_by}" if self.stopped_by else "not there any more"
            for rank in task.ranks:
                await self._emit(RankChanged(self._clock(), rank, task.host, state, words=words))
        elif not self.stopped_by:
            if track.exit.bad and track.exit.error in ("", KILLED):
                track.exit = replace(track.exit, error=words)
            await self._emit(Notice(self._clock(), "warning", f"{task.name}: {words}", task.host))
        self.changed.set()

    async def _lost(self, host: str, event: Lost) -> None:
        """Out of reach: the host, or only its engine. Its ranks may live."""
        missing = self._missing.setdefault(host, set())
        missing.add(event.what)
        if event.what == "engine":
            self._engine_lost[host] = self._clock()
        reason = event.reason if event.what == "host" else f"its engine does not answer: {event.reason}"
        if host not in self._lost_since:
            self._lost_since[host] = self._clock()
            await self._mark(host, "lost", reason)
            if self.plan.min_nodes is not None:
                await self._say_lost(host)
        await self._emit(HostChanged(self._clock(), host, "lost", reason))
        self.changed.set()

    async def _say_lost(self, host: str) -> None:
        """What it means for a run that may lose nodes that a host is out of reach, if it does not come back."""
        gone = {t.task.index for t in self.tracks.values() if t.exit is None and t.task.host in self._lost_since}
        for task in (t.task for t in self.tracks.values() if t.task.host == host and t.exit is None):
            words = elastic.words_on_loss(self.plan, task.index, gone | self._bad())
            await self._emit(Notice(self._clock(), "warning", f"without {task.name}: {words}", host))

    async def _back(self, host: str, event: Back) -> None:
        missing = self._missing.setdefault(host, set())
        missing.discard(event.what)
        if event.rebooted:  # its engine may not be back yet
            self._rebooted.add(host)
            self._boot_untold.add(host)
        if missing or self._lost_since.pop(host, None) is None:
            return
        reason = "it was restarted" if host in self._boot_untold else ""
        self._boot_untold.discard(host)
        await self._emit(HostChanged(self._clock(), host, "back", reason))
        await self._mark(host, "running", "")
        self.changed.set()

    async def _mark(self, host: str, state: RankPhase, words: str) -> None:
        """Set the state of the ranks of one host that have not ended."""
        for track in self.tracks.values():
            if track.task.host == host and track.exit is None:
                for rank in track.task.ranks:
                    await self._emit(RankChanged(self._clock(), rank, host, state, words=words))

    # Judging

    def _offset_ms(self, host: str) -> float | None:
        facts = self._facts.get(host)
        return facts.clock_offset_ms if facts else None

    def _doubt(self, host: str) -> float:
        """How far the corrected clock of a host may be off: half the probe's round trip."""
        facts = self._facts.get(host)
        return CLOCK_DOUBT + ((facts.rtt_ms or 0.0) / 2000 if facts else 0.0)

    def _ours(self, track: TaskTrack) -> bool:
        assert track.exit is not None
        if track.before_stop:
            return False
        if self.stop_began is not None and track.phase == "removed" and track.exit.code is None:
            return True
        slack = STOP_SLACK if self.stopped_by else 0.0
        return stopped_by_us(track.exit, track.exit_at, self.stop_began, self._doubt(track.task.host) + slack)

    def _evidence(self) -> list[Evidence]:
        """The tasks that ended badly by themselves."""
        return [
            Evidence(t.task, t.exit, t.exit_at, self._doubt(t.task.host), t.tails())
            for t in self.tracks.values()
            if t.exit is not None and t.exit.bad and not self._ours(t)
        ]
