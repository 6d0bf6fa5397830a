"""Who reads a run elsewhere, and how long its clean-up waits for them: what is removed they could not read."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable

from distui.amounts import duration
from distui.frozen import frozen
from distui.runs.attempt.attempt import Attempt
from distui.runs.ending.visits import LEAVE_SECONDS, MARK_SECONDS, NOT_KNOWN, seen_before, visit_hosts, visited
from distui.runs.hosts.readers import FRESH_MINUTES, Visit
from distui.runs.task.host_run import HostRun

OTHERS_SECONDS = 15.0
"""How long those who still read the logs elsewhere are waited for, before the containers are removed."""

SAY_SECONDS = 3.0
"""After how long of that it is said who is waited for."""

READING_SECONDS = 60.0 * FRESH_MINUTES + MARK_SECONDS
"""How long it takes at most to see whether they go on, or were killed: then their marks grow old."""

LOOK_SECONDS = 0.3


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
    visits: list[Visit] | None = seen_before(attempt)
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
                visits = await visit_hosts(attempt, "look")
        if visits is None or _read(visits):
            return None
    known = {host for host, seen in zip(attempt.hosts, visits, strict=False) if seen.known}
    return Others(
        unread=frozenset(index for seen in visits for index in seen.unread),
        reading=_who_reads(visits) if keeps and _judge(visits) else "",
        unasked=frozenset(attempt.hosts) - known,
    )


async def last_look(attempt: Attempt, host: HostRun) -> Visit:
    """Who reads the run on a host that did not say before: they are waited for now, as those on the others were."""
    seen = NOT_KNOWN
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(OTHERS_SECONDS):
            while (seen := await visited(attempt, host)).others:  # noqa: ASYNC110 - it waits for files elsewhere
                await asyncio.sleep(LOOK_SECONDS)
    return seen


async def checked_elsewhere(attempt: Attempt) -> None:
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
            while not done(visits := await visit_hosts(attempt, "look")):
                if most and time.monotonic() > began + SAY_SECONDS:
                    await attempt.notice("info", _waits_for(attempt, visits, most))
                    most = 0.0
                await asyncio.sleep(LOOK_SECONDS)
    return visits


def _waits_for(attempt: Attempt, visits: Iterable[Visit], most: float) -> str:
    """Why nothing is removed yet, in words."""
    return f"{_who_reads(visits)} reads {attempt.plan.run_id}, too, and is waited for, {duration(most)} at most"


def _who_reads(visits: Iterable[Visit]) -> str:
    return " and ".join(sorted({name for seen in visits for name in seen.names})) or "somebody else"


def _read(visits: Iterable[Visit]) -> bool:
    return any(seen.others for seen in visits)


def _judge(visits: Iterable[Visit]) -> bool:
    """Whether somebody else reads who owns the run, too, and cleans up when that is done."""
    return any(seen.judges for seen in visits)


def _go_on(visits: Iterable[Visit]) -> bool:
    """Whether one of them does so since the end is recorded; where it is not, nobody can tell."""
    return any(seen.reading for seen in visits) or not any(seen.verdict for seen in visits)
