"""Tasks of a run that end: noted as facts, and reported if known then; the last word is the verdict's."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace

from distui.amounts import duration
from distui.runs.follow.followed import Exited
from distui.runs.hosts.stop_word import StopWord, looks_stopped, stop_by
from distui.runs.lines.events import Event, Failure, FailureFound, Notice, RankChanged
from distui.runs.state import elastic
from distui.runs.verdict.ends.explain import as_a_boot, place_of, removed
from distui.runs.verdict.evidence import End, corrected
from distui.runs.verdict.exit_words import exit_words
from distui.runs.verdict.outcome import RankEnd, Verdict
from distui.runs.watch.hosts import WatchedHosts
from distui.runs.watch.track import TaskTrack
from distui.runs.watch.tracker import RunTracker

UNSEEN = "was removed before its end was seen and its log read"
UNJUDGED = "was removed before its end was seen"
CUT_OFF = "its start was cut off: nothing of it is there"
UNREAD = "was removed before its log was read here"

ASKED_SECONDS = 2.0
"""How long the first failure of a run waits for what other hosts tell of a stop."""


def missing(track: TaskTrack) -> Iterator[tuple[int, str]]:
    """Each rank of a task whose container is gone, and which of its lines nobody can have any more, in words."""
    for rank, count in track.log.lines_before().items():
        yield rank, f"what it said after line {count} is missing" if count else "nothing that it said is here"


def unread(track: TaskTrack) -> Iterator[str]:
    """The same as sentences about a task whose end is known."""
    for rank, what in missing(track):
        yield f"rank {rank} on {track.task.host}: {place_of(track.task.engine)} {UNREAD}: {what}"


class EndsBefore:
    """Takes in the ends of a run whose verdict is recorded: its logs are read to the end, and nothing is judged."""

    def __init__(self, tracker: RunTracker, emit: Callable[[Event], Awaitable[None]]) -> None:
        self._tracker = tracker
        self._emit = emit

    async def exited(self, track: TaskTrack, event: Exited) -> None:
        """A task has ended."""
        track.phase = "exited"
        self._tracker.changed.set()

    async def drained(self, track: TaskTrack) -> None:
        """Its log is read to the end."""
        track.phase = "drained"
        self._tracker.changed.set()

    async def removed(self, track: TaskTrack, *, read: bool) -> None:
        """Its container or folder is gone."""
        track.phase = "removed"
        if not (read or track.cut_off or track.log.read_before()):
            for text in unread(track):
                await self._emit(Notice(self._tracker.clock(), "warning", text, track.task.host))
        self._tracker.changed.set()

    async def explain(self, host: str) -> None:
        """Nothing is left to explain."""


class WatchedEnds:
    """Takes in that tasks have ended, are read to their end, or were removed."""

    def __init__(self, tracker: RunTracker, hosts: WatchedHosts, emit: Callable[[Event], Awaitable[None]]) -> None:
        self._tracker = tracker
        self._hosts = hosts
        self._emit = emit
        self._announced: Failure | None = None
        self._reported: dict[int, tuple[object, ...]] = {}
        """Rank -> what was said of its end."""
        self._limit_reported = False
        self._read = False
        """Whether a task was read to its end since the last verdict that was looked at."""
        self._first = asyncio.Lock()
        """Held while hosts are asked, since a rank failed, whether the run is being stopped."""
        self._asked = False

    async def announce(self, failure: Failure | None) -> None:
        """Say which failure came first, when that is new."""
        if failure is not None and failure != self._announced:
            self._announced = failure
            await self._emit(FailureFound(self._tracker.clock(), failure))

    async def exited(self, track: TaskTrack, event: Exited) -> None:
        """A task ended; its last lines may still come."""
        if track.end is not None:
            return
        known = self._tracker
        end = End(
            code=event.code,
            oom=bool(event.oom),
            error=event.error,
            signalled=event.signalled,
            state=event.state,
            seen_at=known.clock(),
        )
        end = self._timed(track, end, event)
        end = await self._maybe_stopped(track, end)  # before it is noted: until then it would look like a failure
        await self._maybe_follows_a_stop(track.task.host, end)
        if await self._heard_late(track, end):
            track.phase, track.unseen = "exited", True
            return
        end = await self._maybe_out_of_memory(track, end)
        track.phase = "exited"
        track.ended(self._timed(track, end, event))  # its host's clock was asked for with it, and has come by now
        known.news()
        await self._say_limit(track)
        await self._tell(track)

    def _timed(self, track: TaskTrack, end: End, event: Exited) -> End:
        """The end with its times, by what is known of its host's clock now."""
        offset = self._tracker.offset_ms(track.task.host)
        return replace(end, at=corrected(event.finished_at, offset), started_at=corrected(event.started_at, offset))

    async def drained(self, track: TaskTrack) -> None:
        """A task that ended is read to its end: what it said tells the cause."""
        track.phase = "drained"
        if track.unseen:
            await self._say_unread(track)
        self._tracker.news()
        await self._tell(track)
        self._read = True
        await self.announce_read()
        await self._say_left(track)

    async def announce_read(self) -> None:
        """Say which failure came first, once tasks were read to their end: a verdict on many may be a second late."""
        if not self._read:
            return
        verdict = self._tracker.verdict()
        self._read = self._tracker.judged_late
        if verdict.failed:
            await self.announce(verdict.failure)

    async def removed(self, track: TaskTrack, *, read: bool) -> None:
        """Its container or folder is gone, though we did not remove it; `read`: its log had been, to the end."""
        known, task = self._tracker, track.task
        before, end = track.end, End(None, state="removed", seen_at=known.clock())
        drained = track.phase == "drained"
        if track.cut_off:
            end = replace(end, state="never_started", error=CUT_OFF)
        elif before is None and not track.unseen:
            end = await self._maybe_stopped(track, end)
            stopped = bool(end.by or known.stops)  # by an earlier stop that could not finish, where this one is ours
            track.unseen = not stopped and await self._hosts.cleaned_up(task.host)
        if track.unseen:
            track.phase = "removed"
            track.gone()
            if not drained:
                await self._say_unread(track)
            return
        track.phase = "removed"
        track.gone()
        track.ended(end)
        known.news()
        if before is not None and not known.stopped_by:
            await self._emit(Notice(known.clock(), "warning", f"{task.name}: {removed(task.engine)}", task.host))
        if not (read or drained or track.cut_off or track.log.read_before()):
            for text in unread(track):
                await self._emit(Notice(known.clock(), "warning", text, task.host))
        await self._tell(track)

    async def _say_unread(self, track: TaskTrack) -> None:
        """How it ended nobody knows, and nobody is to blame; which lines nobody can have any more, where any are."""
        task, known = track.task, self._tracker
        read = track.phase == "drained"
        words = f"{place_of(task.engine)} {UNJUDGED if read else UNSEEN}"
        for rank, what in missing(track):
            await self._emit(RankChanged(known.clock(), rank, task.host, "removed", words=words))
            if not read:
                text = f"rank {rank} on {task.host}: {words}: {what}"
                await self._emit(Notice(known.clock(), "warning", text, task.host))
        known.news()

    async def explain(self, host: str) -> None:
        """Something became known of a host after tasks had ended there: it may be what ended them."""
        self._tracker.news()
        for track in self._tracker.tracks.values():
            if track.task.host == host and track.end is not None:
                await self._tell(track)

    async def ask_boots(self) -> None:
        """Before the verdict: look whether hosts were restarted. One that shuts down stops its containers first."""
        known = self._tracker
        ended = [known.tracks[index] for index in known.bad()]
        await self._hosts.ask_boots(t.task.host for t in ended if t.end is not None and as_a_boot(t.end))
        known.news()

    async def tell_all(self, verdict: Verdict) -> None:
        """Say of every rank how it ended, where that is other or more than what was said before."""
        for rank in sorted(verdict.ranks):
            end = verdict.ranks[rank]
            if end.relation != "unknown":
                await self._say(end, end.relation)

    async def _tell(self, track: TaskTrack) -> None:
        """Say how the ranks of a task ended, before anything is said of others."""
        for end in self._tracker.judged_alone(track).ranks.values():
            if end.state not in ("running", "lost"):
                await self._say(end, "")

    async def _say(self, end: RankEnd, relation: str) -> None:
        of = end.of if relation else ""
        said = (end.state, end.exit, end.oom, end.words, relation, of, end.at)
        if self._reported.get(end.rank) != said:
            self._reported[end.rank] = said
            await self._emit(
                RankChanged(
                    self._tracker.clock(), end.rank, end.host, end.state, end.exit, end.oom, end.words,
                    relation, of, end.at,
                )
            )  # fmt: skip

    async def _say_limit(self, track: TaskTrack) -> None:
        """The job's `max_duration` has ended the run."""
        known = self._tracker
        if self._limit_reported or known.plan.max_duration is None or not known.judged_alone(track).over_limit:
            return
        if known.verdict().over_limit:
            self._limit_reported = True
            text = f"the job's max_duration is over: tasks end {duration(known.plan.max_duration)} after their start"
            await self._emit(Notice(known.clock(), "warning", text))

    async def _maybe_stopped(self, track: TaskTrack, end: End) -> End:
        """It ended as stopped ones do, but not by us: read who did now, for they remove their word soon.

        Returns the end, with who stopped this task alone.
        """
        if not self._as_stopped_elsewhere(track, end):
            return end
        alone = await self._hosts.ask_who_stopped(track.task.host, track.task.index)
        if alone is not None and alone.is_of(end):
            return replace(end, by=alone.who, verb=alone.verb)
        await self._ask_who_stopped_all(track, end)
        return end

    def _as_stopped_elsewhere(self, track: TaskTrack, end: End) -> bool:
        """Whether it ended as stopped ones may, and not after a stop of ours."""
        without_signals = track.task.engine == "process"  # there is no engine that tells of signals
        ours = self._tracker.stop_began
        return (without_signals or looks_stopped(end)) and (ours is None or (end.at is not None and end.at < ours))

    async def _heard_late(self, track: TaskTrack, end: End) -> bool:
        """Whether who stopped it has cleaned up, and taken the word of that along: a machine that slept hears of the
        end of a run when its connection lives on, and is no judge of it.
        """
        if end.by or self._tracker.stopped_by or not self._as_stopped_elsewhere(track, end):
            return False
        return await self._hosts.cleaned_up(track.task.host, surely=True)

    async def _maybe_out_of_memory(self, track: TaskTrack, end: End) -> End:
        """It failed by itself: the kernel may know of a lack of memory that the engine does not, and whose."""
        failed = end.code not in (0, None) and not end.by and self._tracker.stop_began is None
        if not failed or track.task.engine == "process":
            return end
        kill = await self._hosts.ask_memory_kill(track.task.host, track.task)
        return replace(end, oom=end.oom or bool(kill), host_full=kill == "host")

    async def _ask_who_stopped_all(self, track: TaskTrack, end: End) -> None:
        ours = self._tracker.stop_began
        word = await self._hosts.ask_who_stopped(track.task.host)
        if word is None or (ours is not None and not word.made(end)):  # it may be our own, of after that
            return
        await self._note_stop(word, track.task.host, end)

    async def _note_stop(self, word: StopWord, host: str, end: End) -> None:
        if (stop := stop_by(word, [end])) is not None:
            self._tracker.stopped(stop)
            await self._hosts.say_who_stopped(word, host)

    async def _maybe_follows_a_stop(self, host: str, end: End) -> None:
        """The first rank that fails may have lost one of another host, where somebody stops the run who has not come to
        this one yet.
        """
        failed = end.state == "exited" and end.code != 0 and not end.by
        async with self._first:
            if self._asked or not failed or self._tracker.stops:
                return
            self._asked = True
            others = [name for name in self._hosts.runs if name != host and name not in self._tracker.lost_since]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ASKED_SECONDS):
                    if (found := await self._hosts.first_word(others)) is not None:
                        await self._note_stop(*found, end)

    async def _say_left(self, track: TaskTrack) -> None:
        """What the end of a node means for a run that may lose some."""
        known, end = self._tracker, track.end
        bad = known.bad() if known.plan.min_nodes is not None else frozenset()
        if end is None or track.task.index not in bad:
            return
        task = track.task
        how = exit_words(end.code, oom=end.oom, error=end.error, engine=task.engine)
        text = f"{task.name} ended: {how}; {elastic.words_on_loss(known.plan, task.index, bad)}"
        await self._emit(Notice(known.clock(), "warning", text, task.host))
