"""Ranks of a run that lives say nothing: ask them where they are, and say who holds the others up.

The connections of the run are used. A run that goes on is only asked for its positions, and nothing is said.
"""

from __future__ import annotations

from distui.runs.attempt.attempt import Attempt
from distui.runs.insight.explain import STANDS, Explanation
from distui.runs.insight.look import look
from distui.runs.insight.ranks import TaskRanks
from distui.runs.watch.silence import silent_for


def any_silent(attempt: Attempt, now: float) -> bool:
    """Whether a rank has said nothing for `stall_after`, whatever its GPUs do: NCCL's spin while they wait."""
    for task in attempt.plan.tasks:
        after = attempt.plan.stall_after_of(task)
        for rank in task.ranks:
            known = attempt.state.ranks.get(rank)
            silent = silent_for(known, now) if known is not None else None
            if after and silent is not None and silent > after:
                return True
    return False


async def tell_why(attempt: Attempt) -> None:
    """Say who holds the others up, if anybody does, and only what was not said before."""
    found = await _explained(attempt)
    before = attempt.explanation
    attempt.explanation = found if found.kind in STANDS else None
    if found.kind in STANDS and (before is None or before.culprits != found.culprits or before.kind != found.kind):
        advice = f"; {found.advice}" if found.advice else ""
        await attempt.notice("warning", f"{found.headline}{advice}; `distui why {attempt.plan.run_id}` shows all ranks")


async def _explained(attempt: Attempt) -> Explanation:
    tracks = attempt.tracker.tracks.values()
    over = {index for host in attempt.hosts.values() for index in host.missing}
    ended = {
        rank: f"exit {track.end.code}" if track.end.code is not None else track.end.state
        for track in tracks
        if track.end is not None
        for rank in track.task.ranks
    }
    over |= {track.task.index for track in tracks if track.end is not None}
    tasks = [TaskRanks(task.index, task.host, task.ranks) for task in attempt.plan.tasks]
    ids = {index: ref for host in attempt.hosts.values() for index, ref in host.ids.items() if index not in over}
    return (await look(list(attempt.hosts.values()), tasks, ids, ended)).explanation
