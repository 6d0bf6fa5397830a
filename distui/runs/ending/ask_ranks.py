"""Ranks of a run that lives are asked where they are, and it is said who holds the others up.

The connections of the run are used. A run that goes on is only asked for its positions, and nothing is said: what has
stood still for less than `stall_after` may be an evaluation, a checkpoint, or a loader that is slow now and then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Coroutine
from dataclasses import replace

from distui.runs.attempt.attempt import Attempt
from distui.runs.ending.keep_late import keep_late
from distui.runs.ending.moved import tell_moved
from distui.runs.insight.asking.ask import ask_hosts
from distui.runs.insight.asking.closer import look_and_watch
from distui.runs.insight.asking.look import PATIENCE_S, Asked, Look, look
from distui.runs.insight.asking.task_names import task_names
from distui.runs.insight.asking.watching import SECONDS
from distui.runs.insight.hang.places import unplaced
from distui.runs.insight.seen.helpers import BUSY
from distui.runs.insight.seen.ranks import TaskRanks, ranks_of
from distui.runs.insight.seen.sick import gpus_of
from distui.runs.lines.events import RanksAsked
from distui.runs.lines.explanation import HANGS, STANDS, Explanation
from distui.runs.state.our_clock import OurClock
from distui.runs.store.recorded import first_errors
from distui.runs.store.why_records import WhyRecord, keep
from distui.runs.task.host_run import HostRun
from distui.runs.watch.progress.silence import silent_for

FIRST_PAUSE_S = 10.0
"""Seconds from one question to ranks that are silent to the next; then longer and longer ones."""
PERIOD_S = 20.0
"""Ranks that speak are asked every `stall_after`, and no more often than this; but see SOONER_S."""
SOONER_S = 6.0
"""Or `stall_after` and so many more, where that is less: what holds a run up is to be named ten seconds after it, of
which the rest is for something to take longer than usual (LONG_S) and for the answers.
"""
MARGIN_S = 0.5
PLACE_S = 3.0
"""Ranks are asked again so soon where those that hold the others up did not tell in time where they are."""
PLACE_LOOKS = 6
"""How often before a run ends for it: the place is what its owner looks for, and a busy host takes its time."""
PLACES_S = 45.0
"""But no longer than this: a host that hangs costs each look half a minute."""
SILENT_S = 2.0
"""How long ranks are watched that have all been silent for `stall_after`."""


def period(stall_after: float) -> float:
    """Seconds from one question to ranks that speak to the next. What 64 ranks with 64 groups answer is explained with
    half a second of CPU; how late ranks are is worked out in a thread, once a minute (`keep_late`).
    """
    return max(stall_after, min(PERIOD_S, stall_after + SOONER_S))


class AskTurns:
    """When ranks are asked: shortly before one counts as silent and at once when it does, every so often while they
    speak (lines of a thread of its own, or of a progress bar, tell nothing), and when what stood still will have done
    so for `stall_after`.
    """

    def __init__(self, began: float, stall_after: float, *, insight: bool) -> None:
        """`insight` is whether ranks can be asked where they are in their collectives (`insight`)."""
        self._longest = period(stall_after)
        self._insight = insight and stall_after > 0
        self._period = self._longest if self._insight else float("inf")
        self._next = began + self._period
        self._now = began
        self._silent = False
        self._overdue: float | None = None
        self._pause = self._first = min(FIRST_PAUSE_S, self._longest)
        self._unplaced = 0
        """Of how many ranks it was said that they hold the others up, but not where in the program they are."""
        self._waited = 0
        self._waits_until = float("inf")
        self._pointed_at: float | None = None
        self._look: asyncio.Task[None] | None = None

    def due(self, now: float, *, silent: bool, overdue: float | None = None) -> bool:
        """Whether to ask now; `silent` tells whether a rank has said nothing for `stall_after`, `overdue` when the last
        of those that soon count as silent was known to go on. Never while they are being asked (`begin`): on a busy
        host one question would wait for the stacks of the other, and the first to begin may be the last to answer.
        """
        if self._look is not None and not self._look.done():
            return False
        if silent and not self._silent:
            self._next, self._pause = now, self._first
        if overdue is not None and self._insight and (self._overdue is None or overdue > self._overdue):
            self._next = now
        self._silent, self._overdue = silent, overdue
        if now < self._now:  # our clock was set back
            self._next = min(self._next, now + self._period)
        self._now = now
        if now < self._next:
            return False
        self._next = now + (self._pause if silent else self._period)
        self._pause = min(2 * self._pause, self._longest)
        return True

    def begin(self, look: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Ask now, in a task."""
        self._look = asyncio.create_task(look)
        return self._look

    def answered(self) -> None:
        """The answers are reported: ranks may be asked again."""
        self._look = None

    def again(self, at: float) -> None:
        """Ask at this time, if not before."""
        self._next = min(self._next, at)

    def reported(self, now: float, unplaced: int) -> None:
        """It was said who holds the others up; of so many it is not known where they are (`unplaced`)."""
        self._unplaced = unplaced
        if unplaced:
            self.again(now + PLACE_S)

    def is_placed(self, unplaced: int) -> bool:
        """Whether that is to be said again, now that it is known of half of those or more. Of one that is once more."""
        return 2 * unplaced <= self._unplaced != 0

    def points_on(self, stalled_since: float) -> bool:
        """Whether it is to be said how to see more of a run that stands still since then: once of each standstill."""
        before, self._pointed_at = self._pointed_at, stalled_since
        return before != stalled_since

    def waits_for_places(self, now: float, unplaced: int) -> bool:
        """Whether a run that is to end for it is looked at once more, so that its failure has the place."""
        if self._waited >= PLACE_LOOKS or now >= self._waits_until or not unplaced:
            return False
        self._waits_until = min(self._waits_until, now + PLACES_S)
        self._waited += 1
        self.again(now + PLACE_S)
        return True


def any_silent(attempt: Attempt, now: float) -> bool:
    """Whether a rank has said nothing for `stall_after`, whatever its GPUs do: NCCL's spin while they wait."""
    for task in attempt.plan.tasks:
        after = attempt.plan.stall_after_of(task)
        for rank in task.ranks:
            known = attempt.state.ranks.get(rank)
            silent = silent_for(known, now) if known is not None else None
            if after and silent is not None and silent > after:
                return True
    return False


def _calls_may_tell(seen: Look) -> bool:
    """Whether ranks use torch, and wait for none in a collective as far as they tell: then their calls may tell more.

    Not where all are at work.
    """
    processes = [one.process for one in seen.ranks if one.process is not None]
    idle = any(process.cpu < BUSY for process in processes)
    return idle and any(process.torch for process in processes) and seen.explanation.kind in ("unseen", "moving")


def all_silent(attempt: Attempt, now: float) -> bool:
    """Whether no rank has said anything for `stall_after`: only then ranks whose calls are all that tells something are
    sent a signal for them.
    """
    after = attempt.plan.stall_after
    known = [silent_for(rank, now) for rank in attempt.state.ranks.values() if rank.live]
    return after > 0 and bool(known) and all(silent is None or silent > after for silent in known)


def _since_silence(attempt: Attempt, seen: Look) -> Look:
    """By calls it is known for seconds only that somebody waits; that nobody speaks is known for longer."""
    found = seen.explanation
    signs = [rank.last_line_at or rank.since for rank in attempt.state.ranks.values()]
    spoke = [sign for sign in signs if sign is not None]
    if found.since is None or not spoke:
        return seen
    return replace(seen, explanation=replace(found, since=min(found.since, max(spoke))))


async def tell_why(attempt: Attempt, turns: AskTurns) -> None:
    """Say who holds the others up, if anybody has for `stall_after`, and only what was not said before; once more where
    it is known now where in the program they are.
    """
    ours = OurClock(attempt.clock, time.monotonic)
    seen = await ranks_seen(attempt)
    if _is_ending(attempt, seen):
        return
    await tell_moved(attempt, seen.ranks)
    if _calls_may_tell(seen) and all_silent(attempt, attempt.clock()):
        seen = _since_silence(attempt, await ranks_watched(attempt, stacks=False, seconds=SILENT_S))
    if ours.news() is not None:  # what began just before seems to have lasted for as long as our clock was set by
        turns.again(attempt.clock() + PLACE_S)
        return
    found, before = seen.explanation, attempt.explanation
    attempt.ras = seen.ras or attempt.ras  # who is only watched is not asked for it
    if seen.to_be_sure:
        turns.again(attempt.clock() + seen.to_be_sure)
    if (moment := seen.may_stand_from) is not None:
        turns.again(moment + MARGIN_S)
    at = _seen_at(attempt, seen)
    if found.kind in STANDS and found.since is not None and not found.stood(at, attempt.plan.stall_after):
        turns.again(found.since + attempt.plan.stall_after + MARGIN_S)
        found = _goes_on(found)
    attempt.explanation = found if found.kind in STANDS else None
    lacks = unplaced(seen.ranks, found)
    placed = attempt.explanation is not None and turns.is_placed(lacks)
    if _ends(attempt, found, at) and not turns.waits_for_places(attempt.clock(), lacks):
        # before it is reported: whoever reads that may be behind for an hour, in which the run goes on
        attempt.tracker.held_up(attempt.run.mask.event(found), hung=True)
    if _gist(before) != _gist(attempt.explanation) or placed:
        turns.reported(attempt.clock(), lacks)
        await _tell(attempt, WhyRecord(attempt.clock(), "run", found, seen.calls))
    await _point_on(attempt, turns, seen.explanation)
    turns.answered()
    await keep_late(attempt, seen)  # last: it takes a while, and others may look meanwhile


async def _point_on(attempt: Attempt, turns: AskTurns, found: Explanation) -> None:
    """Say how to see where ranks are that stand still and of which nobody is named: those of JAX and TensorFlow."""
    stalled = attempt.state.stalled
    if stalled is not None and found.kind == "unseen" and turns.points_on(stalled.since):
        await attempt.notice("info", f"`distui why {attempt.plan.run_id}` shows what its ranks do")


async def see_moved(attempt: Attempt) -> None:
    """For who only looks on: whether ranks go on that say nothing. They are asked for their positions, and no more."""
    asked = _asked(attempt)
    answers = asked.silent | await ask_hosts(asked.hosts, asked.ids)
    await tell_moved(attempt, ranks_of(asked.tasks, answers, asked.ended))


def _is_ending(attempt: Attempt, seen: Look) -> bool:
    """Whether the run has begun to end since it was asked: what its ranks do then is neither a hang nor going on."""
    tracker = attempt.tracker
    if tracker.stop_began is not None or (tracker.failed and attempt.plan.on_fail == "stop"):
        return True
    return seen.explanation.kind == "unseen" and any(one.process is None for one in seen.ranks)


def _goes_on(found: Explanation) -> Explanation:
    """What is to be said of a run that may go on: nothing of who is behind just now."""
    places = tuple(replace(place, culprit=False) for place in found.ranks)
    return Explanation("moving", "no collective has stood still for long", found.certainty, places)


async def tell_going_on(attempt: Attempt, turns: AskTurns) -> None:
    """What was said to stand still was refuted by a step: say so, and see at once what ranks do now."""
    found, attempt.explanation = attempt.explanation, None
    turns.again(attempt.clock())
    if found is not None:
        await _tell(attempt, WhyRecord(attempt.clock(), "run", _goes_on(found)))


def _seen_at(attempt: Attempt, seen: Look) -> float:
    """When the first ranks answered: they may have gone on while another host took long for its answer."""
    return min([attempt.clock(), *(one.at for one in seen.ranks if one.at)])


def _ends(attempt: Attempt, found: Explanation, at: float) -> bool:
    """Whether the run is to be stopped for it (`on_hang`). What hosts out of reach do nobody knows: those are waited
    for, as long as for any run.
    """
    wanted = attempt.plan.on_hang != "tell" and found.kind in HANGS and not attempt.tracker.lost_hosts
    return wanted and found.stood(at, attempt.plan.stall_after)


def _gist(found: Explanation | None) -> object:
    """What makes another explanation news."""
    return (found.kind, found.culprits) if found is not None else None


async def _tell(attempt: Attempt, record: WhyRecord) -> None:
    """As a file in the run's folder, as an event, and as words for people."""
    found = record.found
    await note(attempt, record)
    if found.kind in STANDS:
        await attempt.notice("warning", f"{found.summary}; `distui why {attempt.plan.run_id}` shows all ranks")
    else:
        await attempt.notice("info", "the ranks go on: no collective stands still any more")


async def note(attempt: Attempt, record: WhyRecord) -> None:
    """As a file in the run's folder, and as an event."""
    keep(attempt.run.stored, attempt.run.mask.event(record))
    await attempt.emit(RanksAsked(record.at, record.found.shortened()))


async def ranks_seen(attempt: Attempt, in_vain: Collection[int] = (), *, patience: float = PATIENCE_S) -> Look:
    """Each rank as it tells where it is; `in_vain` have said that they waited for others in vain."""
    return await look(_asked(attempt), in_vain=in_vain, patience=patience, before=attempt.ras)


async def ranks_watched(attempt: Attempt, *, stacks: bool, seconds: float = SECONDS) -> Look:
    """The same for somebody who asks: where nothing stands still, ranks are watched for some seconds."""
    return await look_and_watch(_asked(attempt), stacks=stacks, seconds=seconds)


def _asked(attempt: Attempt) -> Asked:
    hosts, tasks, ended = of_attempt(attempt)
    gpus = gpus_of(attempt.plan)
    over = {index for host in hosts for index in host.missing}
    over |= {track.task.index for track in attempt.tracker.tracks.values() if track.end is not None}
    ids = {index: ref for host in hosts for index, ref in host.ids.items() if index not in over}
    errors = first_errors(attempt.run.stored) if gpus else {}
    return Asked(
        hosts, tasks, ids, ended, gpus=gpus, errors=errors, quiet=attempt.quiet, names=task_names(attempt.plan)
    )


def of_attempt(attempt: Attempt) -> tuple[list[HostRun], list[TaskRanks], dict[int, str]]:
    """Its hosts, its tasks with their ranks, and how ranks ended that have."""
    ended = {
        rank: f"exit {track.end.code}" if track.end.code is not None else track.end.state
        for track in attempt.tracker.tracks.values()
        if track.end is not None
        for rank in track.task.ranks
    }
    tasks = [TaskRanks(task.index, task.host, task.ranks) for task in attempt.plan.tasks]
    return list(attempt.hosts.values()), tasks, ended
