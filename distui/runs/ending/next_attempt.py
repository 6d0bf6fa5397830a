"""Attempts of a run: whether one that failed is followed by another, and how the next one begins.

Attempts are begun only by the controller that started the run: it alone has the job and the secrets' values. Who took
the run up, or looks on, goes on with the attempt that is begun elsewhere, as long as that controller is there. What
is retried is a run that ran and failed. Not retried is what would fail the same way again (a command that can't be
executed) and what somebody wanted (a stop, a limit).
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from distui.errors import ExitCode
from distui.plan.model import RunPlan
from distui.plan.serialize import to_json
from distui.runs.attempt.attempt import Attempt
from distui.runs.attempt.limits import passed
from distui.runs.attempt.replan import AttemptPlanner, NextAttempt
from distui.runs.ending.cleanup import remove_folders
from distui.runs.lines.events import AttemptEnded, Failure, RunEnded
from distui.spec.hosts.names import fold_texts

OWN_STOPS = frozenset({"failure", "done", "hang"})
"""Stops that nobody asked for: at a failure or a hang, and of tasks that outlive the one whose end is the run's."""

ONLY_STARTER = "only the distui that started the run begins the next attempt"

FIRST_PAUSE, LONGEST_PAUSE = 2.0, 60.0

NEVER_RAN = frozenset({125, 126, 127})
"""Exit statuses of an engine or shell that could not start the command: the next attempt would end the same way."""


def pause_before(number: int) -> float:
    """Seconds of rest before an attempt: 2, 4, 8 ... up to 60, so that a host in trouble is not hammered."""
    return float(min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(number - 2, 10)))


def why_last(attempt: Attempt, failure: Failure | None) -> str | None:
    """Why the attempt that has just failed is the last one, in words; "" where no more were asked for.

    None when another one is due.
    """
    plan, requests = attempt.plan, attempt.run.requests
    if plan.attempt >= plan.attempts or requests.stop not in (None, *OWN_STOPS):
        return ""
    if requests.stop == "hang" and plan.on_hang == "stop":
        return "`on_hang: stop` makes no further attempt"
    if attempt.run.planner is None:
        return ONLY_STARTER
    if requests.detach and not attempt.run.adopted:
        return "no further attempt is begun without a distui that stays"
    if failure is not None and failure.exit in NEVER_RAN:
        return "the command can't be executed, so no further attempt is made"
    if _no_time_left(attempt, pause_before(plan.attempt + 1)):
        return "the time limit leaves no room for another attempt"
    if attempt.run.adopted and not attempt.awaits:
        return f"{ONLY_STARTER}, and that one follows it no more"
    return None


def _no_time_left(attempt: Attempt, pause: float) -> bool:
    """Whether a limit (`--timeout`, what is left of `max_duration`) falls into the pause before the next attempt."""
    deadline, limit = attempt.run.deadline, attempt.plan.max_duration
    if deadline is not None and passed() + pause >= deadline:
        return True
    return limit is not None and attempt.spent + pause >= limit


async def next_attempt(attempt: Attempt, ended: RunEnded) -> Attempt | RunEnded:
    """The attempt that follows one which has `ended`, ready to be launched; otherwise the end of the run."""
    planner = await _planner(attempt, ended)
    if planner is None:
        return ended
    requests, number = attempt.run.requests, attempt.plan.attempt + 1
    pause = pause_before(number)
    surely = ended.outcome == "failed"
    if surely:
        await _say_ended(attempt, ended, pause)
    if requests.stop in OWN_STOPS:
        requests.withdraw_stop()  # it was of the attempt that is over
    async with requests.watching(attempt.run.stored):
        following = await requests.unless(
            lambda: requests.stop is not None or requests.detach, _planned(attempt, planner, pause)
        )
    if following is None and attempt.run.adopted and not requests.detach and requests.stop is None:
        ended = replace(ended, leftovers=(*ended.leftovers, *await remove_folders(attempt)))
    if requests.stop is not None and attempt.run.adopted:
        await attempt.notice("warning", f"nothing runs that could be stopped; {ONLY_STARTER}: stop it there")
    elif requests.stop is not None:
        # How the attempt ended is recorded: a stop of what does not run changes no verdict.
        message = f"attempt {number} is not begun: the run was stopped, and ends as attempt {number - 1} did"
        await attempt.notice("warning", message)
    elif requests.detach and attempt.run.adopted:
        return replace(ended, at=attempt.clock(), outcome="detached", exit=int(ExitCode.OK), failure=None)
    elif requests.detach:
        await attempt.notice("warning", f"attempt {number} is not begun without a distui that stays")
    elif following is not None and await _set_aside(attempt, following.plan):
        if not surely:  # whoever begins another knows that this one failed
            await _say_ended(attempt, ended, 0.0)
        return await attempt.followed_by(following, ran=True)
    return replace(ended, at=attempt.clock())


async def _say_ended(attempt: Attempt, ended: RunEnded, pause: float) -> None:
    number = attempt.plan.attempt
    kept_in = "" if attempt.run.views else str(attempt.run.stored.attempt(number).log_dir)
    older = any(past.failure is ended.failure for past in attempt.state.past)
    own = None if older else ended.failure  # one that could not start has none, and ended as the one before it
    await attempt.emit(AttemptEnded(attempt.clock(), number, attempt.plan.attempts, own, pause, kept_in))


async def _planner(attempt: Attempt, ended: RunEnded) -> AttemptPlanner | None:
    """What plans the next attempt; None when `ended` is how the run ends.

    Of an attempt that somebody else has cleaned up nobody here knows whether it failed: where its starter may be the
    one who did, that one may begin another.
    """
    if ended.outcome == "unknown" and attempt.cleaned_up and attempt.awaits:
        return attempt.run.planner if why_last(attempt, None) is None else None
    why = why_last(attempt, ended.failure) if ended.outcome == "failed" else ""
    if why is None and ended.leftovers and not attempt.run.adopted:
        why = "not everything could be removed, so no further attempt is made"
    if why:
        await attempt.notice("warning", f"attempt {attempt.plan.attempt} of {attempt.plan.attempts} failed; {why}")
    return attempt.run.planner if why is None else None


async def _planned(attempt: Attempt, planner: AttemptPlanner, pause: float) -> NextAttempt | None:
    """The next attempt, planned after the pause: a host may be on its way back. None, said why, without a plan."""
    await asyncio.sleep(pause)
    number = attempt.plan.attempt + 1
    found = await planner(number, attempt.run.spent)
    if isinstance(found, NextAttempt):
        return found
    reasons = "; ".join(fold_texts(map(str, found.problems), attempt.plan.hosts))
    what = f"attempt {number} is not there" if attempt.run.adopted else f"there is no plan for attempt {number}"
    await attempt.notice("error", f"{what}: {reasons}")
    return None


async def _set_aside(attempt: Attempt, plan: RunPlan) -> bool:
    """Move what is recorded of the attempt that has ended out of the way and record the next one's plan.

    False, with the reason said, when that can't be written here.
    """
    stored = attempt.run.stored
    try:
        stored.set_aside(attempt.plan.attempt)
        stored.write_plan(to_json(plan))
    except OSError as exc:
        text = f"can't write {stored.path}: {exc.strerror}; attempt {plan.attempt} is not begun"
        await attempt.notice("error", text)
        return False
    return True
