"""What all who follow a run do in its folder on the hosts: look, and leave marks by which each sees who else reads.

A mark is touched while its reader lives; that of one who was killed grows old.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping

from distui.errors import DistuiError
from distui.runs.attempt.attempt import Attempt
from distui.runs.hosts.readers import Act, Visit
from distui.runs.store.end_record import begun_here
from distui.runs.task.host_run import HostRun

MARK_SECONDS = 20.0
"""How often the mark of a reader is touched; one that is a minute old counts for nothing."""

VISIT_SECONDS = 10.0
"""How long one host is waited for when all are visited: on the others marks would grow old meanwhile."""

EARLY_SECONDS = 2.0
"""How much longer a mark may take than to find the tasks, beside which it is left."""

LEAVE_SECONDS = 2.0
"""How long hosts are waited for by somebody who was asked to leave."""

NOT_KNOWN = Visit(ours=False, known=False)
"""Of a host that does not say."""


def may_have(attempt: Attempt, host: HostRun) -> bool:
    """Whether the host may have a folder of this launch."""
    return bool(attempt.token) and (attempt.run.adopted or host.claim.taken)


async def visited(
    attempt: Attempt, host: HostRun, act: Act = "look", tasks: Iterable[int] = (), *, reader: str = ""
) -> Visit:
    """Do this in the run's folder on a host, where that may be there, as we or as another `reader`."""
    run = attempt.run
    if not may_have(attempt, host):
        return Visit(ours=False)
    with contextlib.suppress(DistuiError, TimeoutError):
        async with asyncio.timeout(VISIT_SECONDS):
            if host.link.is_up:
                return await host.notes.visit(reader or run.reader, act, tasks, run.gone, run.stopped_as)
    return NOT_KNOWN


async def visit_all(attempt: Attempt) -> None:
    """Look into the run's folder on every host beside what else its end is learned from: see `seen_before`."""
    attempt.visits = await visit_hosts(attempt, "look")


def seen_before(attempt: Attempt) -> list[Visit]:
    """What was seen a moment ago, once, where every host said: at a run's end each look is waited for. Else nothing."""
    visits, attempt.visits = attempt.visits, []
    return visits if all(seen.known for seen in visits) else []


async def visit_hosts(attempt: Attempt, act: Act, tasks: Mapping[str, Iterable[int]] | None = None) -> list[Visit]:
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
            await leave(attempt)


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


async def leave(attempt: Attempt) -> None:
    """Take our mark away where that is done in a moment; elsewhere it grows old."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LEAVE_SECONDS):
            await visit_hosts(attempt, "leave")


async def _mark(attempt: Attempt, after: float) -> None:
    run, plan = attempt.run, attempt.plan
    await asyncio.sleep(after)
    begins = run.planner is not None and not run.adopted and plan.attempt < plan.attempts
    while True:
        await visit_hosts(attempt, "begins" if begins else "mark")
        await asyncio.sleep(MARK_SECONDS)


@contextlib.asynccontextmanager
async def marked_early(attempt: Attempt, host: HostRun) -> AsyncIterator[None]:
    """Leave our mark beside the block, as soon as there is a connection to a host of a run that is attached to or
    looked on at: it may end while its tasks are looked for. A home that hangs is not waited for.
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
        await leave(attempt)


async def await_next(attempt: Attempt) -> None:
    """Learn whether whoever started the run is there to begin another attempt, for who took the run up or looks on at
    it: the folder of that attempt is to begin with our mark.

    Before our mark here is taken away: until then the folder stays, or is removed by somebody who waits no longer. Who
    started it on this machine is gone: the run is in our hands.
    """
    if attempt.run.planner is not None and attempt.plan.attempt < attempt.plan.attempts:
        visits = await visit_hosts(attempt, "await")
        there = all_gone(visits) or any(seen.begins for seen in visits)
        attempt.awaits = there and not begun_here(attempt.run.stored)


async def carry_marks(attempt: Attempt) -> None:
    """Let those be waited for who wait for the run's end since an earlier attempt: this one may be over before they
    have seen it.
    """
    hosts = [host for host in attempt.hosts.values() if attempt.waiters]
    await asyncio.gather(*(visited(attempt, host, "carry", reader=w) for host in hosts for w in attempt.waiters))


async def say_unread(attempt: Attempt) -> None:
    """Leave word of logs that are not complete here: whoever else cleans up leaves their containers.

    Before our mark is taken away: until then they wait for us.
    """
    unread = attempt.tracker.unread_tasks()
    tasks = {h.host: [task.index for task in h.tasks if task.index in unread] for h in attempt.hosts.values()}
    await visit_hosts(attempt, "unread", {host: found for host, found in tasks.items() if found})


def all_gone(visits: Iterable[Visit]) -> bool:
    """Whether the run's folder was removed on all hosts."""
    return all(seen.known and not seen.ours for seen in visits)
