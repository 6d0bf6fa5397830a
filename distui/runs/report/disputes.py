"""Tasks that say they are the same one of a run, on several hosts: whoever may start containers there writes labels.

Such a container could else stand for a rank of another host, whose users it can't touch otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from distui.plan.labels import MOST_RANKS, named_ranks
from distui.plan.model import RunPlan
from distui.runs.hosts.discover import FoundRun, FoundTask


def as_planned(found: FoundRun, plan: RunPlan) -> FoundRun:
    """A run of which the recorded plan is known, as that has it where several claim one place in it."""
    if not disputed(found):
        return found
    planned = {(task.index, task.host, task.ranks) for task in plan.tasks}
    own = tuple(task for task in found.tasks if (task.labels.task, task.host, task.labels.ranks) in planned)
    rest = tuple(task for task in found.tasks if task not in own)
    return replace(found, tasks=own, others=(*found.others, *rest)) if own else found


def disputed(found: FoundRun) -> str:
    """What several hosts claim of a run, in words; empty where its tasks can all be its own.

    Each task and each rank is on one host, and all tasks say alike how many there are.
    """
    return next(_disputes(found.tasks), "")


def once(tasks: Sequence[FoundTask]) -> tuple[FoundTask, ...]:
    """Of several that claim one task, the first."""
    first: dict[int, FoundTask] = {}
    for task in tasks:
        first.setdefault(task.labels.task, task)
    return tuple(first.values())


def _disputes(tasks: Sequence[FoundTask]) -> Iterator[str]:
    ranks: dict[int, str] = {}
    indexes: dict[int, str] = {}
    counts = tasks[0].labels
    for one in tasks:
        labels, host = one.labels, one.host
        if (other := indexes.setdefault(labels.task, host)) != host:
            yield f"{_hosts(host, other)} both have a task that says it is number {labels.task}"
        for rank in labels.ranks[:MOST_RANKS]:
            if (other := ranks.setdefault(rank, host)) != host:
                yield f"{_hosts(host, other)} both have a task that says it is {named_ranks((rank,))}"
        if (labels.tasks, labels.world_size) != (counts.tasks, counts.world_size):
            yield f"those on {_hosts(host, tasks[0].host)} differ in how many ranks and tasks there are"
        if labels.tasks and not 0 <= labels.task < labels.tasks:
            yield f"{host} has a task that says it is number {labels.task}, of {labels.tasks} from 0"


def _hosts(one: str, other: str) -> str:
    return " and ".join(sorted({one, other}))
