"""The desk of the terminal UI over ssh: what the app asks for, done with the same parts as the verbs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from distui.cli import wiring
from distui.cli.desk_hosts import HostDesk, Login, ssh_login
from distui.cli.desk_runs import Connect, RunDesk
from distui.cli.jobfiles import job_files, read_draft
from distui.cli.keeper import FollowedRun, Keeper
from distui.cli.launching import code_reader
from distui.cli.order import code_token, run_name
from distui.cli.permit import permit
from distui.cli.settings import Settings
from distui.errors import UsageError
from distui.facts.host import HostFacts
from distui.files import read_text
from distui.identity import identity, owner

if TYPE_CHECKING:
    from distui.doctor.images import Images
    from distui.doctor.reach import ReachReport
    from distui.doctor.smoke import PairResult
    from distui.facts.host import ProbeResult
    from distui.plan.model import NoPlan, RunPlan
    from distui.run.build.context import BuildSource
    from distui.run.code.source import CodeSource
    from distui.run.controller import RunController
    from distui.run.gpu_users import GpuUser
    from distui.run.preflight import Preflight
    from distui.run.replan import Again
    from distui.session import Connector
    from distui.spec.inventory import Host, HostPick, Inventory
    from distui.spec.job import Job
    from tui.desk import Draft, HostNews, JobFile, LiveRun

    Sources = tuple[CodeSource | None, BuildSource | None]
    """What the plan's `code` and `build` stand for."""

MOST_IMAGES = 5
"""Images of jobs here that hosts are asked for."""


class CliDesk(HostDesk, RunDesk):
    """Use as an async context manager around the app. Leaving it detaches from every run that lives,
    or stops them when they can't live without it (`leash`).
    """

    def __init__(
        self,
        told: Settings,
        inventory: Inventory,
        hosts: Sequence[Host],
        *,
        title: str = "",
        connect: Connect | None = None,
        more_jobs: Sequence[JobFile] = (),
        leash: bool = False,
        login: Login | None = None,
        say: Callable[[str], None] = lambda words: None,
    ) -> None:
        self.told = told
        self.inventory = inventory
        self.hosts = tuple(hosts)
        self.groups: Mapping[str, tuple[str, ...]] = _groups(inventory, [host.name for host in hosts])
        self.title = title or inventory.path or "hosts from -H"
        self.owner = owner()
        self.readonly = bool(told["readonly"])
        self.history: Path | None = told.paths.state / "commands"
        self._connect: Connect = connect or (lambda hosts: wiring.connected(told, hosts))
        self._more_jobs = tuple(more_jobs)
        self.login = login or ssh_login
        self._facts: dict[str, ProbeResult] = {}
        self.leash = leash
        self._keeper = Keeper(leash=leash, say=say)
        self._smokes: set[asyncio.Task[tuple[PairResult, ...]]] = set()
        self._stack = AsyncExitStack()
        # by the launch's own id: the text may change after the plan that is launched
        self._previewed: tuple[str, Again | None, tuple[HostPick, ...], Sources] = ("", None, (), (None, None))
        """The run that was planned last, how its next attempts are, and on which hosts it was to be."""
        self._code = code_reader(told)
        self._reruns: dict[str, FollowedRun] = {}
        self._connector: Connector | None = None
        self._connecting = asyncio.Lock()

    async def __aenter__(self) -> CliDesk:
        await self._stack.enter_async_context(self._keeper)
        return self

    async def __aexit__(self, *exc: object) -> None:
        smokes = tuple(self._smokes)
        for task in smokes:
            task.cancel()
        await asyncio.gather(*smokes, return_exceptions=True)
        await self._stack.aclose()

    # Hosts.

    async def probe(self, names: Sequence[str], on_result: Callable[[str, ProbeResult], None]) -> None:
        """See tui.desk."""
        from distui.facts.probe import probe_all

        def answered(result: ProbeResult) -> None:
            self._facts[result.host] = result
            on_result(result.host, result)

        hosts = [host for host in self.hosts if host.name in names]
        await probe_all(await self.connector(), hosts, parallel=self.told["parallel"], on_result=answered)

    async def connector(self) -> Connector:
        """The connections to the inventory's hosts. Made at the first use: ssh is dear to import, and the first
        picture of the app shall not wait for it."""
        async with self._connecting:
            if self._connector is None:
                await asyncio.to_thread(import_module, "remote.pool")
                self._connector = await self._stack.enter_async_context(self._connect(self.hosts))
        return self._connector

    def know(self, results: Mapping[str, ProbeResult]) -> None:
        """Take in what was found by a probe made before the app was opened."""
        self._facts.update(results)

    @property
    def facts(self) -> Mapping[str, ProbeResult]:
        """See tui.desk."""
        return self._facts

    async def images(self, names: Sequence[str] = (), hosts: Sequence[str] = ()) -> Images:
        """See tui.desk."""
        from distui.doctor.images import images_present

        images = tuple(names) or await asyncio.to_thread(self._images_of_jobs)
        up = [host for host in self._up() if not hosts or host.name in hosts]
        return await images_present(await self.connector(), up, images) if images else {}

    def _images_of_jobs(self) -> tuple[str, ...]:
        found = [self.draft(read_text(job.path, errors="replace"), str(job.path), job.name).job for job in self.jobs()]
        return tuple(dict.fromkeys(job.image for job in found if job is not None and job.image))[:MOST_IMAGES]

    def _up(self) -> list[Host]:
        """The hosts that answered."""
        return [host for host in self.hosts if isinstance(self._facts.get(host.name), HostFacts)]

    async def reach(self) -> ReachReport | None:
        """See tui.desk."""
        from distui.doctor.reach_check import endpoints
        from distui.run.preflight import prove_on

        up = self._up()
        return await prove_on(await self.connector(), endpoints(up, self._facts), up)

    async def smoke(self, job: Job, on_pair: Callable[[PairResult], None]) -> tuple[PairResult, ...]:
        """See tui.desk. Owned here: it is awaited to its clean end when the desk is closed."""
        from distui import __version__
        from distui.run.smoke import smoke

        facts = {host.name: self._facts[host.name] for host in self._up()}
        work = smoke(
            await self.connector(), self.inventory, facts, job, owner=self.owner, version=__version__, on_pair=on_pair
        )
        task = asyncio.create_task(work, name="smoke")
        self._smokes.add(task)
        task.add_done_callback(self._smokes.discard)
        return await asyncio.shield(task)

    async def preflight(self, plan: RunPlan) -> Preflight:
        """See tui.desk."""
        from distui.run.preflight import preflight

        found = await preflight(await self.connector(), plan, self.hosts, parallel=self.told["parallel"])
        self._facts.update(found.results)
        return found

    async def news(self) -> AsyncIterator[HostNews]:
        """See tui.desk."""
        from distui.run.figures import figures
        from tui.desk import HostNews

        stream = figures(await self.connector(), [host.name for host in self.hosts])
        async with contextlib.aclosing(stream):
            async for told in stream:
                yield HostNews(told.host, told.state, told.reason, told.sample)

    # Jobs and plans.

    def jobs(self) -> tuple[JobFile, ...]:
        """See tui.desk."""
        return (*self._more_jobs, *job_files(self.told))

    def draft(self, text: str, path: str, name: str | None = None) -> Draft:
        """See tui.desk."""
        return read_draft(text, path, self.told.environ, name)

    def preview(self, job: Job, picks: Sequence[HostPick], *, run_id: str) -> RunPlan | NoPlan:
        """See tui.desk."""
        from distui.plan.plan import plan
        from distui.run.replan import Replan

        who, (code, build) = identity(run_id), self._read_sources(job)
        said, built = code.plan if code else None, build.plan if build else None
        planner = partial(plan, job, self.inventory, tuple(picks), code=said, build=built, **who)
        known = {pick.name: f for pick in picks if isinstance(f := self._facts.get(pick.name), HostFacts)}
        hosts = [host for host in self.hosts if host.name in known]
        again = Replan(planner, self.connector, hosts, known, self.told["parallel"])
        self._previewed = who["launch"], again, tuple(picks), (code, build)
        return planner(facts=dict(self._facts))

    def _read_sources(self, job: Job) -> Sources:
        from distui.run.build.context import read_build

        permit(self.told, job)
        return self._code.read(job, code_token(job, self.told.environ)[1], typing=True), read_build(job)

    def pick(self, job: Job, marked: Sequence[str]) -> tuple[HostPick, ...]:
        """See tui.desk."""
        from distui.spec.choose import choose_hosts, hosts_of_job

        if marked:
            return choose_hosts(self.inventory, tuple(marked))
        if job.hosts is not None:
            return hosts_of_job(self.inventory, job.hosts)
        if self.told.hosts or self.told.labels:
            return choose_hosts(self.inventory, self.told.hosts, self.told.labels)
        raise UsageError(f"job {job.name} names no hosts", hint="mark hosts in view 1, or set hosts: in the job")

    def run_name(self, job: str) -> str:
        """See tui.desk."""
        return run_name(job)

    # Runs.

    async def gpu_users(self, plan: RunPlan) -> tuple[GpuUser, ...]:
        """See tui.desk."""
        from distui.run.gpu_users import gpu_users

        return await gpu_users(await self.connector(), plan, self.hosts)

    async def launch(self, job: Job, plan: RunPlan, *, rerun_of: str = "", force: bool = False) -> LiveRun:
        """See tui.desk."""
        from distui.spec.inventory import HostPick

        known, again, picks, sources = self._previewed
        if known != plan.tasks[0].labels.get("distui.launch"):
            again, picks = None, tuple(HostPick(name) for name in plan.hosts)
            sources = await asyncio.to_thread(self._read_sources, job)
        live = await self.start(plan, self._secrets(job), job, picks, force=force, again=again, sources=sources)
        if rerun_of:
            self._reruns[rerun_of] = live
        return live

    def newest(self, live: LiveRun) -> LiveRun:
        """What `run again` started last from the view of a run, or of one that was started so; itself when none."""
        while live.plan.run_id in self._reruns:
            live = self._reruns[live.plan.run_id]
        return live

    async def start(
        self,
        plan: RunPlan,
        secrets: Mapping[str, str],
        job: Job,
        picks: Sequence[HostPick],
        *,
        preflight: bool = True,
        force: bool = False,
        again: Again | None = None,
        sources: Sources = (None, None),
    ) -> FollowedRun:
        """Start a plan with the values of its secrets. Raises UsageError when its name is taken here."""
        from distui.plan.serialize import to_json
        from distui.run.controller import RunController
        from distui.run.job_record import record_job
        from distui.run.launch_steps import LaunchOptions

        stored = wiring.store(self.told).create(plan.run_id)
        stored.write_plan(to_json(plan))
        record_job(stored, job, picks)
        hosts = [host for name in plan.hosts if (host := self.inventory.get(name)) is not None]
        wiring.save_hosts(stored, hosts)
        facts = {name: f for name, f in self._facts.items() if isinstance(f, HostFacts)}

        def make(connector: Connector) -> RunController:
            return RunController(
                plan, connector=connector, stored=stored, facts=facts, secrets=secrets,
                options=LaunchOptions(False, preflight, force, *sources), planner=again,
                limits=wiring.limits(self.told),
            )  # fmt: skip

        return await self._keeper.keep(self._connect(hosts), make)

    def _secrets(self, job: Job) -> dict[str, str]:
        missing = [name for name in job.all_secrets if name not in self.told.environ]
        if missing:
            raise UsageError(
                f"secrets {', '.join(missing)} of job {job.name} have no value",
                hint=f"export {missing[0]}=... before distui is started",
            )
        return {name: self.told.environ[name] for name in job.all_secrets}


def _groups(inventory: Inventory, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The inventory's groups, as far as their hosts are chosen."""
    found = {group: tuple(n for n in members if n in names) for group, members in inventory.groups.items()}
    return {group: members for group, members in found.items() if members}
