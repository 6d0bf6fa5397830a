"""Leaving nothing: containers by label, env files and the run's folder, the rendezvous file; then a second look."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Iterable
from functools import partial

from distui.amounts import duration
from distui.errors import DistuiError, HostUnreachable, SessionLost
from distui.plan.labels import named_ranks
from distui.plan.model import Task
from distui.runs.attempt.attempt import Attempt
from distui.runs.ending.others import Others, last_look, others_done
from distui.runs.lines.events import PhaseBegun
from distui.runs.task.host_access import REMOVE_SECONDS
from distui.runs.task.host_run import HostRun
from distui.runs.verdict.ends.explain import place_of
from distui.spec.hosts.names import fold_sorted

SAY_SECONDS = 5.0
"""How long hosts that remove a run are waited for in silence."""

LastLook = Callable[[HostRun, frozenset[int]], Awaitable[tuple[frozenset[int], tuple[str, ...]]]]
"""Which tasks of a host are kept beside those that are known, and that in words."""


async def look(attempt: Attempt) -> None:
    """See on all hosts which started tasks are gone before anything was removed from here."""

    async def one(host: HostRun) -> None:
        with contextlib.suppress(DistuiError, TimeoutError):
            async with asyncio.timeout(REMOVE_SECONDS):
                await host.look()

    await asyncio.gather(*(one(host) for host in attempt.hosts.values()))


async def clean_up(attempt: Attempt, elsewhere: Others, *, keep: bool) -> tuple[str, ...]:
    """Remove what the run left on its hosts, but for its containers with `keep`, and but for those of tasks whose log
    is not complete here, or `elsewhere`, or of which that is not known; returns what may still be there, in words.

    Who stops a run that is recorded waits for no other reader's log.
    """
    unread = attempt.tracker.unread_tasks()
    gone = {index for index in unread if attempt.tracker.tracks[index].phase == "removed"}
    kept = [task for task in attempt.plan.tasks if task.index in unread - gone]
    for task in attempt.plan.tasks:
        if task.index in unread:
            await attempt.notice("warning", _lost(task) if task.index in gone else _kept(attempt, task))
    spared = await _keep_elsewhere(attempt, elsewhere.unread - unread)
    unread |= spared
    read_on = await _keep_for_reader(attempt, elsewhere.reading, unread)
    unread |= read_on
    if keep:
        unread = frozenset(t.index for t in attempt.plan.tasks)
    for host in attempt.hosts.values():  # also those that were gone before anybody here followed the run
        host.missing |= {task.index for task in host.tasks if attempt.tracker.tracks[task.index].phase == "removed"}
    await attempt.emit(PhaseBegun(attempt.clock(), "cleanup"))
    await _remove_rendezvous(attempt)
    unasked = frozenset() if keep or (attempt.run.adopted and attempt.run.removes_all) else elsewhere.unasked
    last, awaits_as = partial(_ask_again, attempt, unasked), attempt.run.reader if attempt.awaits else ""
    left = await _on_all(attempt, attempt.hosts.values(), keep=unread, last=last, awaits_as=awaits_as)
    others = [task for task in attempt.plan.tasks if task.index in spared]
    being_read = [task for task in attempt.plan.tasks if task.index in read_on]
    return (
        *left,
        *(f"{t.host}: {t.container}, kept for its log, which is not complete here" for t in kept),
        *(f"{t.host}: {t.container}, kept for its log, which somebody else has not got" for t in others),
        *(f"{t.host}: {t.container}, kept for its log, which {elsewhere.reading} still reads" for t in being_read),
    )


async def _ask_again(
    attempt: Attempt, unasked: frozenset[str], host: HostRun, keep: frozenset[int]
) -> tuple[frozenset[int], tuple[str, ...]]:
    """Before something is removed on a host that did not say who else reads the run: which other tasks are kept there,
    and that in words. All of them, where it does not say now either, or somebody goes on reading.
    """
    if host.host not in unasked:
        return frozenset(), ()
    await host.link.session(give_up=host.reconnect_timeout)
    seen, here = await last_look(attempt, host), frozenset(task.index for task in host.tasks)
    here -= keep | {index for index in here if attempt.tracker.tracks[index].phase == "removed"}
    spared = here & seen.unread if seen.known and not seen.others else here
    for task in host.tasks:
        if task.index in spared:
            message = (
                f"{_log_of(task)} may not be complete where somebody else reads it, so {place_of(task.engine)} is kept"
            )
            await attempt.notice("warning", f"{message}: `distui stop {attempt.plan.run_id}` removes it")
    tasks = [task for task in attempt.plan.tasks if task.index in spared]
    return spared, tuple(
        f"{t.host}: {t.container}, kept for its log, which somebody else may not have got" for t in tasks
    )


async def _keep_elsewhere(attempt: Attempt, tasks: frozenset[int]) -> frozenset[int]:
    """Which of these, whose logs another reader has not got, are kept for that one; says so."""
    if attempt.run.adopted and attempt.run.removes_all:
        return frozenset()
    for task in attempt.plan.tasks:
        if task.index in tasks:
            message = f"is not complete where somebody else reads it, so {place_of(task.engine)} is kept"
            name = attempt.plan.run_id
            text = f"{_log_of(task)} {message}: `distui stop {name}` there reads it again, here removes it"
            await attempt.notice("warning", text)
    return tasks


async def _keep_for_reader(attempt: Attempt, who: str, kept: frozenset[int]) -> frozenset[int]:
    """All tasks but those that are `kept` anyway, where somebody else goes on reading, who then removes them."""
    if not who or (attempt.run.adopted and attempt.run.removes_all):
        return frozenset()
    tracks = attempt.tracker.tracks
    tasks = frozenset(index for index, track in tracks.items() if track.phase != "removed") - kept
    if tasks:
        name = attempt.plan.run_id
        text = f"{who} still reads {name}, so its containers are kept, and removed there when all is read"
        await attempt.notice("warning", f"{text}: `distui stop {name}` here removes them now")
    return tasks


def _log_of(task: Task) -> str:
    return f"the log of {named_ranks(task.ranks)} on {task.host}"


def _incomplete(task: Task) -> str:
    return f"{_log_of(task)} is not complete here"


def _lost(task: Task) -> str:
    """The same for a task that somebody removed by then."""
    return (
        f"{_incomplete(task)}, and the rest of it is lost: {place_of(task.engine)} was removed before it could be read"
    )


def _kept(attempt: Attempt, task: Task) -> str:
    """What became of a task whose log could not be written or read to its end here, and how to get the log."""
    name = task.labels["distui.run"]
    log = attempt.tracker.tracks[task.index].log
    what = f"`distui stop {name}` reads the rest"
    if log.changed or log.lost_bytes:
        what = f"`distui stop {name}` reads it again from its start"
    elif log.error is not None:
        what = f"free some space here, then {what}"
    return (
        f"{_incomplete(task)}, so {place_of(task.engine)} is kept: {what} and removes it "
        f"(`distui logs -t {name}` prints it from the host)"
    )


async def roll_back(attempt: Attempt) -> tuple[str, ...]:
    """Undo a launch that failed part way: stop and remove every task that it may have started.

    Only on hosts where it has the run's folder: on the others there is nothing of it, maybe another's run. Who waits
    elsewhere for the run's end reads first how it ended.
    """
    hosts = [host for host in attempt.hosts.values() if host.claim.taken]
    if not hosts:
        return ()
    await attempt.emit(PhaseBegun(attempt.clock(), "cleanup", "undoing the start"))
    await asyncio.gather(*(kill_found(h) for h in hosts), return_exceptions=True)
    if attempt.recorded is not None:
        await others_done(attempt)
    if len(hosts) == len(attempt.hosts):  # else no rank of ours was started, and the file is another launch's
        await _remove_rendezvous(attempt)
    return await _on_all(attempt, hosts, keep=frozenset())


async def kill_found(host: HostRun) -> None:
    """Stop what is there. A host that was waited for in vain is not waited for again when it is cleaned up."""
    try:
        found = {task.labels.task for task in await host.found()}
        live = [task for task in host.tasks if task.index in found]
        await host.stop(live, grace=0, give_up=host.reconnect_timeout)
    except (HostUnreachable, SessionLost):
        host.reconnect_timeout = 0.0


async def remove_folders(attempt: Attempt) -> tuple[str, ...]:
    """Of an attempt after which no other was begun: those that were left to whoever was to begin it. Returns what may
    still be there, in words.
    """
    hosts = [host for host in attempt.hosts.values() if host.left_to_starter]
    return await _on_all(attempt, hosts, keep=frozenset())


async def _on_all(
    attempt: Attempt,
    hosts: Iterable[HostRun],
    *,
    keep: frozenset[int],
    last: LastLook | None = None,
    awaits_as: str = "",
) -> tuple[str, ...]:
    """Remove on every host at once; a host that can't be reached is named with what may be on it."""
    going: set[str] = set()

    async def one(host: HostRun) -> tuple[str, ...]:
        going.add(host.host)
        left = await _remove(host, keep, last, awaits_as)
        going.discard(host.host)
        return left

    telling = asyncio.create_task(_tell_slow(attempt, going))
    try:
        results = await asyncio.gather(*map(one, hosts))
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)
    return tuple(words for left in results for words in left)


async def _tell_slow(attempt: Attempt, going: Collection[str]) -> None:
    """Name the hosts that are still at it after a while."""
    await asyncio.sleep(SAY_SECONDS)
    if going:
        text = f"removing it takes long on {fold_sorted(going)}, waited for {duration(REMOVE_SECONDS)} at most"
        await attempt.notice("info", text)


async def _remove(host: HostRun, keep: frozenset[int], last: LastLook | None, awaits_as: str) -> tuple[str, ...]:
    try:
        async with asyncio.timeout(REMOVE_SECONDS):
            more, words = await last(host, keep) if last is not None else (frozenset(), ())
            return (*await host.remove(keep=keep | more, awaits_as=awaits_as), *words)
    except DistuiError as exc:
        return (may_still_have(host, exc.message),)
    except TimeoutError:
        return (may_still_have(host, f"removing took more than {REMOVE_SECONDS:.0f} s"),)


def may_still_have(host: HostRun, why: str) -> str:
    """What a host was not seen to be without, in words."""
    return f"{host.host}: may still have {', '.join(task.name for task in host.tasks)} ({why})"


async def _remove_rendezvous(attempt: Attempt) -> None:
    """The `file` rendezvous stays behind when ranks are killed, and would break the next run that met it (LAB 3)."""
    path = attempt.plan.rendezvous_host_path
    if path is None:
        return
    first = attempt.hosts[attempt.plan.tasks[0].host]
    try:
        await first.remove_file(path)
    except DistuiError as exc:
        await attempt.notice("warning", f"can't remove {path}: {exc.message}", first.host)
