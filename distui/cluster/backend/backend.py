"""The backend of the terminal UI over ssh: what the app asks for, done with the same parts as the verbs."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from distui.cluster.attach.places import Places
from distui.cluster.attach.run_manager import FollowedRun, RunManager
from distui.cluster.backend.backend_hosts import HostBackend, Login, ssh_login
from distui.cluster.backend.backend_runs import RunBackend
from distui.cluster.backend.values import LiveRun
from distui.cluster.hosts.connecting import Connect, OpenOnce, connected
from distui.cluster.hosts.selection import hosts_of_run
from distui.cluster.jobs.job_files import Draft, JobFile, job_files, read_draft
from distui.cluster.jobs.permit import permit
from distui.cluster.jobs.secrets import code_token, job_secrets
from distui.cluster.names import run_name
from distui.cluster.start.planning import PlannedRun, RunPlanner, Sources, code_reader
from distui.cluster.start.request import RunRequest
from distui.cluster.start.starting import controller_of, forget, record
from distui.doctor.images import Images, images_present
from distui.doctor.reach import ReachReport
from distui.doctor.reach_check import endpoints
from distui.doctor.smoke import PairResult
from distui.facts.host import HostFacts, ProbeResult
from distui.facts.probe import probe_all
from distui.identity import owner
from distui.monitor.figures import HostNews, figures
from distui.plan.model import NoPlan, RunPlan
from distui.runs.control.controller import RunController
from distui.runs.control.smoke import smoke
from distui.runs.hosts.last_said import LastSaid
from distui.runs.launch.gpu_users import GpuUser, gpu_users
from distui.runs.launch.job_record import has_value
from distui.runs.launch.preflight import Preflight, preflight, prove_on
from distui.runs.store.runs import AlreadyFollowed
from distui.runs.store.secret_checks import SHORTEST, bytes_of
from distui.session import Connector
from distui.spec.hosts.inventory import Host, HostPick, Inventory
from distui.spec.job.job import Job
from distui.version import __version__

MOST_IMAGES = 5
"""Images of jobs here that hosts are asked for."""


class ClusterBackend(HostBackend, RunBackend):
    """Use as an async context manager around the app. Leaving it detaches from every run that lives,
    or stops them when they can't live without it (`stop_on_exit`).
    """

    def __init__(
        self,
        places: Places,
        inventory: Inventory,
        hosts: Sequence[Host],
        *,
        title: str = "",
        connect: Connect | None = None,
        more_jobs: Sequence[JobFile] = (),
        stop_on_exit: bool = False,
        login: Login | None = None,
        say: Callable[[str], None] = lambda words: None,
    ) -> None:
        self.places = places
        self.settings = settings = places.settings
        self.inventory = inventory
        self.hosts = tuple(hosts)
        self.groups: Mapping[str, tuple[str, ...]] = _groups(inventory, [host.name for host in hosts])
        self.title = title or inventory.path or "hosts from -H"
        self.owner = owner()
        self.readonly = settings.readonly
        self.leaves_out = places.leaves_out
        self.history: Path | None = settings.paths.state / "commands"
        self._connect: Connect = connect or (lambda hosts: connected(settings, hosts))
        self._more_jobs = tuple(more_jobs)
        self.login = login or ssh_login
        self._facts: dict[str, ProbeResult] = {}
        self.stop_on_exit = stop_on_exit
        self._manager = RunManager(stop_on_exit=stop_on_exit, say=say)
        self._smokes: set[asyncio.Task[tuple[PairResult, ...]]] = set()
        self._opened = OpenOnce(self._connect, self.hosts)
        self._stack = AsyncExitStack()
        self._previewed: PlannedRun | None = None
        """What was planned last: the text may change before that plan is launched."""
        self._code = code_reader(settings)
        self._left = threading.Event()
        """Nobody waits for what is read in threads any more."""
        self._reruns: dict[str, FollowedRun] = {}
        self._said = LastSaid()

    async def __aenter__(self) -> ClusterBackend:
        await self._stack.enter_async_context(self._manager)
        self._stack.push_async_callback(self._opened.close)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._left.set()
        smokes = tuple(self._smokes)
        for task in smokes:
            task.cancel()
        await asyncio.gather(*smokes, return_exceptions=True)
        await self._stack.aclose()

    # Hosts.

    async def probe(self, names: Sequence[str], on_result: Callable[[str, ProbeResult], None]) -> None:
        """See the protocol."""

        def answered(result: ProbeResult) -> None:
            self._facts[result.host] = result
            on_result(result.host, result)

        hosts = [host for host in self.hosts if host.name in names]
        await probe_all(await self.connector(), hosts, parallel=self.settings.parallel, on_result=answered)

    async def connector(self) -> Connector:
        """The connections to the inventory's hosts. Made at the first use: ssh is dear to import, and the first
        picture of the app must not wait for it."""
        return await self._opened.connector()

    @contextlib.asynccontextmanager
    async def reaching(self, hosts: Sequence[Host]) -> AsyncIterator[Connector]:
        """See HostBackend."""
        yield await self._opened.reaching(hosts)

    def know(self, results: Mapping[str, ProbeResult]) -> None:
        """Take in what was found by a probe made before the app was opened."""
        self._facts.update(results)

    @property
    def facts(self) -> Mapping[str, ProbeResult]:
        """See the protocol."""
        return self._facts

    async def images(self, names: Sequence[str] = (), hosts: Sequence[str] = ()) -> Images:
        """See the protocol."""
        images = tuple(names) or await asyncio.to_thread(self._images_of_jobs)
        up = [host for host in self._up() if not hosts or host.name in hosts]
        return await images_present(await self.connector(), up, images) if images else {}

    def _images_of_jobs(self) -> tuple[str, ...]:
        found = [job.job for job in self.jobs()]
        return tuple(dict.fromkeys(job.image for job in found if job is not None and job.image))[:MOST_IMAGES]

    def _up(self) -> list[Host]:
        """The hosts that answered."""
        return [host for host in self.hosts if isinstance(self._facts.get(host.name), HostFacts)]

    async def reach(self) -> ReachReport | None:
        """See the protocol."""
        up = self._up()
        return await prove_on(await self.connector(), endpoints(up, self._facts), up)

    async def smoke(self, job: Job, on_pair: Callable[[PairResult], None]) -> tuple[PairResult, ...]:
        """See the protocol. Owned here: it is awaited to its clean end when the backend is closed."""
        facts = {host.name: self._facts[host.name] for host in self._up()}
        work = smoke(
            await self.connector(), self.inventory, facts, job, owner=self.owner, version=__version__, on_pair=on_pair
        )
        task = asyncio.create_task(work, name="smoke")
        self._smokes.add(task)
        task.add_done_callback(self._smokes.discard)
        return await asyncio.shield(task)

    async def preflight(self, plan: RunPlan) -> Preflight:
        """See the protocol."""
        found = await preflight(await self.connector(), plan, self.hosts, parallel=self.settings.parallel)
        self._facts.update(found.results)
        return found

    async def news(self) -> AsyncIterator[HostNews]:
        """See the protocol."""
        stream = figures(await self.connector(), [host.name for host in self.hosts])
        async with contextlib.aclosing(stream):
            async for news in stream:
                yield news

    # Jobs and plans.

    def jobs(self) -> tuple[JobFile, ...]:
        """See the protocol."""
        return (*self._more_jobs, *job_files(self.places.selection.cwd, self.settings))

    def draft(self, text: str, path: str, name: str | None = None) -> Draft:
        """See the protocol."""
        return read_draft(text, path, self.settings.environ, name)

    def preview(self, job: Job, picks: Sequence[HostPick], *, run_id: str) -> RunPlan | NoPlan:
        """See the protocol."""
        request = RunRequest(job, self.inventory, tuple(picks), run_id=run_id)
        planner = RunPlanner(request, self._read_sources(job))
        made = planner.plan(dict(self._facts))
        if isinstance(made, RunPlan):
            planned = planner.planned(made, self._facts, self.connector, self.settings.parallel)
            self._previewed = planned
        return made

    def _read_sources(self, job: Job) -> Sources:
        permit(self.settings, job)
        token = code_token(job, self.settings.variables)[1]
        return Sources.read(self._code, job, token, typing=True, given_up=self._left)

    def pick(self, job: Job, marked: Sequence[str]) -> tuple[HostPick, ...]:
        """See the protocol."""
        hint = "mark hosts in view 1, or set hosts: in the job"
        if marked or job.hosts is not None:
            return hosts_of_run(self.inventory, job, marked, hint=hint)
        chosen = self.places.selection
        return hosts_of_run(self.inventory, job, chosen.hosts, chosen.labels, hint=hint)

    def run_name(self, job: str) -> str:
        """See the protocol."""
        return run_name(job)

    # Runs.

    async def gpu_users(self, plan: RunPlan) -> tuple[GpuUser, ...]:
        """See the protocol."""
        return await gpu_users(await self.connector(), plan, self.hosts)

    async def launch(
        self, job: Job, plan: RunPlan, *, rerun_of: str = "", force: bool = False, text: str = ""
    ) -> LiveRun:
        """See the protocol."""
        planned = await asyncio.to_thread(self._as_previewed, job, plan)
        _, secrets = job_secrets(job, self.settings.variables)
        _, token = code_token(job, self.settings.variables)
        kept = "" if has_value(text, _hidden(self.settings.secrets)) else text
        request = replace(planned.request, job=job, secrets=secrets, token=token, text=kept)
        live = await self.start(replace(planned, request=request), force=force)
        if rerun_of:
            self._reruns[rerun_of] = live
        return live

    def newest(self, live: LiveRun) -> LiveRun:
        """What `run again` started last from the view of a run, or of one that was started so; itself when none."""
        while live.plan.run_id in self._reruns:
            live = self._reruns[live.plan.run_id]
        return live

    def _as_previewed(self, job: Job, plan: RunPlan) -> PlannedRun:
        """What was planned last, when `plan` is that; else what can be known of it. Blocks: sources may be read."""
        if self._previewed is not None and self._previewed.plan.token == plan.token:
            return replace(self._previewed, plan=plan)
        picks = tuple(HostPick(name) for name in plan.hosts)
        facts = {name: f for name, f in self._facts.items() if isinstance(f, HostFacts)}
        request = RunRequest(job, self.inventory, picks, run_id=plan.run_id)
        return PlannedRun(request, plan, facts, self._read_sources(job), None)

    async def start(self, planned: PlannedRun, *, preflight: bool = True, force: bool = False) -> FollowedRun:
        """Start a plan. Raises UsageError when its name is taken here, CheckFailed when it can't be recorded."""
        stored = record(self.settings.store, planned)

        def make(connector: Connector) -> RunController:
            limits = self.settings.limits()
            return controller_of(connector, stored, planned, preflight=preflight, force=force, limits=limits)

        try:
            return await self._manager.keep(self._connect(planned.request.hosts), make)
        except AlreadyFollowed:  # another process was faster, and has it now
            raise
        except BaseException:  # also who leaves the app meanwhile
            forget(stored)
            raise


def _hidden(values: Mapping[str, str]) -> dict[str, str]:
    """Those that are hidden in logs; shorter ones are words that any text may have."""
    return {name: value for name, value in values.items() if len(bytes_of(value)) >= SHORTEST}


def _groups(inventory: Inventory, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The inventory's groups, as far as their hosts are chosen."""
    found = {group: tuple(n for n in members if n in names) for group, members in inventory.groups.items()}
    return {group: members for group, members in found.items() if members}
