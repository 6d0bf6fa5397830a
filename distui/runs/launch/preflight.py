"""The checks that come before a start, made for a plan without starting it: Doctor's over fresh facts of its hosts,
and what a launch asks before it touches anything - the run's name, the image, who reaches whom.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from distui.doctor.checks import check_hosts
from distui.doctor.finding import Check, CheckRow, Finding
from distui.doctor.images import Images, as_planned, how_it_comes, images_present
from distui.doctor.mount_check import mount_check, mount_rows
from distui.doctor.mounts import prove_mounts
from distui.doctor.reach import Endpoint, ReachReport, prove
from distui.doctor.reach_check import endpoints_of_plan
from distui.errors import HostError
from distui.facts.host import HostFacts, ProbeResult
from distui.facts.probe import probe_all
from distui.frozen import frozen
from distui.plan.command.tf import own_ports
from distui.plan.content.code import home_of_folder
from distui.plan.model import Mount, RunPlan
from distui.runs.hosts.asking import ask_each
from distui.runs.hosts.claims import marks
from distui.runs.hosts.claims.lease import Resource, resources_on, sharers
from distui.runs.hosts.discover import FoundRuns, FoundTask, find_runs
from distui.runs.hosts.uses import gpus_of_processes
from distui.runs.launch.leases import PORT_HINT, SHARE_HINT
from distui.runs.task.fetch import look, without_client
from distui.session import Connector, Session, session_on
from distui.spec.hosts.inventory import Host

SHARED = Check("gpus_shared", "GPUs", "no other run has these GPUs or ports", "docker ps --filter label=distui.run")
NAME = Check("run_name", "Reach", "no run of this name", "docker ps -a --filter label=distui.run=NAME")


@frozen
class Preflight:
    """What was found. `results` are the fresh probes it rests on."""

    rows: tuple[CheckRow, ...]
    results: Mapping[str, ProbeResult]
    images: Images
    reach: ReachReport | None

    @property
    def wrong(self) -> bool:
        """Whether anything was found that should be looked at before a start."""
        return any(row.verdict in ("warn", "fail") for row in self.rows)


async def preflight(connector: Connector, plan: RunPlan, hosts: Sequence[Host], *, parallel: int = 64) -> Preflight:
    """Check a plan against its hosts as they are now. Starts nothing; a host that fails is a finding, no error."""
    chosen = [host for name in plan.hosts for host in hosts if host.name == name]
    results = await probe_all(connector, chosen, parallel=parallel)
    up = [host for host in chosen if isinstance(results[host.name], HostFacts)]
    wanted = (plan.image,) if plan.image else ()
    present = await images_present(connector, up, wanted)
    images = {image: as_planned(plan, found) for image, found in present.items()}
    found = await find_runs(connector, up)
    marked = await _marked(connector, up)
    reach = await prove_on(connector, endpoints_of_plan(plan), up)
    homes = {host.name: home_of_folder(plan.tasks_on(host.name)[0].run_dir) for host in up}
    data = await data_rows(connector, plan.mounts, homes)
    ours = [task.id for run in found.runs for task in run.tasks]
    given = gpus_of_processes(found)
    rows = check_hosts(results, images=images, ours=ours, given=given, reach=reach, more=data, hosts=chosen)
    rows = tuple(_comes(row, plan, images) if row.check.id.startswith("image:") else row for row in rows)
    first = (name_row(plan.run_id, tuple(results), found), shared_row(plan, tuple(results), found, marked))
    return Preflight((*first, *rows), results, images, reach)


async def data_rows(connector: Connector, mounts: Sequence[Mount], homes: Mapping[str, str]) -> tuple[CheckRow, ...]:
    """A job's mounts on hosts, each with its login's home. One that can't be reached is left out."""
    if not mounts:
        return ()
    async with _sessions(connector, tuple(homes)) as sessions:
        rows = mount_rows(mounts, tuple(sessions), await prove_mounts(sessions, mounts))
        return (*rows, *[await fetch_row(mount, sessions, homes) for mount in mounts if mount.fetch is not None])


async def fetch_row(mount: Mount, sessions: Mapping[str, Session], homes: Mapping[str, str]) -> CheckRow:
    """Whether what is fetched is there, or can be."""
    check = mount_check(mount, "is there or can be fetched", "ls ~/.cache/distui/data; command -v of each client")

    async def one(host: str, session: Session) -> Finding:
        try:
            there = await look(session.run, mount, homes[host])
        except HostError as exc:
            return Finding(check.id, host, "skip", exc.message, do=exc.hint)
        if there.when is not None:
            return Finding(check.id, host, "ok", f"is there since {there.when}")
        if there.client:
            return Finding(check.id, host, "pull", "is not there", f"the start fetches it with {there.client}")
        words, hint = without_client(mount)
        return Finding(check.id, host, "fail", words, "the start is refused", hint)

    return CheckRow(check, tuple(await asyncio.gather(*(one(h, s) for h, s in sessions.items()))))


def _comes(row: CheckRow, plan: RunPlan, images: Images) -> CheckRow:
    """How an image that is not there gets there; with `pull: never` it keeps the job from starting."""
    there = images.get(plan.image or "", {})
    present = [host for host, found in there.items() if isinstance(found, str) and found]
    if plan.pull == "never":
        more = {"verdict": "fail", "means": "the job says `pull: never`"}
        more |= {"do": "distui image push copies it from a host that has it"} if present else {}
    elif plan.build is not None:
        more = {"means": how_it_comes(plan, present), "do": ""}
    else:
        return row
    return CheckRow(row.check, tuple(replace(f, **more) if f.verdict == "pull" else f for f in row.findings))  # type: ignore[arg-type]


def name_row(run: str, hosts: Sequence[str], found: FoundRuns) -> CheckRow:
    """A run of the same name on a host is somebody's."""
    tasks = [task for there in found.named(run) for task in (*there.tasks, *there.others)]
    findings = []
    for host in hosts:
        own = [t for t in tasks if t.host == host]
        if own:
            saw = f"a run named {run} is there already (of {own[0].labels.owner or '?'}, {own[0].status})"
            findings.append(Finding(NAME.id, host, "fail", saw, "the start is refused", "give the run another name"))
        else:
            findings.append(Finding(NAME.id, host, "skip" if host in found.unreachable else "ok"))
    return CheckRow(NAME, tuple(findings))


async def _marked(connector: Connector, hosts: Sequence[Host]) -> tuple[FoundTask, ...]:
    """The tasks that left a mark on the hosts that can be asked."""
    names = [host.name for host in hosts]
    marked, _ = await ask_each(connector, names, lambda host, session: marks.read(session.run, host, tell=str))
    return tuple(chain(*marked.values()))


def shared_row(plan: RunPlan, hosts: Sequence[str], found: FoundRuns, marked: Sequence[FoundTask] = ()) -> CheckRow:
    """GPUs of the plan that another run uses now, and ports that the job names; others the start changes by itself."""
    findings = []
    for host in hosts:
        tasks_found = [task for run in found.runs for task in run.tasks if task.host == host]
        tasks = marks.added(tasks_found, [task for task in marked if task.host == host])
        chosen = {Resource("port", port) for at, port in own_ports(plan.reasons) if at == host}
        if shares := sharers(tasks, plan, resources_on(plan, host) - chosen):
            gpus = any(resource.kind == "gpu" for share in shares for resource in share.resources)
            saw = "; ".join(share.message for share in shares)
            do = SHARE_HINT if gpus else PORT_HINT
            findings.append(Finding(SHARED.id, host, "fail", saw, "the start is refused", do))
        else:
            findings.append(Finding(SHARED.id, host, "skip" if host in found.unreachable else "ok"))
    return CheckRow(SHARED, tuple(findings))


async def prove_on(connector: Connector, ends: Sequence[Endpoint], hosts: Sequence[Host]) -> ReachReport | None:
    """Prove that these hosts reach each other; None when fewer than one can be asked. Never raises HostError."""
    asked = {host.name for host in hosts}
    async with _sessions(connector, [end.host for end in ends if end.host in asked]) as sessions:
        if not sessions:
            return None
        return await prove(sessions, [end for end in ends if end.host in sessions])


@contextlib.asynccontextmanager
async def _sessions(connector: Connector, hosts: Sequence[str]) -> AsyncIterator[dict[str, Session]]:
    """Connections to the hosts that can be reached, closed after the block."""
    sessions: dict[str, Session] = {}
    async with contextlib.AsyncExitStack() as stack:
        for host in hosts:
            with contextlib.suppress(HostError):
                sessions[host] = await stack.enter_async_context(session_on(connector, host))
        yield sessions
