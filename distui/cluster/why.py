"""Why a run does not go on: its hosts are asked where each rank is, and what that means together.

Of a run that has ended it is what its ranks answered while it lived.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import field

from distui.cluster.attach.leftover import run_there
from distui.cluster.attach.places import RunLocation, find
from distui.cluster.masks import mask_of
from distui.cluster.settings import ClusterSettings
from distui.errors import NotFound
from distui.frozen import frozen
from distui.plan.model import RunPlan
from distui.runs.control.controller import RunController
from distui.runs.ending.ask_ranks import ranks_watched
from distui.runs.hosts.discover import FoundRun, FoundTask
from distui.runs.insight.asking.closer import look_and_watch
from distui.runs.insight.asking.look import Asked, Look
from distui.runs.insight.asking.task_names import task_names
from distui.runs.insight.seen.answers import HostAnswer
from distui.runs.insight.seen.ranks import RankSeen, TaskRanks
from distui.runs.insight.seen.sick import gpus_of
from distui.runs.insight.slow.slow import Slow
from distui.runs.lines.events import NetworkUsed
from distui.runs.lines.explanation import Explanation
from distui.runs.report.found import plan_of
from distui.runs.report.history import stored_row
from distui.runs.series.late import keep_lateness
from distui.runs.store.masking import NOTHING, Mask, stored_secrets
from distui.runs.store.recorded import first_errors, stored_network
from distui.runs.store.runs import StoredRun
from distui.runs.store.why_records import WhyRecord, keep, kept, telling
from distui.runs.task.host_access import HostAccess
from distui.session import Connector


@frozen
class Why:
    """What was found of a run, without values of its secrets."""

    run: str
    record: WhyRecord
    ranks: tuple[RankSeen, ...] = ()
    """Each rank as it was seen; none of a run that has ended."""
    slow: Slow | None = None
    """What was seen where the ranks were watched for some seconds, since nothing stands still."""
    hosts: Mapping[str, HostAnswer] = field(default_factory=dict)
    """What hosts said beside their ranks, where those were looked at once."""
    network: NetworkUsed | None = None
    """Which interface carried how much, as whoever followed the run said last; None where that is not kept here."""
    asked: bool = True
    """Whether its ranks were asked at all."""
    mask: Mask = field(default=NOTHING, repr=False, compare=False)
    """What has hidden the values of secrets in it; its warnings tell which are not hidden."""


NOT_ASKED = "no answer of its ranks is kept"


def why_before(settings: ClusterSettings, place: RunLocation) -> Why | None:
    """What is kept here of a run that has ended; None for one that may live. Raises NotFound when nothing is."""
    if place.stored is None or not stored_row(place.stored).over:
        return None
    record, used = telling(kept(place.stored)), stored_network(place.stored)
    mask = mask_of(settings, stored_secrets(place.stored), place.stored)
    if record is not None:
        return Why(place.run, mask.event(record), network=mask.event(used), mask=mask)
    if used is None:
        raise not_asked(place.run)
    unseen = WhyRecord(used.at, "run", Explanation("unseen", NOT_ASKED, "unknown", ()))
    return Why(place.run, unseen, network=mask.event(used), asked=False)


def not_asked(run: str) -> NotFound:
    """Nothing is known of why a run did not go on, if it did not."""
    message = f"{run} has ended, and {NOT_ASKED}"
    return NotFound(message, hint=f"`distui show {run}` tells how it ended")


async def why(settings: ClusterSettings, connector: Connector, place: RunLocation, *, stacks: bool = False) -> Why:
    """Ask the hosts of a run that lives, and keep in its folder here what they say.

    Raises NotFound and ContactLost where no host that answers has it, NameTaken.
    """
    asked, silent = await find(connector, place)
    found = await run_there(settings, connector, place, asked, silent)
    plan = plan_of(found, place.stored, place.hosts)
    hosts = [HostAccess(host, plan, connector) for host in found.hosts]
    ids = {task.labels.task: task.id for task in found.tasks if task.running}
    unasked = {host: trouble.message for host, trouble in silent.items()}
    try:
        gpus = gpus_of(plan)
        errors = first_errors(place.stored) if place.stored is not None and gpus else {}
        asking = Asked(
            hosts, _tasks(plan, found), ids, _ended(found.tasks), unasked, gpus, errors, names=task_names(plan)
        )
        seen = await look_and_watch(asking, stacks=stacks)
    finally:
        for host in hosts:
            await host.link.close()
    used = stored_network(place.stored) if place.stored is not None else None
    answer = _answer(plan.run_id, mask_of(settings, plan.secret_names, place.stored), seen, used)
    if place.stored is not None and not settings.readonly:
        _keep(place.stored, answer)
    return answer


async def why_followed(controller: RunController, *, stacks: bool = False) -> Why:
    """The same of a run that this process follows, over the connections that it has. Never raises DistuiError."""
    seen = await ranks_watched(controller.attempt, stacks=stacks)
    used = controller.attempt.watch.network.so_far(time.time())
    answer = _answer(controller.plan.run_id, controller.mask, seen, used)
    _keep(controller.stored, answer)
    return answer


def _keep(stored: StoredRun, answer: Why) -> None:
    """Keep what was found, and how late ranks were, which is plotted as it went on."""
    keep(stored, answer.record)
    watched = answer.slow.watched.values() if answer.slow is not None else ()
    late = {one.rank: one.late for one in answer.record.found.ranks if one.late is not None}
    keep_lateness(stored.series_dir, answer.record.at, max((one.seconds for one in watched), default=0.0), late)


def _answer(run: str, mask: Mask, seen: Look, used: NetworkUsed | None) -> Why:
    record = WhyRecord(time.time(), "user", seen.explanation, seen.calls)
    ranks, hosts = tuple(map(mask.event, seen.ranks)), {host: mask.event(one) for host, one in seen.hosts.items()}
    slow, network = mask.event(seen.slow), mask.event(used)
    return Why(run, mask.event(record), ranks, slow, hosts, network, mask=mask)


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
