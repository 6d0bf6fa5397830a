"""The end of a run that was only looked on at: as whoever owns it has recorded it, else as it was seen from here.

Nothing is recorded, asked of ranks, or removed: who comes later to take the run up finds it as it was.
"""

from __future__ import annotations

from dataclasses import replace

from distui.errors import ExitCode
from distui.runs.attempt.attempt import Attempt
from distui.runs.ending.conclude import CLEANED_UP, cleaned_up, recorded_elsewhere
from distui.runs.ending.finish import ended, left, not_found_words
from distui.runs.lines.events import RunEnded
from distui.runs.report.found import unfound


async def looked_on(attempt: Attempt) -> RunEnded:
    """How it ended, once everything is read; its owner is waited for, who may be about to say so."""
    record = await recorded_elsewhere(attempt)
    if attempt.run.requests.detach:
        return left(attempt)
    if record is not None:
        await attempt.watch.judged_ends.announce(record.ended.failure)
        return replace(record.ended, at=attempt.clock(), log_dir="")
    attempt.tracker.nothing_more(unfound(attempt.plan))
    verdict = attempt.tracker.verdict()
    await attempt.watch.judged_ends.tell_all(verdict)
    await attempt.watch.judged_ends.announce(verdict.failure)
    name = attempt.plan.run_id
    if await cleaned_up(attempt):
        end = ended(attempt, "unknown", ExitCode.CONTACT_LOST, failure=verdict.failure)
        return replace(end, warnings=(CLEANED_UP,))
    message = f"nobody has recorded how {name} ended: this is how it looks; `distui attach {name}` does, and cleans up"
    warnings = (*not_found_words(attempt), message)
    return replace(ended(attempt, verdict.outcome, verdict.exit, failure=verdict.failure), warnings=warnings)
