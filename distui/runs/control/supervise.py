"""While a run is followed: when to stop it, stopping it, and how long to wait for hosts out of reach."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from distui.errors import DistuiError, ExitCode
from distui.plan.model import RunPlan
from distui.runs.attempt.attempt import Attempt
from distui.runs.attempt.limits import passed
from distui.runs.ending.ask_before_stop import BeforeStop
from distui.runs.ending.ask_ranks import AskTurns, any_silent, see_moved, tell_going_on, tell_why
from distui.runs.ending.circumstances import Turns, tell_network
from distui.runs.ending.moved import overdue
from distui.runs.follow.followed import Lost
from distui.runs.hosts.stop_word import TO_END, StopWord
from distui.runs.lines.events import RankSilent, RunStalled, StopAsked, StopReason, rank_words
from distui.runs.state import elastic
from distui.runs.state.standstill import Standstill, standstill
from distui.runs.task.host_run import HostRun
from distui.runs.verdict.evidence import Stop, StopCause
from distui.runs.watch.progress.unended import unended

STOP_CAUSES: Mapping[StopReason, StopCause] = {
    "user": "user", "failure": "failure", "timeout": "timeout", "done": "done", "max_duration": "limit",
    "launch_failed": "failure", "lost": "timeout", "hang": "hang",
}  # fmt: skip
"""A stop's reason, as the verdict knows it."""

SAID: frozenset[StopReason] = frozenset({"user", "timeout", "lost", "hang", "failure"})
"""Stops that leave word on the hosts: who follows elsewhere may see the ranks end before it knows of a reason."""

NEVER_MET = 10.0
"""Seconds that a stop waits for a host which did not answer from its beginning on."""

AGAIN_SECONDS = 5.0
"""After how long a host that did not stop its tasks is asked again: nobody else would end them."""

REFUSED_SECONDS = 60.0
"""How long it is asked until it counts as out of reach: a program that survives SIGKILL may never end."""

AFTER_ROOM = 15.0
"""Seconds after which logs that waited for room on the disk here, or for who reads them, are read up to now, and hosts'
clocks again after ours was set.
"""


async def supervise(attempt: Attempt) -> None:
    """Until every task is read to its end, a detach is asked for, or lost hosts are given up."""
    stops: list[asyncio.Task[None]] = []
    stops.append(asyncio.create_task(_begin_stops(attempt, stops)))
    try:
        await _until_over(attempt, stops)
    finally:
        for task in stops:
            task.cancel()
        await asyncio.gather(*stops, return_exceptions=True)
    _raise_bugs(stops)


async def _until_over(attempt: Attempt, stops: list[asyncio.Task[None]]) -> None:
    """Wait, and ask for the stops that the run itself needs. Raises what made one of `stops` fail."""
    tracker, requests = attempt.tracker, attempt.run.requests
    turns, before = Turns(), BeforeStop()
    asking = AskTurns(attempt.clock(), attempt.plan.stall_after, insight=_may_answer(attempt.plan))
    while not (tracker.settled or attempt.watch.broken or requests.detach):
        if tracker.lost_longer_than(_timeout(attempt)) and not _others_end(attempt):
            for host in tracker.lost_hosts:
                attempt.hosts[host].reconnect_timeout = 0.0
            break
        deadline = attempt.run.deadline
        if deadline is not None and passed() >= deadline and requests.stop is None and not _is_stopped(attempt):
            requests.ask_stop("timeout", exit=ExitCode.TIMEOUT)
        if requests.stop is None:
            _stop_by_itself(attempt, lambda: not before.waits(attempt, stops))
        if not attempt.run.events.behind:
            await attempt.watch.judged_ends.announce_read()
        await _wait_for_change(attempt)
        if attempt.run.events.behind:  # no log is read on; what is to be stopped is, though
            tracker.waited_at = attempt.clock()
            _drop_done(stops)
            continue
        await attempt.watch.time_passed()
        _drop_done(stops)
        if (change := attempt.ours.news()) is not None:
            attempt.clock_set(change)
        if tracker.stop_began is None and _heard_up_to_now(attempt):
            for silence in attempt.silences.news(attempt.state, attempt.clock()):
                await attempt.emit(silence)
                await _tell_unended(attempt, silence)
            await _tell_steps(attempt, asking)
            if attempt.run.views:  # its owner asks hosts and ranks, and tells us nothing
                late = overdue(attempt, attempt.clock())
                if late is not None and asking.due(attempt.clock(), silent=False, overdue=late):
                    stops.append(asking.begin(see_moved(attempt)))
                continue
            if turns.due(attempt.clock(), quiet=any(rank.quiet for rank in attempt.state.ranks.values())):
                stops.append(asyncio.create_task(tell_network(attempt)))
            now, stuck = attempt.clock(), attempt.state.stalled is not None
            if asking.due(now, silent=stuck or any_silent(attempt, now), overdue=overdue(attempt, now)):
                stops.append(asking.begin(tell_why(attempt, asking)))
    await attempt.watch.left()
    if (steps := attempt.steps.news(attempt.tracker.tracks.values(), attempt.clock(), last=True)) is not None:
        await attempt.emit(steps)


def _heard_up_to_now(attempt: Attempt) -> bool:
    """Whether what ranks say is read as they say it: else, and until a little later, silence means nothing."""
    return not 0 <= attempt.clock() - attempt.tracker.waited_at <= AFTER_ROOM


async def _begin_stops(attempt: Attempt, stops: list[asyncio.Task[None]]) -> None:
    """Begin each stop that is asked for, in `stops`: also while whoever reads the run's events is behind, and holds up
    the events of it.
    """
    requests, begun = attempt.run.requests, attempt.stops_before
    while not (attempt.tracker.settled or attempt.watch.broken or requests.detach):
        if requests.count > begun and requests.stop is not None:
            begun = requests.count
            stops.append(asyncio.create_task(_stop(attempt, requests.stop, requests.grace)))
        await requests.next()


def _may_answer(plan: RunPlan) -> bool:
    """Whether ranks may tell where they are in their collectives; labels, of which a plan was made, don't say it."""
    return any(task.insight or not task.start for task in plan.tasks)


async def _tell_steps(attempt: Attempt, asking: AskTurns) -> None:
    """How far ranks are, whether steps come, and that those go on which were said to stand still."""
    stood = attempt.state.why is not None
    if (steps := attempt.steps.news(attempt.tracker.tracks.values(), attempt.clock())) is not None:
        await attempt.emit(steps)
        if stood and attempt.state.why is None:
            await tell_going_on(attempt, asking)
    now, known = attempt.clock(), attempt.state.stalled
    stands = standstill(attempt.plan, replace(attempt.state, stalled=None), now)
    if (stands is None) != (known is None):
        last = stands or Standstill(now)
        await attempt.emit(RunStalled(now, stands is not None, last.since, last.step))


async def _tell_unended(attempt: Attempt, silence: RankSilent) -> None:
    """A rank that is silent since it raised an error is no rank that waits: it holds the others up, or its own end."""
    track = next(t for t in attempt.tracker.tracks.values() if silence.rank in t.task.ranks)
    if silence.quiet and (what := unended(track, silence.rank)):
        who = rank_words(silence.rank, attempt.state.ranks[silence.rank].name)
        await attempt.notice("warning", f"{who} {what}", silence.host)


def _is_stopped(attempt: Attempt) -> bool:
    """Whether somebody stops it who has not had the time for that yet: a second signal would end what is saved now."""
    since = attempt.tracker.stopping_for
    return since is not None and since < attempt.run.requests.grace + TO_END


def _others_end(attempt: Attempt) -> bool:
    """Whether hosts out of reach are not given up yet, since ranks elsewhere are to end first: stopped with their grace
    like by any other stop, and read to their end, before anything of them is removed.
    """
    tracker = attempt.tracker
    if attempt.run.views or all(t.over or t.task.host in tracker.lost_hosts for t in tracker.tracks.values()):
        return False
    if tracker.stopping_for is not None:
        return tracker.stopping_for < attempt.run.requests.grace + TO_END
    if attempt.recorded is not None:
        return not tracker.lost_longer_than(attempt.run.limits.lost)  # their logs are being read
    if attempt.run.requests.stop is None:
        attempt.run.requests.ask_stop("lost", exit=ExitCode.CONTACT_LOST)
    return True


def _stop_by_itself(attempt: Attempt, ready: Callable[[], bool]) -> None:
    """Ask for the stops that the plan asks for: at a failure, as soon as that is `ready`, and once nothing is waited
    for any more.
    """
    tracker = attempt.tracker
    if attempt.recorded is not None or attempt.run.views:
        return
    if tracker.verdict().over_limit:
        if tracker.live_tasks():
            attempt.run.requests.ask_stop("max_duration", exit=ExitCode.TIMEOUT)
    elif tracker.failed and attempt.plan.on_fail == "stop":
        if ready():
            attempt.run.requests.ask_stop("failure", exit=ExitCode.RANK_FAILED)
    elif tracker.hung:
        attempt.run.requests.ask_stop("hang", exit=ExitCode.RANK_FAILED)
    elif tracker.done_at is not None and tracker.live_tasks():
        attempt.run.requests.ask_stop("done", exit=ExitCode.OK)


def _timeout(attempt: Attempt) -> float:
    """How long a lost host is waited for: less once the run is being stopped anyway, not at all where nothing more can
    come of it.
    """
    if attempt.tracker.only_unfollowed and attempt.run.requests.stop is None:
        return 0.0
    if attempt.recorded is not None:
        return min(attempt.run.limits.lost, NEVER_MET)
    if attempt.tracker.done_without:
        return min(attempt.run.limits.lost, elastic.WAIT_FOR_LOST)
    if attempt.tracker.stop_began is None:
        return attempt.run.limits.lost
    if attempt.tracker.only_unmet:  # a stop from elsewhere is pending there, and is said to be
        return min(attempt.run.limits.lost, NEVER_MET)
    return min(attempt.run.limits.lost, attempt.run.requests.grace + TO_END)


async def _wait_for_change(attempt: Attempt) -> None:
    waits = [asyncio.create_task(wait) for wait in (attempt.tracker.changed.wait(), attempt.run.requests.next())]
    try:
        await asyncio.wait(waits, timeout=0.5, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    attempt.tracker.changed.clear()


async def _stop(attempt: Attempt, reason: StopReason, grace: float) -> None:
    """Stop what still lives, on all hosts at once, and tell of it."""
    if attempt.tracker.stop_began is None and not attempt.tracker.verdict().over_limit and _heard_up_to_now(attempt):
        attempt.silences.look(attempt.state, attempt.clock())
    live, reached = attempt.tracker.live_tasks(), attempt.tracker.reached_tasks()
    code = int(attempt.run.requests.exit)
    attempt.tracker.stopped(Stop(attempt.clock(), STOP_CAUSES[reason], exit=code, live=reached))
    ends = live if reason == "failure" else None
    word = StopWord(attempt.run.stopped_as, STOP_CAUSES[reason], code, grace, tasks=ends)
    said = word if reason in SAID else None
    asked = attempt.run.requests.count

    async def one(host: HostRun) -> None:
        if said is not None and live & {task.index for task in host.tasks}:
            await host.notes.say_stopped(said)
        await _stop_on(attempt, host, live, grace, lambda: attempt.run.requests.count > asked)

    # A reader that is behind gets it later: its ranks end all the same. What they do then is reported after it.
    telling = attempt.emit(StopAsked(attempt.clock(), reason, grace))
    await asyncio.gather(telling, *map(one, attempt.hosts.values()))


async def _stop_on(
    attempt: Attempt, host: HostRun, doomed: frozenset[int], grace: float, again: Callable[[], bool]
) -> None:
    """Stop these tasks on their host, until they are: unless a stop is asked for `again` meanwhile.

    One that can't be stopped there keeps nobody for ever: its host is given up as one out of reach is.
    """
    first: float | None = None
    while True:
        live = doomed & attempt.tracker.live_tasks()
        try:
            await host.stop([task for task in host.tasks if task.index in live], grace)
            return
        except DistuiError as exc:
            why = exc.message
        now = attempt.tracker.waited()
        if first is None:
            first = now
            await attempt.notice("warning", f"can't stop: {why}", host.host)
        if now - first >= REFUSED_SECONDS and host.host not in attempt.tracker.lost_hosts:
            await attempt.watch.hosts.lost(host.host, Lost("host", why))
        await asyncio.sleep(AGAIN_SECONDS)
        if again():
            return


def _drop_done(stops: list[asyncio.Task[None]]) -> None:
    """Keep those at work: in a week ranks are asked tens of thousands of times."""
    _raise_bugs(stops)
    stops[:] = [task for task in stops if not task.done()]


def _raise_bugs(stops: Iterable[asyncio.Task[None]]) -> None:
    """Raise what made a stop fail: hosts' errors are reported by the stop itself, so this is a bug."""
    for task in stops:
        if task.done() and not task.cancelled():
            task.result()
