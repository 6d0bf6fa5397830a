"""One verdict for all who follow a run: the first who is done with it records how it ended, everybody else gives that.

It is on the disk here and on the run's hosts before anything is removed there, so that a clean-up which is killed is
finished by whoever comes next, here or on another machine, and its verdict is the same.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import replace

from distui.errors import DistuiError, ExitCode
from distui.runs.attempt.attempt import Attempt
from distui.runs.ending.others import checked_elsewhere
from distui.runs.ending.visits import NOT_KNOWN, all_gone, await_next, leave, may_have, seen_before, visit_hosts
from distui.runs.hosts.readers import Visit
from distui.runs.lines.events import NOBODY_ANSWERED, FailureFound, RankChanged, RankPhase, RunEnded
from distui.runs.report.found import unfound
from distui.runs.store.end_record import (
    FINAL,
    EndRecord,
    cut_short,
    keep_here,
    read_record,
    record_of,
    recorded_here,
)
from distui.runs.task.host_run import HostRun
from distui.runs.verdict.ends.explain import REBOOTED
from distui.spec.hosts.names import fold

RECORD_SECONDS = 20.0
"""How long one host is waited for that writes the verdict: its disk may be slow to sync."""

OFFER_SECONDS = 3 * RECORD_SECONDS
"""How long hosts that answered are offered the verdict one after another, until one has taken it."""


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
                await attempt.watch.ends.removed(track, read=False)
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
    record, before = None, seen_before(attempt)  # what follows may take a while: nothing older is left to others
    if ended.outcome == "succeeded" and attempt.plan.unchecked:
        await checked_elsewhere(attempt)
        if attempt.run.requests.detach:
            await leave(attempt)
            return None
    if ended.outcome in FINAL or (ended.outcome == "unknown" and _nothing_more(attempt)):
        names = attempt.plan.secret_names
        record = record_of(attempt.token, attempt.plan.owner, attempt.run.mask.event(ended), attempt.state, names)
        record = await _write_on_hosts(attempt, record, before) or record
    else:
        record = await _on_hosts(attempt)
    if record is None:
        await visit_hosts(attempt, "leave")
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
    await visit_hosts(attempt, "next" if attempt.awaits else "leave")
    return replace(record.ended, log_dir=str(attempt.run.stored.log_dir))


async def _write_on_hosts(attempt: Attempt, record: EndRecord, before: list[Visit]) -> EndRecord | None:
    """Offer it to the hosts: the first that answers decides whose it is, and the others are given that one.

    Hosts that hang cost the same as one that does: all are asked first, side by side, and those that don't answer are
    offered nothing; for those that hang only afterwards there is a time in all.
    """
    visits = before or await visit_hosts(attempt, "look")
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
            if host.link.is_up and may_have(attempt, host):
                return await host.notes.record(attempt.run.reader, record.text(attempt.plan.run_id), attempt.run.gone)
    return NOT_KNOWN


def _read_on_host(attempt: Attempt, text: str) -> EndRecord | None:
    """What is written there, without values of secrets: whoever wrote it may not have known them."""
    record = read_record(text, attempt.token)
    return None if record is None else replace(attempt.run.mask.event(record), token=record.token)


async def _on_hosts(attempt: Attempt) -> EndRecord | None:
    """The verdict that somebody has written on a host."""
    records = (_read_on_host(attempt, seen.verdict) for seen in await visit_hosts(attempt, "look"))
    return next((record for record in records if record is not None), None)


async def cleaned_up(attempt: Attempt) -> bool:
    """Whether somebody else has cleaned up before all was seen here: containers are gone, and the run's folder wherever
    a host answers. Whoever did that knows how it ended; what was seen here may not be how. What a stop by somebody else
    has removed is explained by its word, what an earlier stop has where we stop it, and what a restart of its host may
    have by that.
    """
    known = attempt.tracker
    ends = (track for track in known.tracks.values() if track.end is None or track.end.state == "removed")
    gone = {track.task.host for track in ends if track.phase == "removed" or track.unseen} - known.rebooted
    asked = any(stop.by or stop.reason != "failure" for stop in known.stops)
    if not gone or asked or not any(may_have(attempt, attempt.hosts[host]) for host in gone):
        return False
    answers = [seen for seen in await visit_hosts(attempt, "look") if seen.known]
    attempt.cleaned_up = bool(answers) and not any(seen.ours for seen in answers)
    return attempt.cleaned_up


async def recorded_elsewhere(attempt: Attempt) -> EndRecord | None:
    """The verdict of whoever owns a run that is only looked on at; who is not kept from removing it any more.

    Where another attempt may follow, that one is waited for by a mark that its owner carries there.
    """
    await await_next(attempt)
    if attempt.recorded is None:
        await checked_elsewhere(attempt)
    if attempt.run.requests.detach:
        await leave(attempt)
        return None
    record = attempt.recorded or await _on_hosts(attempt)
    visits = await visit_hosts(attempt, "next" if record is not None and record.may_go_on else "leave")
    if record is None and not all_gone(visits):
        attempt.awaits = False  # who begins the next attempt records how this one ended
    return record
