"""Taking up a run that was found on its hosts: its plan, from here or from its labels, and stopping it from afar."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from distui.errors import DistuiError, ExitCode, UsageError
from distui.plan.labels import TaskLabels, format_ranks, task_from_labels
from distui.plan.model import RunPlan, Task
from distui.runs.hosts.discover import FoundRun, FoundTask
from distui.runs.hosts.stop_word import StopWord
from distui.runs.report.older import launch_of, may_live
from distui.runs.store.recorded import stored_plan
from distui.runs.store.runs import StoredRun
from distui.runs.task.host_run import HostRun
from distui.session import Connector
from distui.spec.inventory import Host
from distui.spec.job import DoneWhen, Launcher, Success


def plan_of(found: FoundRun, stored: StoredRun | None, hosts: Sequence[Host]) -> RunPlan:
    """The plan of a run that was found: the stored one when it is the same run's, else rebuilt from its labels.

    A rebuilt plan is enough to follow, stop and clean up; its env and start lines are unknown and empty, and so is how
    its progress is read.
    """
    plan = stored_plan(stored) if stored is not None else None
    if plan is not None and _is_of(plan, found):
        return plan
    return _from_labels(found, {host.name: host for host in hosts})


def choose(
    named: Sequence[FoundRun], stored: StoredRun | None, owner: str, answered: Collection[str] = ()
) -> FoundRun | None:
    """Which of the runs of one name is meant, by the rule of `older.py`: the launch that is recorded here, and none
    while that may live though no host that `answered` has it; else our own.

    Others are only meant where there is none of ours. A run without an owner is nobody's.
    """
    plan = stored_plan(stored) if stored is not None else None
    if stored is not None and plan is not None and (ours := launch_of(plan)) is not None:
        for run in named:
            if (run.launch, run.owner) == ours:
                return _of_attempt(run, plan.attempt)
        if may_live(stored, answered):
            return None
    return next((run for run in named if run.owner == owner), next(iter(named), None))


def _of_attempt(run: FoundRun, attempt: int) -> FoundRun:
    """The run with the tasks of the attempt that is recorded here in front; a later one is what it is now."""
    if run.attempt >= attempt and run.attempt <= run.attempts:
        return run
    tasks = tuple(t for t in run.others if t.labels.attempt == attempt)
    if not tasks:
        return run
    return FoundRun(run.run, tasks, (*run.tasks, *(t for t in run.others if t.labels.attempt != attempt)))


def _is_of(plan: RunPlan, found: FoundRun) -> bool:
    """Whether a plan is that of the launch and the attempt that were found."""
    ours = task_from_labels(plan.tasks[0].labels) if plan.tasks else None
    labels = found.tasks[0].labels
    return ours is not None and ours.attempt_key == labels.attempt_key and plan.hash == labels.plan


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
        stop_grace=labels.grace,
        stall_after=labels.stall_after,
        progress=None,  # whoever may start containers there writes labels: none of their regexes is tried
        networks=(),
        tasks=tuple(_task(task, hosts) for task in found.tasks),
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


@dataclass(frozen=True, slots=True)
class StopReport:
    """What a stop from afar did: errors by host, and what is left, in words."""

    errors: Mapping[str, str]
    leftovers: tuple[str, ...]


async def stop_found(
    connector: Connector, found: FoundRun | None, plan: RunPlan, *, who: str, grace: float, remove: bool = True
) -> StopReport:
    """Stop every task of a run on the hosts that answer, and remove what it left; safe to repeat."""

    async def stop(host: HostRun) -> tuple[str, ...]:
        await host.notes.say_stopped(StopWord(who, "user", int(ExitCode.TERMINATED), grace))
        await host.stop(_running(host, found), grace)
        return await host.remove() if remove else ()

    return await _on_hosts(connector, plan, plan.hosts, stop)


async def stop_ranks(
    connector: Connector, found: FoundRun | None, plan: RunPlan, ranks: Collection[int], *, who: str, grace: float
) -> StopReport:
    """Stop the tasks of some ranks and leave the rest alone: what becomes of the run is its job's `on_fail`.

    To whoever follows it they fail, and `who` ended them. Raises UsageError when a task has ranks that are not among
    them: they live and end together.
    """
    chosen = [task for task in plan.tasks if set(task.ranks) & set(ranks)]
    for task in chosen:
        if not set(task.ranks) <= set(ranks):
            message = f"ranks {format_ranks(task.ranks)} on {task.host} are one task and end together"
            raise UsageError(message, hint=f"--rank {format_ranks(task.ranks)}")

    async def stop(host: HostRun) -> tuple[str, ...]:
        tasks = [task for task in _running(host, found) if task in chosen]
        await host.notes.say_ended(StopWord(who, "user", int(ExitCode.TERMINATED), grace), tasks)
        await host.stop(tasks, grace)
        return ()

    return await _on_hosts(connector, plan, tuple(dict.fromkeys(task.host for task in chosen)), stop)


def _running(host: HostRun, found: FoundRun | None) -> list[Task]:
    tasks = found.tasks if found is not None else ()
    running = {t.labels.task for t in tasks if t.running and t.host == host.host}
    return [task for task in host.tasks if task.index in running]


async def _on_hosts(
    connector: Connector, plan: RunPlan, names: Sequence[str], work: Callable[[HostRun], Awaitable[tuple[str, ...]]]
) -> StopReport:
    """Do something on these hosts of a run side by side; a host that fails keeps none of the others from it."""
    hosts = [HostRun(name, plan, connector) for name in names]

    async def one(host: HostRun) -> tuple[str, ...]:
        await host.connect()
        return await work(host)

    try:
        results = await asyncio.gather(*(one(host) for host in hosts), return_exceptions=True)
    finally:
        await asyncio.gather(*(host.link.close() for host in hosts))
    errors: dict[str, str] = {}
    left: list[str] = []
    for host, result in zip(hosts, results, strict=True):
        if isinstance(result, DistuiError):
            errors[host.host] = result.message
        elif isinstance(result, BaseException):
            raise result
        else:
            left += result
    return StopReport(errors, tuple(left))
