"""Attempts of a run: whether one that failed is followed by another, and how the next one begins.

Attempts are begun only by the controller that started the run: it alone has the job and the secrets' values. What
is retried is a run that ran and failed. Not retried is what would fail the same way again (a command that can't be
executed) and what somebody wanted (a stop, a limit).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from distui.plan.model import RunPlan
from distui.plan.serialize import to_json
from distui.run.asked import heeding, unless
from distui.run.events import AttemptEnded, Failure, RunEnded
from distui.run.replan import Again, NextAttempt

if TYPE_CHECKING:
    from distui.run.controller import RunController

T = TypeVar("T")

OWN_STOPS = frozenset({"failure", "done"})
"""Stops that nobody asked for: at a failure, and of tasks that outlive the one whose end is the run's."""

FIRST_PAUSE, LONGEST_PAUSE = 2.0, 60.0

NEVER_RAN = frozenset({125, 126, 127})
"""Exit statuses of an engine or shell that could not start the command: the next attempt would end the same way."""


def pause_before(attempt: int) -> float:
    """Seconds of rest before an attempt: 2, 4, 8 ... up to 60, so that a host in trouble is not hammered."""
    return float(min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(attempt - 2, 10)))


def why_last(run: RunController, failure: Failure | None) -> str | None:
    """Why the attempt that has just failed is the last one, in words; "" where no more were asked for.

    None when another one is due.
    """
    plan = run.plan
    if plan.attempt >= plan.attempts or run.requests.stop not in (None, *OWN_STOPS):
        return ""
    if run.again is None:
        return "only the distui that started the run begins the next attempt"
    if run.requests.detach:
        return "no further attempt is begun without a distui that stays"
    if failure is not None and failure.exit in NEVER_RAN:
        return "the command can't be executed, so no further attempt is made"
    if _no_time_left(run, pause_before(plan.attempt + 1)):
        return "the time limit leaves no room for another attempt"
    return None


def _no_time_left(run: RunController, pause: float) -> bool:
    """Whether a limit (`--timeout`, what is left of `max_duration`) falls into the pause before the next attempt."""
    if run.deadline is not None and run.clock() + pause >= run.deadline:
        return True
    limit = run.plan.max_duration
    return limit is not None and run.clock() - run.attempt_began + pause >= limit


async def run_attempts(run: RunController) -> RunEnded:
    """One attempt after the other, until one does not fail or none is left."""
    while True:
        ended = await run.attempt()
        again = await _again(run, ended)
        if again is None:
            return ended
        number = run.plan.attempt + 1
        pause = pause_before(number)
        await run.emit(AttemptEnded(run.clock(), number - 1, run.plan.attempts, ended.failure, pause, _kept_in(run)))
        following = await _until_asked(run, _after(run, again, pause))
        if run.requests.stop is not None:
            # How the attempt ended is recorded: a stop of what does not run changes no verdict.
            words = f"attempt {number} is not begun: the run was stopped, and ends as attempt {number - 1} did"
            await run.notice("warning", words)
            return replace(ended, at=run.clock())
        if run.requests.detach:
            await run.notice("warning", f"attempt {number} is not begun without a distui that stays")
            return replace(ended, at=run.clock())
        if following is None or not await _set_aside(run, following.plan):
            return replace(ended, at=run.clock())
        await run.renew(following)


async def _again(run: RunController, ended: RunEnded) -> Again | None:
    """What plans the next attempt; None when `ended` is how the run ends."""
    attempt, attempts = run.plan.attempt, run.plan.attempts
    why = why_last(run, ended.failure) if ended.outcome == "failed" else ""
    if why is None and ended.leftovers:
        why = "not everything could be removed, so no further attempt is made"
    if why:
        await run.notice("warning", f"attempt {attempt} of {attempts} failed; {why}")
    return run.again if why is None else None


async def _after(run: RunController, again: Again, pause: float) -> NextAttempt | None:
    """The next attempt, planned after the pause: a host may be on its way back. None, said why, without a plan."""
    await asyncio.sleep(pause)
    attempt = run.plan.attempt + 1
    found = await again(attempt, run.clock() - run.began)
    if isinstance(found, NextAttempt):
        return found
    reasons = "; ".join(map(str, found.problems))
    await run.notice("error", f"there is no plan for attempt {attempt}: {reasons}")
    return None


def _kept_in(run: RunController) -> str:
    """Where the logs of the attempt that has ended will be."""
    return str(run.stored.attempt(run.plan.attempt).log_dir)


async def _until_asked(run: RunController, work: Coroutine[Any, Any, T]) -> T | None:
    """Do `work`, given up (None) at a stop or a detach; the stop that the attempt made by itself is over."""
    if run.requests.stop in OWN_STOPS:
        run.requests.stop = None
    async with heeding(run):
        return await unless(run, lambda: run.requests.stop is not None or run.requests.detach, work)


async def _set_aside(run: RunController, plan: RunPlan) -> bool:
    """Move what is recorded of the attempt that has ended out of the way and record the next one's plan.

    False, with the reason said, when that can't be written here.
    """
    try:
        run.stored.set_aside(run.plan.attempt)
        run.stored.write_plan(to_json(plan))
    except OSError as exc:
        text = f"can't write {run.stored.path}: {exc.strerror}; attempt {plan.attempt} is not begun"
        await run.notice("error", text)
        return False
    return True
