"""A collective timed out and ranks still live: they are asked where they are, before they are stopped for it.

What they tell is evidence of the verdict. A stop at a failure waits for it for a moment, once; no stop that somebody
asks for does.
"""

from __future__ import annotations

import asyncio
import contextlib

from distui.runs.attempt.attempt import Attempt
from distui.runs.ending.ask_ranks import note, ranks_seen
from distui.runs.insight.asking.look import Look
from distui.runs.lines.explanation import STANDS
from distui.runs.store.why_records import WhyRecord
from distui.runs.verdict.lines.causes import ECHOES
from distui.runs.verdict.lines.last_words import last_words
from distui.runs.verdict.lines.rules.cause import IN_VAIN

SECONDS, PATIENCE_S = 5.0, 2.0
"""How long a stop waits for ranks at the most; they take two. And how much of it for NCCL's RAS and drivers."""
WORDS_S = 0.5
"""How long it waits for last words of another rank that tell of a time-out."""
UNREAD_S = 3.0
"""How long it waits for the rest of the log of a rank that has ended: its last words may be in it."""

_TIME_OUTS = frozenset(cause.text for cause in IN_VAIN)


class BeforeStop:
    """Lets a stop at a failure wait a moment for what ranks tell, where a collective timed out; once, and bounded."""

    def __init__(self) -> None:
        self._asking: asyncio.Task[None] | None = None
        self._failed_at: float | None = None

    def waits(self, attempt: Attempt, tasks: list[asyncio.Task[None]]) -> bool:
        """Whether the stop is to wait; what asks is among `tasks` from then on."""
        tracker = attempt.tracker
        if not any(task.insight for task in attempt.plan.tasks if task.index in tracker.live_tasks()):
            return False
        if self._failed_at is None:
            self._failed_at = tracker.waited()
        since = tracker.waited() - self._failed_at
        if self._asking is not None:
            return not self._asking.done() and since < UNREAD_S + SECONDS
        failure = tracker.verdict().failure
        if failure is not None and failure.cause in _TIME_OUTS and since <= UNREAD_S:
            self._asking = asyncio.create_task(ask_who_held_up(attempt))
            self._asking.add_done_callback(lambda _: tracker.changed.set())
            tasks.append(self._asking)
            return True
        unread = any(tracker.tracks[index].phase == "exited" for index in tracker.bad())
        follows = failure is not None and failure.cause in ECHOES
        return (unread and since < UNREAD_S) or (follows and since < WORDS_S)


async def ask_who_held_up(attempt: Attempt) -> None:
    """A collective timed out: ask the ranks that live where they are, before they are stopped, for the verdict.

    What was found before says more, where the same ranks held the others up: then all of them were still in it.
    """
    seen: Look | None = None
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SECONDS):
            seen = await ranks_seen(attempt, _in_vain(attempt), patience=PATIENCE_S)
    found, before = seen.explanation if seen is not None else None, attempt.explanation
    if before is not None and (found is None or found.culprits in ((), before.culprits)):
        found = before
    if found is not None and found.kind in STANDS:
        attempt.tracker.held_up(attempt.run.mask.event(found))
        await note(attempt, WhyRecord(attempt.clock(), "run", found, seen.calls if seen is not None else ()))


def _in_vain(attempt: Attempt) -> frozenset[int]:
    """The ranks that said that they had waited for others in vain, or had lost them."""
    said = {
        rank: last_words(lines)
        for track in attempt.tracker.tracks.values()
        for rank, lines in track.seen().lines.items()
        if rank is not None
    }
    return frozenset(rank for rank, words in said.items() if words is not None and words.weight in ("waited", "echo"))
