"""Which task of which run uses which GPU: from plans that are followed here, and from labels found on the hosts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from distui.frozen import frozen

if TYPE_CHECKING:
    from distui.plan.model import RunPlan, Task
    from distui.runs.hosts.discover import FoundRun, FoundRuns, FoundTask


@frozen
class Use:
    """One task of a live run on one host, and the ranks at each of its GPUs."""

    run: str
    job: str
    host: str
    task: int
    ranks: tuple[int, ...]
    gpus: Mapping[int, tuple[int, ...]]
    """GPU index on the host -> ranks that use it."""
    container: str = ""
    """The engine's id of its container; empty for processes and before the start."""
    engine: str = "docker"
    world_size: int = 0
    started: float | None = None
    """When its run or task started, in UTC seconds; None when unknown."""


def uses_of(
    plans: Iterable[tuple[RunPlan, Mapping[int, str], float | None]], found: FoundRuns | None = None
) -> tuple[Use, ...]:
    """Uses of the runs followed here (plan, task -> container id, start) and of those found on the hosts.

    A run that is followed here is known better than by its labels, so what was found of it is left out.
    """
    followed = list(plans)
    own = [use for plan, containers, started in followed for use in _of_plan(plan, containers, started)]
    known = {plan.run_id: plan for plan, _, _ in followed}
    others = [run for run in (found.runs if found else ()) if run.run not in known or not _is_of(run, known[run.run])]
    return (*own, *(use for run in others for use in _of_run([t for t in run.tasks if t.running])))


def _is_of(run: FoundRun, plan: RunPlan) -> bool:
    """Whether a run is the plan's, whose name it has: where one of both does not say of which launch it is, it is."""
    labels = plan.own_labels
    return (
        labels is None or "" in (labels.launch, run.launch) or (labels.launch, labels.owner) == (run.launch, run.owner)
    )


def _of_plan(plan: RunPlan, containers: Mapping[int, str], started: float | None) -> Iterator[Use]:
    for task in plan.tasks:
        yield Use(
            plan.run_id,
            plan.job,
            task.host,
            task.index,
            task.ranks,
            _planned_gpus(task),
            containers.get(task.index, "") if task.engine != "process" else "",
            task.engine,
            plan.world_size,
            started,
        )


def _planned_gpus(task: Task) -> dict[int, tuple[int, ...]]:
    found: dict[int, tuple[int, ...]] = dict.fromkeys(task.gpus, ())
    for rank, gpus in zip(task.ranks, task.rank_gpus, strict=False):
        for gpu in gpus:
            found[gpu] = (*found.get(gpu, ()), rank)
    return found


def _of_run(tasks: Sequence[FoundTask]) -> Iterator[Use]:
    """Tasks of one run. Those of a host that see the same GPUs share them, as local ranks do."""
    sharing: dict[tuple[str, tuple[int, ...]], list[int]] = {}
    for task in tasks:
        sharing.setdefault((task.host, task.labels.gpus), []).extend(task.labels.ranks)
    for task in tasks:
        all_ranks = dealt(sorted(sharing[task.host, task.labels.gpus]), task.labels.gpus)
        own = set(task.labels.ranks)
        yield _of_found(task, {gpu: tuple(r for r in ranks if r in own) for gpu, ranks in all_ranks.items()})


def _of_found(task: FoundTask, gpus: Mapping[int, tuple[int, ...]]) -> Use:
    labels = task.labels
    return Use(
        labels.run,
        labels.job,
        task.host,
        labels.task,
        labels.ranks,
        gpus,
        task.id if labels.engine != "process" else "",
        labels.engine,
        labels.world_size,
        task.started,
    )


def dealt(ranks: Sequence[int], gpus: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """GPU -> ranks when labels tell only the two lists: equal shares in order, else all ranks at every GPU."""
    if ranks and gpus and len(gpus) % len(ranks) == 0:
        share = len(gpus) // len(ranks)
        return {gpu: (ranks[i // share],) for i, gpu in enumerate(gpus)}
    if ranks and gpus and len(ranks) % len(gpus) == 0:
        share = len(ranks) // len(gpus)
        return {gpu: tuple(ranks[i * share : (i + 1) * share]) for i, gpu in enumerate(gpus)}
    return dict.fromkeys(gpus, tuple(ranks))


def gpus_of_processes(found: FoundRuns) -> Mapping[str, set[int]]:
    """Host -> the GPUs that tasks without a container have there: by no id are the processes on them known as ours."""
    given: dict[str, set[int]] = {}
    for task in (task for run in found.runs for task in run.tasks if task.running and task.labels.engine == "process"):
        given.setdefault(task.host, set()).update(task.labels.gpus)
    return given
