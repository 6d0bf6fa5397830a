"""Which of the runs found on hosts is meant by a name, and its plan: from here, or from its labels."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from distui.plan.labels import TaskLabels
from distui.plan.model import RunPlan, Task
from distui.runs.hosts.discover import FoundRun, FoundTask, found_run
from distui.runs.report.disputes import as_planned, once
from distui.runs.report.older import launch_of, may_live
from distui.runs.store.recorded import stored_plan
from distui.runs.store.runs import StoredRun
from distui.spec.hosts.inventory import Host
from distui.spec.job.job import DoneWhen, Launcher, Success
from distui.whole import whole


def plan_of(found: FoundRun, stored: StoredRun | None, hosts: Sequence[Host]) -> RunPlan:
    """The plan of a run that was found: the stored one when it is the same run's, else rebuilt from its labels.

    A rebuilt plan is enough to follow, stop and clean up; its env and start lines are unknown and empty, and so is how
    its progress is read.
    """
    plan = stored_plan(stored) if stored is not None else None
    if plan is None or not _is_of(plan, found):
        return _from_labels(found, {host.name: host for host in hosts})
    return _with_more(plan, found, hosts) if unfound(plan) else plan


def unfound(plan: RunPlan) -> int:
    """Tasks of a run whose plan was rebuilt that are not in it, by the number in labels: no host reported them."""
    tasks = whole(plan.tasks[0].labels.get("distui.tasks", ""))
    return max(0, (tasks or 0) - len(plan.tasks))


def _with_more(plan: RunPlan, found: FoundRun, hosts: Sequence[Host]) -> RunPlan:
    """A plan that was rebuilt while a host did not answer, with what that one tells now."""
    known = {task.index for task in plan.tasks}
    more = [
        task for task in found.tasks if task.labels.task not in known and _is_of(plan, replace(found, tasks=(task,)))
    ]
    by_name = {host.name: host for host in hosts}
    tasks = (*plan.tasks, *(_task(task, by_name) for task in more))
    return replace(plan, tasks=tuple(sorted(tasks, key=lambda task: task.index)))


def choose(
    named: Sequence[FoundRun], stored: StoredRun | None, owner: str, answered: Collection[str] = ()
) -> FoundRun | None:
    """Which of the runs of one name is meant, by the rule of `older.py`: the launch that is recorded here, and none
    while that may live though no host that `answered` has it; else our own.

    Others are only meant where there is none of ours. A run without an owner is nobody's.
    """
    plan = stored_plan(stored) if stored is not None else None
    if stored is not None and plan is not None and (ours := launch_of(plan)) is not None:
        mine = [run for run in named if (run.launch, run.owner) == ours]
        if (found := next(filter(None, (_of_plan(run, plan) for run in mine)), None)) is not None:
            return as_planned(found, plan) if _is_of(plan, found) and not unfound(plan) else found
        if may_live(stored, answered):
            return None
        named = [run for run in named if run not in mine]
    return next((run for run in named if run.owner == owner), next(iter(named), None))


def _of_plan(run: FoundRun, plan: RunPlan) -> FoundRun | None:
    """The run as far as its record here believes its labels, with the attempt in front that is meant.

    None where all of it claims to be of attempts that the plan does not allow: whoever may start containers there
    writes labels. Nor does another attempt hide the recorded one while all tasks of that are there, and some run; of
    one that is over a later one is what the run is now.
    """
    everything = (*run.tasks, *run.others)
    recorded = [task for task in everything if task.labels.attempt_key == _key(plan)]
    if any(task.running for task in recorded) and _all_there(plan, recorded):
        chosen = recorded
    else:
        believed = [task for task in everything if task.labels.attempt <= plan.attempts]
        if not believed:
            return None
        chosen = list(found_run(run.run, believed).tasks)
        if chosen[0].labels.attempt < plan.attempt and recorded:
            chosen = recorded
    known = {(task.host, task.id) for task in chosen}
    others = tuple(task for task in everything if (task.host, task.id) not in known)
    return FoundRun(run.run, tuple(sorted(chosen, key=lambda task: task.labels.task)), others)


def _all_there(plan: RunPlan, tasks: Sequence[FoundTask]) -> bool:
    return not unfound(plan) and {task.index for task in plan.tasks} <= {task.labels.task for task in tasks}


def _key(plan: RunPlan) -> tuple[str, ...] | None:
    return plan.own_labels.attempt_key if plan.own_labels is not None else None


def _is_of(plan: RunPlan, found: FoundRun) -> bool:
    """Whether a plan is that of the launch and the attempt that were found."""
    labels = found.tasks[0].labels
    return _key(plan) == labels.attempt_key and plan.hash == labels.plan


def _from_labels(found: FoundRun, hosts: Mapping[str, Host]) -> RunPlan:
    labels = found.tasks[0].labels
    return RunPlan(
        run_id=found.run,
        job=labels.job,
        owner=labels.owner,
        version=labels.version,
        attempt=labels.attempt,
        attempts=labels.attempts,
        max_duration=labels.max_duration or None,
        max_restarts=labels.max_restarts,
        min_nodes=labels.min_nodes or None,
        launcher=_LAUNCHERS.get(labels.launcher, "env"),
        backend="nccl" if labels.backend == "nccl" else "mpi" if labels.backend == "mpi" else "gloo",
        init_method="",
        rendezvous_file=None,
        rendezvous_host_path=labels.rendezvous_file or None,
        master_addr="",
        master_port=0,
        world_size=labels.world_size,
        image=None,
        pull="never",
        on_fail=labels.on_fail,
        on_hang=labels.on_hang,
        stop_grace=labels.grace,
        stall_after=labels.stall_after,
        progress=None,  # whoever may start containers there writes labels: none of their regexes is tried
        networks=(),
        tasks=tuple(_task(task, hosts) for task in once(found.tasks)),
        hash=labels.plan,
        done_when=_DONE_WHEN.get(labels.done_when),
        success=_success(labels),
        unchecked=labels.regexes,
    )


def _success(labels: TaskLabels) -> Success | None:
    asked = Success(file=labels.success_file or None, min_seconds=labels.success_seconds or None)
    return asked if asked != Success() else None


_LAUNCHERS: Mapping[str, Launcher] = {"torchrun": "torchrun", "tf": "tf", "command": "command"}
_DONE_WHEN: Mapping[str, DoneWhen] = {"chief": "chief", "worker": "worker", "all": "all"}


def _task(found: FoundTask, hosts: Mapping[str, Host]) -> Task:
    labels: TaskLabels = found.labels
    host = hosts[found.host]
    return Task(
        index=labels.task,
        name=labels.name or f"task{labels.task}",
        host=found.host,
        engine=host.engine,
        engine_command=host.engine_command,
        role=labels.role,
        node_rank=labels.node_rank,
        ranks=labels.ranks,
        gpus=labels.gpus,
        image=None,
        env={},
        secrets=labels.secrets,
        env_file="",
        run_dir="",
        labels=found.raw_labels,
        start=(),
    )
