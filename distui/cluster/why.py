"""Why a run does not go on: its hosts are asked where each rank is, and what that means together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from distui.cluster.attach.places import RunLocation, find, there
from distui.cluster.settings import ClusterSettings
from distui.plan.model import RunPlan
from distui.runs.hosts.discover import FoundRun, FoundTask
from distui.runs.insight.look import Look, look
from distui.runs.insight.ranks import TaskRanks
from distui.runs.report.found import plan_of
from distui.runs.task.host_access import HostAccess
from distui.session import Connector


@dataclass(frozen=True, slots=True)
class Why:
    """What was found, and the plan of the run."""

    plan: RunPlan
    look: Look


async def why(settings: ClusterSettings, connector: Connector, place: RunLocation, *, stacks: bool = False) -> Why:
    """Ask the hosts of a run. Raises NotFound and ContactLost where no host that answers has it, NameTaken."""
    asked, silent = await find(connector, place)
    found = there(settings, place, asked, silent)
    plan = plan_of(found, place.stored, place.hosts)
    hosts = [HostAccess(host, plan, connector) for host in found.hosts]
    ids = {task.labels.task: task.id for task in found.tasks if task.running}
    unasked = {host: trouble.message for host, trouble in silent.items()}
    try:
        asking = (hosts, _tasks(plan, found), ids, _ended(found.tasks), unasked)
        seen = await look(*asking, stacks=stacks)
        if seen.explanation.kind == "unseen" and not stacks:  # somebody wants to know: then stacks are all there is
            seen = await look(*asking, stacks=True)
        return Why(plan, seen)
    finally:
        for host in hosts:
            await host.link.close()


def _ended(tasks: Sequence[FoundTask]) -> dict[int, str]:
    """How ranks ended whose task does not run any more."""
    over = [task for task in tasks if not task.running]
    words = {t.labels.task: f"exit {t.exit}" if t.exit is not None else t.status for t in over}
    return {rank: words[task.labels.task] for task in over for rank in task.labels.ranks}


def _tasks(plan: RunPlan, found: FoundRun) -> list[TaskRanks]:
    """Every task of the run; where a plan made from labels does not know where some are, they are on no known host."""
    tasks = [TaskRanks(task.index, task.host, task.ranks) for task in plan.tasks]
    known = {rank for task in tasks for rank in task.ranks}
    rest = tuple(rank for rank in found.unfound if rank not in known)
    return [*tasks, TaskRanks(-1, "", rest)] if rest else tasks
