"""One verdict for all who follow a run: the first who is done with it records how it ended, everybody else gives that.

It is on the disk here and on the run's hosts before anything is removed there, so that a clean-up which is killed is
finished by whoever comes next, here or on another machine, and its verdict is the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from distui.amounts import duration
from distui.errors import DistuiError, ExitCode
from distui.frozen import frozen
from distui.runs.attempt.attempt import Attempt
from distui.runs.hosts.readers import FRESH_MINUTES, Act, Visit
from distui.runs.lines.events import NOBODY_ANSWERED, FailureFound, RankChanged, RankPhase, RunEnded
from distui.runs.report.found import unfound
from distui.runs.store.end_record import (
    FINAL,
    EndRecord,
    begun_here,
    cut_short,
    keep_here,
    read_record,
    record_of,
    recorded_here,
)
from distui.runs.task.host_run import HostRun
from distui.runs.verdict.ends.explain import REBOOTED
from distui.spec.hosts.names import fold

MARK_SECONDS = 20.0
"""How often the mark of a reader is touched; one that is a minute old counts for nothing."""

VISIT_SECONDS = 10.0
"""How long one host is waited for when all are visited: on the others marks would grow old meanwhile."""

EARLY_SECONDS = 2.0
"""How much longer a mark may take than to find the tasks, beside which it is left."""

RECORD_SECONDS = 20.0
"""How long one host is waited for that writes the verdict: its disk may be slow to sync."""

OFFER_SECONDS = 3 * RECORD_SECONDS
"""How long hosts that answered are offered the verdict one after another, until one has taken it."""

OTHERS_SECONDS = 15.0
"""How long those who still read the logs elsewhere are waited for, before the containers are removed."""

SAY_SECONDS = 3.0
"""After how long of that it is said who is waited for."""

READING_SECONDS = 60.0 * FRESH_MINUTES + MARK_SECONDS
"""How long it takes at most to see whether they go on, or were killed: then their marks grow old."""

LEAVE_SECONDS = 2.0
"""How long hosts are waited for by somebody who was asked to leave."""

LOOK_SECONDS = 0.3

NOT_KNOWN = Visit(ours=False, known=False)
"""Of a host that does not say."""

CLEANED_UP = "it was cleaned up by whoever else followed it while this distui was away: that one knows how it ended"
"""Why nobody here knows how a run ended."""


async def recall(attempt: Attempt) -> None:
    """For a run that is attached to: learn whether it has ended, and how; then only its logs are read on."""
    record = recorded_here(attempt.run.stored, attempt.token) or await _on_hosts(attempt)
    if record is None:
        record = _cut_short(attempt)
        attempt.rest = record is not None
    if record is None:
        return
    attempt.recorded = record
    attempt.watch.ended_before()
    await _say(attempt, record)
    for host in attempt.hosts.values():
        for task in host.tasks if host.host not in attempt.tracker.unmet else ():
            track = attempt.tracker.tracks[task.index]
            if track.unseen:
                await attempt.watch.ends.removed(track)
            elif task.index not in host.ids:
                track.phase = "removed"
    if not attempt.rest:
        keep_here(attempt.run.stored, record)


def _cut_short(attempt: Attempt) -> EndRecord | None:
    """How the run was ended here while a host was out of reach. A stop that is asked for now ends one that was only
    stopped.
    """
    if attempt.run.views or unfound(attempt.plan):
        return None
    record = cut_short(attempt.run.stored, attempt.token, failure_ends=attempt.plan.on_fail == "stop")
    if record is not None and record.ended.outcome == "stopped" and attempt.run.requests.stop == "user":
        return None
    return record


async def concluded_rest(attempt: Attempt, record: EndRecord) -> RunEnded:
    """The end of a run that was ended while a host was out of reach, once what was left there is stopped; as little
    known as before where it still can't be reached.
    """
    out_of_reach = {*attempt.tracker.unmet, *attempt.tracker.lost_hosts}
    for rank in list(attempt.state.ranks.values()):
        if rank.host not in out_of_reach and rank.state in ("running", "lost", "waiting"):
            rebooted = rank.host in attempt.tracker.rebooted
            words = REBOOTED if rebooted else "it ended while its host was out of reach"
            words = "stopped by distui" if rank.state == "running" else words
            state: RankPhase = "stopped" if rank.state == "running" else "removed"
            await attempt.emit(RankChanged(attempt.clock(), rank.rank, rank.host, state, words=words))
    warnings = tuple(text for text in record.ended.warnings if out_of_reach or NOBODY_ANSWERED not in text)
    warnings += tuple(_why_stopped(record))
    ended = replace(record.ended, at=attempt.clock(), log_dir=str(attempt.run.stored.log_dir), warnings=warnings)
    if out_of_reach:
        ended = replace(ended, outcome="unknown", exit=int(ExitCode.CONTACT_LOST))
    return await conclude(attempt, ended) or ended


def _why_stopped(record: EndRecord) -> Iterator[str]:
    """Why ranks were stopped where no failure says it."""
    lost = {rank.host for rank in record.ranks if rank.state == "lost"}
    if lost and record.ended.exit == ExitCode.CONTACT_LOST:
        yield f"the other ranks were stopped since {fold(lost)} {'was' if len(lost) == 1 else 'were'} out of reach"


async def _say(attempt: Attempt, record: EndRecord) -> None:
    """The ranks and the failure as they were when the run ended."""
    runs = {rank.rank for rank in attempt.state.ranks.values() if rank.state == "running"}
    for rank in record.ranks:
        if not (attempt.rest and rank.rank in runs):
            await attempt.emit(replace(rank, at=attempt.clock()))
    if record.ended.failure is not None:
        await attempt.emit(FailureFound(attempt.clock(), record.ended.failure))


async def conclude(attempt: Attempt, ended: RunEnded) -> RunEnded | None:
    """Record that the run ended so, here and on its hosts; returns how it did: as who was first recorded it.

    What may yet become known is not recorded. None when we are asked to leave before somebody who knows more than we do
    has said whether it succeeded.
    """
    record, before = None, _seen_before(attempt)  # what follows may take a while: nothing older is left to others
    if ended.outcome == "succeeded" and attempt.plan.unchecked:
        await _checked_elsewhere(attempt)
        if attempt.run.requests.detach:
            await _leave(attempt)
            return None
    if ended.outcome in FINAL or (ended.outcome == "unknown" and _nothing_more(attempt)):
        names = attempt.plan.secret_names
        record = record_of(attempt.token, attempt.plan.owner, attempt.run.mask.event(ended), attempt.state, names)
        record = await _write_on_hosts(attempt, record, before) or record
    else:
        record = await _on_hosts(attempt)
    if record is None:
        await _visits(attempt, "leave")
        return ended
    attempt.recorded = record
    if not keep_here(attempt.run.stored, record):
        text = f"can't write {attempt.run.stored.path}: how the run ended is not recorded here"
        await attempt.notice("warning", text)
    return replace(record.ended, log_dir=ended.log_dir)


def _nothing_more(attempt: Attempt) -> bool:
    """Whether all there is of the run is read or was removed: who comes later can't know more."""
    tracker = attempt.tracker
    return not tracker.unmet and not tracker.unfound and all(track.over for track in tracker.tracks.values())


async def concluded(attempt: Attempt, record: EndRecord) -> RunEnded:
    """The end of a run that had ended before anybody attached to it: we keep nobody from its containers any more."""
    await _visits(attempt, "next" if attempt.awaits else "leave")
    return replace(record.ended, log_dir=str(attempt.run.stored.log_dir))


async def _write_on_hosts(attempt: Attempt, record: EndRecord, before: list[Visit]) -> EndRecord | None:
    """Offer it to the hosts: the first that answers decides whose it is, and the others are given that one.

    Hosts that hang cost the same as one that does: all are asked first, side by side, and those that don't answer are
    offered nothing; for those that hang only afterwards there is a time in all.
    """
    visits = before or await _visits(attempt, "look")
    hosts = [host for host, seen in zip(attempt.hosts.values(), visits, strict=True) if seen.ours]
    found: EndRecord | None = None
    first, tried = NOT_KNOWN, 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(OFFER_SECONDS):
            while tried < len(hosts) and found is None:
                first = await _write(attempt, hosts[tried], record)
                found, tried = _read_on_host(attempt, first.verdict), tried + 1
    if found is None:
        return None
    answers = [first, *await asyncio.gather(*(_write(attempt, host, found) for host in hosts[tried:]))]
    if tried == 1:
        recorded = dict(zip((host.host for host in hosts), answers, strict=True))
        attempt.visits = [recorded.get(host, seen) for host, seen in zip(attempt.hosts, visits, strict=True)]
    others = (_read_on_host(attempt, answer.verdict) for answer in answers[1:])
    return next((other for other in others if other is not None and other not in (found, record)), found)


async def _write(attempt: Attempt, host: HostRun, record: EndRecord) -> Visit:
    """What is in the folder of a host that has taken the verdict."""
    with contextlib.suppress(DistuiError, TimeoutError):
        async with asyncio.timeout(RECORD_SECONDS):
            if host.link.is_up and _may_have(attempt, host):
                return await host.notes.record(attempt.run.reader, record.text(attempt.plan.run_id), attempt.run.gone)
    return NOT_KNOWN


def _read_on_host(attempt: Attempt, text: str) -> EndRecord | None:
    """What is written there, without values of secrets: whoever wrote it may not have known them."""
    record = read_record(text, attempt.token)
    return None if record is None else replace(attempt.run.mask.event(record), token=record.token)


async def _on_hosts(attempt: Attempt) -> EndRecord | None:
    """The verdict that somebody has written on a host."""
    records = (_read_on_host(attempt, seen.verdict) for seen in await _visits(attempt, "look"))
    return next((record for record in records if record is not None), None)


def _may_have(attempt: Attempt, host: HostRun) -> bool:
    """Whether the host may have a folder of this launch."""
    return bool(attempt.token) and (attempt.run.adopted or host.claim.taken)


async def visited(
    attempt: Attempt, host: HostRun, act: Act = "look", tasks: Iterable[int] = (), *, reader: str = ""
) -> Visit:
    """Do this in the run's folder on a host, where that may be there, as we or as another `reader`."""
    run = attempt.run
    if not _may_have(attempt, host):
        return Visit(ours=False)
    with contextlib.suppress(DistuiError, TimeoutError):
        async with asyncio.timeout(VISIT_SECONDS):
            if host.link.is_up:
                return await host.notes.visit(reader or run.reader, act, tasks, run.gone, run.stopped_as)
    return NOT_KNOWN


async def visit_all(attempt: Attempt) -> None:
    """Look into the run's folder on every host beside what else its end is learned from: see `_seen_before`."""
    attempt.visits = await _visits(attempt, "look")


def _seen_before(attempt: Attempt) -> list[Visit]:
    """What was seen a moment ago, once, where every host said: at a run's end each look is waited for. Else nothing."""
    visits, attempt.visits = attempt.visits, []
    return visits if all(seen.known for seen in visits) else []


async def _visits(attempt: Attempt, act: Act, tasks: Mapping[str, Iterable[int]] | None = None) -> list[Visit]:
    """Do this in the run's folder on every host that answers, or on those that have some of `tasks`."""
    hosts = [host for host in attempt.hosts.values() if tasks is None or host.host in tasks]
    return await asyncio.gather(*(visited(attempt, host, act, (tasks or {}).get(host.host, ())) for host in hosts))


@contextlib.asynccontextmanager
async def reading(attempt: Attempt) -> AsyncIterator[None]:
    """While the block runs, others see on the hosts that the run is read here, and leave its containers."""
    try:
        async with _marked(attempt):
            yield
    finally:
        if attempt.run.requests.detach and not attempt.tracker.settled:
            await _leave(attempt)


@contextlib.asynccontextmanager
async def judging(attempt: Attempt) -> AsyncIterator[None]:
    """The same while it is judged how the run ended: that may take minutes, and our mark is there by now."""
    async with _marked(attempt, after=MARK_SECONDS):
        yield


@contextlib.asynccontextmanager
async def _marked(attempt: Attempt, *, after: float = 0.0) -> AsyncIterator[None]:
    """Leave our mark, and touch it, while the block runs; for the first time `after` so many seconds."""
    marking = asyncio.create_task(_mark(attempt, after))
    try:
        yield
    finally:
        marking.cancel()
        await asyncio.gather(marking, return_exceptions=True)


async def _leave(attempt: Attempt) -> None:
    """Take our mark away where that is done in a moment; elsewhere it grows old."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LEAVE_SECONDS):
            await _visits(attempt, "leave")


async def _mark(attempt: Attempt, after: float) -> None:
    run, plan = attempt.run, attempt.plan
    await asyncio.sleep(after)
    begins = run.planner is not None and not run.adopted and plan.attempt < plan.attempts
    while True:
        await _visits(attempt, "begins" if begins else "mark")
        await asyncio.sleep(MARK_SECONDS)


@contextlib.asynccontextmanager
async def marked_early(attempt: Attempt, host: HostRun) -> AsyncIterator[None]:
    """Leave our mark beside the block, as soon as there is a connection to a host of a run that is taken up or looked
    on at: it may end while its tasks are looked for. A home that hangs is not waited for.
    """
    marking = asyncio.create_task(visited(attempt, host, "mark"))
    try:
        yield
        await asyncio.wait([marking], timeout=EARLY_SECONDS)
    finally:
        marking.cancel()
        await asyncio.gather(marking, return_exceptions=True)


async def leave_early(attempt: Attempt) -> None:
    """Take it away where nobody waits for the run after all."""
    if attempt.run.adopted:
        await _leave(attempt)


async def await_next(attempt: Attempt) -> None:
    """Learn whether whoever started the run is there to begin another attempt, for who took the run up or looks on at
    it: the folder of that attempt is to begin with our mark.

    Before our mark here is taken away: until then the folder stays, or is removed by somebody who waits no longer. Who
    started it on this machine is gone: the run is in our hands.
    """
    if attempt.run.planner is not None and attempt.plan.attempt < attempt.plan.attempts:
        visits = await _visits(attempt, "await")
        there = _gone(visits) or any(seen.begins for seen in visits)
        attempt.awaits = there and not begun_here(attempt.run.stored)


async def cleaned_up(attempt: Attempt) -> bool:
    """Whether somebody else has cleaned up before all was seen here: containers are gone, and the run's folder wherever
    a host answers. Whoever did that knows how it ended; what was seen here may not be how. What a stop by somebody else
    has removed is explained by its word, what an earlier stop has where we stop it, and what a restart of its host may
    have by that.
    """
    known = attempt.tracker
    ends = (track for track in known.tracks.values() if track.end is None or track.end.state == "removed")
    gone = {track.task.host for track in ends if track.phase == "removed"} - known.rebooted
    if not gone or known.stops or not any(_may_have(attempt, attempt.hosts[host]) for host in gone):
        return False
    answers = [seen for seen in await _visits(attempt, "look") if seen.known]
    attempt.cleaned_up = bool(answers) and not any(seen.ours for seen in answers)
    return attempt.cleaned_up


def _gone(visits: Iterable[Visit]) -> bool:
    """Whether the run's folder was removed on all hosts."""
    return all(seen.known and not seen.ours for seen in visits)


async def carry_marks(attempt: Attempt) -> None:
    """Let those be waited for who wait for the run's end since an earlier attempt: this one may be over before they
    have seen it.
    """
    hosts = [host for host in attempt.hosts.values() if attempt.waiters]
    await asyncio.gather(*(visited(attempt, host, "carry", reader=w) for host in hosts for w in attempt.waiters))


async def recorded_elsewhere(attempt: Attempt) -> EndRecord | None:
    """The verdict of whoever owns a run that is only looked on at; who is not kept from removing it any more.

    Where another attempt may follow, that one is waited for by a mark that its owner carries there.
    """
    await await_next(attempt)
    if attempt.recorded is None:
        await _checked_elsewhere(attempt)
    if attempt.run.requests.detach:
        await _leave(attempt)
        return None
    record = attempt.recorded or await _on_hosts(attempt)
    visits = await _visits(attempt, "next" if record is not None and record.may_go_on else "leave")
    if record is None and not _gone(visits):
        attempt.awaits = False  # who begins the next attempt records how this one ended
    return record


async def say_unread(attempt: Attempt) -> None:
    """Leave word of logs that are not complete here: whoever else cleans up leaves their containers.

    Before our mark is taken away: until then they wait for us.
    """
    unread = attempt.tracker.unread_tasks()
    tasks = {h.host: [task.index for task in h.tasks if task.index in unread] for h in attempt.hosts.values()}
    await _visits(attempt, "unread", {host: found for host, found in tasks.items() if found})


@frozen
class Others:
    """What is known of those who read a run elsewhere, once they were waited for."""

    unread: frozenset[int] = frozenset()
    """Tasks whose logs they have not got all the same."""
    reading: str = ""
    """Who goes on reading, in words; "" when nobody does."""
    unasked: frozenset[str] = frozenset()
    """Hosts that did not say."""


async def others_done(attempt: Attempt, *, keeps: bool = False) -> Others | None:
    """Wait for those who still read the run from elsewhere: what is removed they could not read.

    Where containers can stay for them (`keeps`), whoever touches a mark still is known to go on; marks of those who
    were killed grow old. None when we are asked to leave while they read, or while a host does not say.
    """
    visits: list[Visit] | None = _seen_before(attempt)
    if not visits or _read(visits):
        most = OTHERS_SECONDS + (READING_SECONDS if keeps else 0.0)
        visits = await _until(attempt, lambda visits: not _read(visits), most=most)
    if visits is not None and any(seen.silent for seen in visits):
        attempt.awaits = False  # it would have read this attempt to its end by now
    if visits and keeps and _judge(visits):
        visits = await _until(attempt, lambda visits: not _judge(visits) or _go_on(visits), READING_SECONDS)
    if visits is None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_SECONDS):
                visits = await _visits(attempt, "look")
        if visits is None or _read(visits):
            return None
    known = {host for host, seen in zip(attempt.hosts, visits, strict=False) if seen.known}
    return Others(
        unread=frozenset(index for seen in visits for index in seen.unread),
        reading=_who_reads(visits) if keeps and _judge(visits) else "",
        unasked=frozenset(attempt.hosts) - known,
    )


def _who_reads(visits: Iterable[Visit]) -> str:
    return " and ".join(sorted({name for seen in visits for name in seen.names})) or "somebody else"


async def last_look(attempt: Attempt, host: HostRun) -> Visit:
    """Who reads the run on a host that did not say before: they are waited for now, as those on the others were."""
    seen = NOT_KNOWN
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(OTHERS_SECONDS):
            while (seen := await visited(attempt, host)).others:  # noqa: ASYNC110 - it waits for files elsewhere
                await asyncio.sleep(LOOK_SECONDS)
    return seen


async def _checked_elsewhere(attempt: Attempt) -> None:
    """Let whoever reads it too be first to say that it succeeded: here not all that its job asks for is known."""
    await _until(
        attempt, lambda visits: not any(seen.judges for seen in visits) or any(seen.verdict for seen in visits)
    )


async def _until(
    attempt: Attempt, done: Callable[[Iterable[Visit]], bool], seconds: float | None = None, *, most: float = 0.0
) -> list[Visit] | None:
    requests = attempt.run.requests
    limit = OTHERS_SECONDS if seconds is None else seconds
    return await requests.unless(lambda: requests.detach, _looks(attempt, done, limit, most=most))


async def _looks(
    attempt: Attempt, done: Callable[[Iterable[Visit]], bool], seconds: float, *, most: float = 0.0
) -> list[Visit]:
    """What was seen last: when it is `done`, or after `seconds`; nothing where one look took longer. Where `most` is
    how long those who read it are waited for in all, it is said who that is, once it takes a while.
    """
    visits: list[Visit] = []
    began = time.monotonic()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while not done(visits := await _visits(attempt, "look")):
                if most and time.monotonic() > began + SAY_SECONDS:
                    await attempt.notice("info", _waits_for(attempt, visits, most))
                    most = 0.0
                await asyncio.sleep(LOOK_SECONDS)
    return visits


def _waits_for(attempt: Attempt, visits: Iterable[Visit], most: float) -> str:
    """Why nothing is removed yet, in words."""
    return f"{_who_reads(visits)} reads {attempt.plan.run_id}, too, and is waited for, {duration(most)} at most"


def _read(visits: Iterable[Visit]) -> bool:
    return any(seen.others for seen in visits)


def _judge(visits: Iterable[Visit]) -> bool:
    """Whether somebody else reads who owns the run, too, and cleans up when that is done."""
    return any(seen.judges for seen in visits)


def _go_on(visits: Iterable[Visit]) -> bool:
    """Whether one of them does so since the end is recorded; where it is not, nobody can tell."""
    return any(seen.reading for seen in visits) or not any(seen.verdict for seen in visits)
