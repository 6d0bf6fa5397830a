"""While a run is followed: when to stop it, stopping it, and how long to wait for hosts out of reach."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from distui.errors import DistuiError, ExitCode
from distui.plan.model import Task
from distui.run import elastic
from distui.run.circumstances import Turns, tell_network
from distui.run.events import Notice, StopAsked, StopReason
from distui.run.host_run import HostRun
from distui.run.stop_word import TO_END, StopWord
from distui.run.verdict.evidence import Stop, StopCause

if TYPE_CHECKING:
    from distui.run.controller import RunController

STOP_CAUSES: Mapping[StopReason, StopCause] = {
    "user": "user", "failure": "failure", "timeout": "timeout", "done": "done", "max_duration": "limit",
    "launch_failed": "failure", "lost": "timeout",
}  # fmt: skip
"""A stop's reason, as the verdict knows it."""

SAID: frozenset[StopReason] = frozenset({"user", "timeout", "lost"})
"""Stops that nobody elsewhere could know of from the ends of ranks."""

NEVER_MET = 10.0
"""Seconds that a stop waits for a host which did not answer from its beginning on."""

SAY_SECONDS = 5.0
"""How long a stop waits until it is said on a host."""

AFTER_ROOM = 15.0
"""Seconds after which logs that waited for room on the disk here are read up to now."""


async def supervise(run: RunController) -> None:
    """Until every task is read to its end, a detach is asked for, or lost hosts are given up."""
    stops: list[asyncio.Task[None]] = []
    try:
        await _until_over(run, stops)
    finally:
        for task in stops:
            task.cancel()
        await asyncio.gather(*stops, return_exceptions=True)
    _raise_bugs(stops)


async def _until_over(run: RunController, stops: list[asyncio.Task[None]]) -> None:
    """Wait, and begin the stops that are asked for; they go on in `stops`. Raises what made one fail."""
    known, requests, turns = run.known, run.requests, Turns()
    while not (known.settled or run.watch.broken or requests.detach):
        if known.lost_longer_than(_patience(run)) and not _others_end(run):
            for host in known.lost_hosts:
                run.hosts[host].patience = 0.0
            break
        if run.deadline is not None and run.clock() >= run.deadline and known.stop_began is None:
            run.request_stop("timeout", exit=ExitCode.TIMEOUT)
        if requests.stop is None:
            _stop_by_itself(run)
        if requests.changed.is_set() and requests.stop is not None:
            requests.changed.clear()
            stops.append(asyncio.create_task(_stop(run, requests.stop, requests.grace)))
        await _wait_for_change(run)
        if known.stop_began is None and run.clock() - known.waited_at > AFTER_ROOM:
            for silence in run.silences.news(run.state, run.clock()):
                await run.emit(silence)
            if turns.due(run.clock(), quiet=any(rank.quiet for rank in run.state.ranks.values())):
                stops.append(asyncio.create_task(tell_network(run)))
        _raise_bugs(stops)


def _others_end(run: RunController) -> bool:
    """Whether hosts out of reach are not given up yet, since ranks elsewhere are to end first: stopped with their grace
    like by any other stop, and read to their end, before anything of them is removed.
    """
    known = run.known
    if all(t.over or t.task.host in known.lost_hosts for t in known.tracks.values()):
        return False
    if known.stop_began is not None:
        return run.clock() < known.stop_began + run.requests.grace + TO_END
    if run.recorded is not None:
        return not known.lost_longer_than(run.limits.lost)  # their logs are being read
    if run.requests.stop is None:
        run.request_stop("lost", exit=ExitCode.CONTACT_LOST)
    return True


def _stop_by_itself(run: RunController) -> None:
    """Ask for the stops that the plan asks for: at a failure, and once nothing is waited for any more."""
    known = run.known
    if run.recorded is not None:
        return
    if known.verdict().over_limit:
        if known.live_tasks():
            run.request_stop("max_duration", exit=ExitCode.TIMEOUT)
    elif known.failed and run.plan.on_fail == "stop":
        run.request_stop("failure", exit=ExitCode.RANK_FAILED)
    elif known.done_at is not None and known.live_tasks():
        run.request_stop("done", exit=ExitCode.OK)


def _patience(run: RunController) -> float:
    """How long a lost host is waited for: less once the run is being stopped anyway."""
    if run.recorded is not None:
        return min(run.limits.lost, NEVER_MET)
    if run.known.done_without:
        return min(run.limits.lost, elastic.WAIT_FOR_LOST)
    if run.known.stop_began is None:
        return run.limits.lost
    if run.known.only_unmet:  # a stop from elsewhere is pending there, and is said to be
        return min(run.limits.lost, NEVER_MET)
    return min(run.limits.lost, run.requests.grace + TO_END)


async def _wait_for_change(run: RunController) -> None:
    waits = [asyncio.create_task(e.wait()) for e in (run.known.changed, run.requests.changed)]
    try:
        await asyncio.wait(waits, timeout=0.5, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    run.known.changed.clear()


async def _stop(run: RunController, reason: StopReason, grace: float) -> None:
    """Stop what still lives, on all hosts at once."""
    if run.known.stop_began is None and not run.known.verdict().over_limit:
        run.silences.ledger.look(run.state, run.clock())
    run.known.stopped(Stop(run.clock(), STOP_CAUSES[reason], exit=int(run.requests.exit)))
    await run.emit(StopAsked(run.clock(), reason, grace))
    live = run.known.live_tasks()
    word = StopWord(run.signs or run.plan.owner, STOP_CAUSES[reason], int(run.requests.exit), grace)
    said = word if reason in SAID else None
    results = await asyncio.gather(
        *(_stop_on(h, [t for t in h.tasks if t.index in live], grace, said) for h in run.hosts.values()),
        return_exceptions=True,
    )
    for host, result in zip(run.hosts, results, strict=True):
        if isinstance(result, DistuiError):
            await run.emit(Notice(run.clock(), "warning", f"can't stop: {result.message}", host))
        elif isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
            raise result


async def _stop_on(host: HostRun, tasks: list[Task], grace: float, said: StopWord | None) -> None:
    if said is not None and tasks:
        with contextlib.suppress(DistuiError, TimeoutError):
            async with asyncio.timeout(SAY_SECONDS):
                await host.say_stopped(said)
    await host.stop(tasks, grace)


def _raise_bugs(stops: Iterable[asyncio.Task[None]]) -> None:
    """Raise what made a stop fail: hosts' errors are told by the stop itself, so this is a bug."""
    for task in stops:
        if task.done() and not task.cancelled():
            task.result()
