"""What would break a run on some hosts: asked, proved between them, and judged. Nothing is started."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from distui.cluster.jobs.permit import refusals
from distui.cluster.jobs.secrets import NOTHING
from distui.cluster.settings import ClusterSettings
from distui.cluster.start.planning import in_thread
from distui.cluster.start.starting import unrecordable
from distui.cluster.start.taken import Taken, take
from distui.doctor.checks import IDLE, check_hosts
from distui.doctor.choice import Choice
from distui.doctor.finding import CheckRow
from distui.doctor.images import images_present
from distui.doctor.plan_check import PLAN, hosts_wanted, plan_rows
from distui.doctor.reach import ReachReport
from distui.doctor.reach_check import REACH, endpoints
from distui.facts.host import HostFacts, ProbeResult
from distui.facts.probe import probe_all
from distui.frozen import frozen
from distui.plan.content.mounts import mounts_of
from distui.plan.model import Mount
from distui.runs.hosts.discover import find_runs
from distui.runs.hosts.uses import gpus_of_processes
from distui.runs.launch.preflight import data_rows, prove_on
from distui.session import Connector
from distui.spec.hosts.inventory import Host, Inventory
from distui.spec.job.job import Job


@frozen
class Checked:
    """What was found."""

    rows: tuple[CheckRow, ...]
    results: Mapping[str, ProbeResult]
    reach: ReachReport | None


async def check(
    settings: ClusterSettings,
    connector: Connector,
    inventory: Inventory,
    hosts: Sequence[Host],
    wanted: Choice,
    *,
    job: Job | None = None,
    from_file: Mapping[str, str] = NOTHING,
    named: bool = False,
) -> Checked:
    """Do the checks that are `wanted`, those of a job, too.

    `named`: its hosts were chosen in the place of its own. `from_file` are the variables of --env-file.
    """
    planned = job if wanted.wants(PLAN.id) else None
    taken = await in_thread(partial(take, settings, planned, from_file)) if planned is not None else None
    if taken is not None and not settings.readonly:
        count = len(hosts_wanted(taken.job, inventory, hosts, named=named))
        here = await asyncio.to_thread(unrecordable, settings.store, count)
        taken = replace(taken, refused=(*taken.refused, *here))
    results = await probe_all(connector, hosts, parallel=settings.parallel)
    up = [host for host in hosts if isinstance(results[host.name], HostFacts)]
    images = _images(settings, job) if job is not None and wanted.wants("image") else ()
    there = await images_present(connector, up, images) if images else {}
    found = await find_runs(connector, up if wanted.wants(IDLE.id) else ())
    proved = len(up) > 1 and wanted.wants(REACH.id)
    reach = await prove_on(connector, endpoints(up, results), up) if proved else None
    ours = [task.id for run in found.runs for task in run.tasks]
    given = gpus_of_processes(found)
    more = _planned(taken, inventory, hosts, results, named=named) if taken is not None else ()
    if job is not None and wanted.wants("data"):
        there_for = hosts_wanted(job, inventory, hosts, named=named)
        homes = {h.name: found_home for h in up if h.name in there_for and (found_home := _home(results[h.name]))}
        more += await data_rows(connector, _mounts(settings, job), homes)
    rows = check_hosts(results, images=there, ours=ours, given=given, reach=reach, more=more, hosts=hosts)
    return Checked(wanted.of(rows), results, reach)


def _mounts(settings: ClusterSettings, job: Job) -> tuple[Mount, ...]:
    """The job's mounts; that a folder is shared is proved by a file, which --readonly does not write."""
    return tuple(replace(one, shared=False) if settings.readonly else one for one in mounts_of(job))


def _home(result: ProbeResult) -> str | None:
    return result.home if isinstance(result, HostFacts) else None


def _images(settings: ClusterSettings, job: Job) -> tuple[str, ...]:
    """The job's image, unless a variable in its name may go nowhere: its value is no question to a host either."""
    return (job.image,) if job.image and not refusals(settings, job)["image"] else ()


def _planned(
    taken: Taken, inventory: Inventory, hosts: Sequence[Host], results: Mapping[str, ProbeResult], *, named: bool
) -> tuple[CheckRow, ...]:
    code, build = taken.sources.code, taken.sources.build
    return plan_rows(
        taken.job,
        inventory,
        hosts,
        results,
        named=named,
        code=code.plan if code is not None else None,
        build=build.plan if build is not None else None,
        refused=taken.refused,
    )
