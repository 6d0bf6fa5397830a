"""Whether a run that seems to run stands still: the one rule, for what is printed, for lists and for the app. Pure.

That GPUs are busy says nothing: NCCL's kernels spin at full load while they wait. In order:
1. who follows the run asked the ranks, and they do not go on by themselves (`state.why`);
2. steps are known, more of them are to come, and none came for `stall_after`, or five times what one usually takes,
   whichever is longer;
   Until two have come nobody knows how long one takes: ranks that go on with their collectives are at work on the next;
3. steps are not known, or all of them are done (a last save may hang, too), and for `stall_after` no rank said a line,
   none began a collective as far as they were asked, and no GPU of theirs was seen to work (`load.works`): a job may
   say little by nature, and then only these tell that it goes on. Where nobody can wait for another (one rank with one
   GPU), where there is no GPU or nothing is known of it now, ranks are to be quiet (`watch/progress/silence.py`);
4. only what was recorded is known, and that says so. Of a run that is read beside its owner (`state.beside`) this comes
   instead of 2 and 3: only the owner sees what ranks draw without a newline. A step that is read since says otherwise.
`stall_after: 0` leaves the first.

Of a run that nobody follows only the lines are known, by when its engines kept the last of each task: it is quiet
(`quiet_since`), which may be a standstill, or a job that says little.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from distui.frozen import frozen
from distui.plan.model import RunPlan
from distui.runs.lines.explanation import HANGS
from distui.runs.state.load import gpus_of_ranks
from distui.runs.state.progress import last_step_of
from distui.runs.state.reducer import HostState, RankState, RunState
from distui.runs.state.steps import STEPS, Pace, far_behind, first


@frozen
class Standstill:
    """Since when a run stands still, and after which step (None where steps are not known)."""

    since: float
    step: float | None = None


def standstill(plan: RunPlan, state: RunState, now: float) -> Standstill | None:
    """See the module; None for a run that goes on, has not begun, ends or has ended."""
    if state.summary != "running" or state.failure is not None:
        return None
    paces = _at_work(state)
    front = first(paces)
    step = front.last.step if front is not None else None
    why = state.why.found if state.why is not None else None
    if why is not None and why.kind in HANGS and state.why is not None:
        return Standstill(why.since if why.since is not None else state.why.at, step)
    if not plan.stall_after:
        return None
    if state.beside:
        return _recorded(state, paces)
    if front is not None and not _all_done(paces, front, state):
        since = max(_since(paces, state))
        return Standstill(since, step) if now - since > limit(paces, plan.stall_after) else None
    if (since_quiet := _all_quiet(plan, state, now)) is not None:
        return Standstill(since_quiet, step)
    return _recorded(state)


def _recorded(state: RunState, paces: Iterable[Pace] = ()) -> Standstill | None:
    """As whoever follows the run said last, unless one of these steps is newer: its owner may be another one by now."""
    stalled = state.stalled
    if stalled is None or any(pace.last.at > stalled.at for pace in paces):
        return None
    return Standstill(stalled.since, stalled.step)


def quiet_since(said: Iterable[tuple[float | None, float]], now: float) -> float | None:
    """Since when no task said a line, where each that should speak is silent for longer than its `stall_after`.

    `said` has of each task when it said its last line (None where that is not known: then nothing is), and how long it
    may be silent (0: for ever).
    """
    times = [(at, after) for at, after in said if after]
    if any(at is None or now - at <= after for at, after in times):
        return None
    return max((at for at, _ in times if at is not None), default=None)


def steps_done(state: RunState) -> bool:
    """Whether no more steps are to come of the ranks that live, by the job's own `total`."""
    paces = _at_work(state)
    front = first(paces)
    return front is not None and _all_done(paces, front, state)


def _at_work(state: RunState) -> list[Pace]:
    return [pace for rank, pace in state.steps.items() if (r := state.ranks.get(rank)) is None or r.live]


def limit(paces: Iterable[Pace], stall_after: float) -> float:
    """After how many seconds without a step a run stands still."""
    return max([stall_after, *(STEPS * pace.seconds for pace in paces if pace.seconds is not None)])


def _since(paces: Iterable[Pace], state: RunState) -> Iterator[float]:
    """What tells since when no step has come."""
    yield from (pace.last.at for pace in paces)
    if all(pace.seconds is None for pace in paces):
        yield from (rank.moved_at for rank in state.ranks.values() if rank.moved_at is not None)


def _all_done(paces: Iterable[Pace], front: Pace, state: RunState) -> bool:
    """Whether the first rank is at the job's own `total`, and none is left behind."""
    total = last_step_of(state.progress) if state.progress is not None else None
    if total is None or not front.last.step >= total - 1:
        return False
    return not far_behind({pace.last.rank: pace for pace in paces})


def _all_quiet(plan: RunPlan, state: RunState, now: float) -> float | None:
    """Since when, where every rank that should speak is quiet, or its GPUs only wait."""
    signs = []
    for task in plan.tasks:
        after, host = plan.stall_after_of(task), state.hosts.get(task.host, HostState(task.host))
        for rank, gpus in gpus_of_ranks(task) if after else ():
            known = state.ranks.get(rank)
            if known is None or not known.live:
                continue
            sign = max([_last_sign(known), *(host.worked[gpu] for gpu in gpus if gpu in host.worked)])
            waits = (plan.world_size > 1 or len(gpus) > 1) and not host.measured(now).isdisjoint(gpus)
            if not (known.quiet or (waits and now - sign > after and _heard(known))):
                return None
            signs.append(sign)
    return max(signs, default=None)


def _heard(rank: RankState) -> bool:
    """Whether it is known when it said its last line: what was read before it was followed here has no time."""
    return rank.last_line_at is not None or not rank.lines


def _last_sign(rank: RankState) -> float:
    said = rank.last_line_at if rank.last_line_at is not None else rank.since or 0.0
    return said if rank.moved_at is None else max(said, rank.moved_at)
