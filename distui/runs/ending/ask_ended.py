"""Where ranks were when they ended: read on the hosts once all have, for ends whose log does not tell.

A program that crashed in compiled code says nothing of its own calls. One that gloo or torch ended since sizes differ
tells neither which rank did something else, nor what. Of a rank that NCCL's watchdog ended torch wrote where it was.
"""

from __future__ import annotations

import asyncio
import signal
from dataclasses import replace

from distui.runs.attempt.attempt import Attempt
from distui.runs.ending.ask_ranks import note, of_attempt
from distui.runs.insight.asking.ask import ask_hosts
from distui.runs.insight.asking.task_names import task_names, with_names
from distui.runs.insight.hang.ended import crashed_at, explain_difference, explain_time_out
from distui.runs.insight.seen.ranks import RankSeen, ranks_of
from distui.runs.lines.events import Failure
from distui.runs.lines.explanation import Explanation
from distui.runs.store.why_records import WhyRecord
from distui.runs.verdict.lines.rules.cause import IN_VAIN, MISMATCH

SECONDS = 10.0
"""How long an end waits for it at the most; it takes one."""

_CRASHES = frozenset(
    128 + number for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
)
_TIME_OUTS = frozenset(cause.text for cause in IN_VAIN)


async def with_places(attempt: Attempt, failure: Failure | None) -> Failure | None:
    """The failure with where its rank crashed, or with who did another collective than the others, or not yet."""
    if failure is None or attempt.explanation is not None or not any(task.insight for task in attempt.plan.tasks):
        return failure
    if failure.cause == MISMATCH.text:
        return await _with(attempt, failure, explain_difference(await _left(attempt), failure.excerpt))
    if failure.cause in _TIME_OUTS and (found := explain_time_out(await _left(attempt))) is not None:
        return await _with(attempt, failure, found)
    if failure.exit in _CRASHES and failure.rank is not None:
        frame = crashed_at(await _left(attempt)).get(failure.rank)
        where = f"at {frame}"
        return replace(failure, cause=f"{failure.cause}: {where}" if failure.cause else where) if frame else failure
    return failure


async def _with(attempt: Attempt, failure: Failure, found: Explanation | None) -> Failure:
    """The failure with what was found, which is kept and reported."""
    if found is None:
        return failure
    found = with_names(attempt.run.mask.event(found), task_names(attempt.plan))
    await note(attempt, WhyRecord(attempt.clock(), "run", found, ()))
    return replace(failure, cause=f"{failure.cause}; {found.headline}", hint=found.advice or failure.hint)


async def _left(attempt: Attempt) -> tuple[RankSeen, ...]:
    """Every rank with what it left behind; none where that takes too long."""
    hosts, tasks, ended = of_attempt(attempt)
    ids = {index: ref for host in hosts for index, ref in host.ids.items()}
    try:
        async with asyncio.timeout(SECONDS):
            answers = await ask_hosts(hosts, ids, left=True)
    except TimeoutError:
        return ()
    return tuple(replace(seen, ended=ended.get(seen.run_rank, "")) for seen in ranks_of(tasks, answers, ended))
