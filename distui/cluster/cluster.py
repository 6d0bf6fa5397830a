"""Hosts of an inventory, and what can be done with them: for programs, the command line and the terminal UI."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from types import TracebackType
from typing import Any

from distui.cluster.attach.places import Places
from distui.cluster.hosts.connecting import Connect, OpenOnce, connected
from distui.cluster.hosts.selection import Selection, hosts_of_run
from distui.cluster.jobs.permit import permit
from distui.cluster.jobs.secrets import code_token, job_secrets
from distui.cluster.names import run_name
from distui.cluster.runs.cluster_runs import ClusterRuns
from distui.cluster.runs.run import Run
from distui.cluster.settings import ClusterSettings
from distui.cluster.start.planning import PlannedRun, RunPlanner, code_reader, plan_error, plan_run, read_sources
from distui.cluster.start.request import RunRequest
from distui.cluster.start.starting import controller_of, forget_if_never_started, record
from distui.errors import UsageError
from distui.facts.host import ProbeResult
from distui.facts.probe import probe_all
from distui.plan.model import NoPlan
from distui.session import Connector
from distui.spec.choose import choose_hosts
from distui.spec.hosts.inventory import Host, Inventory
from distui.spec.hosts.read_inventory import inventory_from_names, load_inventory
from distui.spec.job.read_job import AnyJob, any_job
from distui.spec.yaml.problems import shown


class Cluster(ClusterRuns):
    """Some hosts and the runs on them. Use as an async context manager: its connections are closed at the end."""

    def __init__(
        self, inventory: Inventory, *, settings: ClusterSettings | None = None, connect: Connect | None = None
    ) -> None:
        """`connect` is for distui's own tests: it opens connections to hosts that are made for them."""
        self.inventory = inventory
        self.settings = settings or ClusterSettings.load()
        self._connect = connect or partial(connected, self.settings)
        self._opened = OpenOnce(self._connect, inventory.hosts)
        own_file = self.settings.paths.hosts_file
        self._places = Places(self.settings, Selection(Path(), own_file, known=inventory))
        self._code = code_reader(self.settings)

    @classmethod
    def open(
        cls,
        hosts: str | PathLike[str] | Sequence[str] = "hosts.yaml",
        *,
        settings: ClusterSettings | None = None,
    ) -> Cluster:
        """The hosts in a hosts.yaml, or those that a list names (`["node[01-04]"]`), which ssh finds by its config.

        Raises SpecError with everything that is wrong in the file, UsageError for names that are none.
        """
        if isinstance(hosts, str | PathLike):
            return cls(load_inventory(fspath(hosts)), settings=settings)
        return cls(inventory_from_names(_named(hosts)), settings=settings)

    async def __aenter__(self) -> Cluster:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._opened.close()

    @property
    def hosts(self) -> tuple[Host, ...]:
        """All hosts of the inventory."""
        return self.inventory.hosts

    async def _connector(self) -> Connector:
        """The connections to all hosts; a host is connected to when it is first asked for something."""
        return await self._opened.connector()

    async def probe(
        self, hosts: str | Sequence[str] = (), *, on_result: Callable[[ProbeResult], None] = lambda result: None
    ) -> dict[str, ProbeResult]:
        """Ask these hosts what they are, or all: HostFacts by name, HostDown for one that did not answer.

        `hosts` are names, ranges and groups (`["node[01-04]", "@gpu"]`). `on_result` hears each as it answers.
        Raises UsageError for a host that is not in the inventory.
        """
        chosen = self.inventory.chosen(choose_hosts(self.inventory, _named(hosts)))
        connector = await self._connector()
        return dict(await probe_all(connector, chosen, parallel=self.settings.parallel, on_result=on_result))

    async def plan(
        self,
        job: AnyJob,
        facts: Mapping[str, ProbeResult],
        *,
        hosts: str | Sequence[str] = (),
        name: str = "",
        keep: bool = False,
    ) -> PlannedRun:
        """What would run where, from what `probe` found. Contacts no host; the job's code is read here, or fetched.

        `job` is a job file, a job, or its keys as a dict; `hosts` take the place of those that the job names, `name` is
        the run's (`JOB-xxxx` otherwise), and with `keep` ended containers stay. The values of its secrets are those of
        the settings' environment. Raises SpecError for a bad file, UsageError for a secret without a value and for what
        the job may not take from this machine, PlanError with every reason why there is no plan.
        """
        request = self._request(job, hosts, name)
        sources = await read_sources(self._code, request)
        planner = RunPlanner(request, sources, keep=keep)
        made = planner.plan(facts)
        if isinstance(made, NoPlan):
            raise plan_error(made)
        return planner.planned(made, facts, self._connector, self.settings.parallel)

    async def prepare(
        self, job: AnyJob, *, hosts: str | Sequence[str] = (), name: str = "", keep: bool = False
    ) -> PlannedRun:
        """`probe` of the hosts that the job is for, and no others, and `plan`, in one.

        Raises what `plan` raises, and HostsUnreachable or HostsFailed when one of these hosts does not answer.
        """
        request = self._request(job, hosts, name)
        return await plan_run(await self._connector(), request, self._code, parallel=self.settings.parallel, keep=keep)

    def _request(self, job: AnyJob, hosts: str | Sequence[str], name: str) -> RunRequest:
        """What is asked for, with what it takes from this machine, as far as that is allowed."""
        job = any_job(job, environ=self.settings.environ)
        permit(self.settings, job)
        job, secrets = job_secrets(job, self.settings.variables)
        job, token = code_token(job, self.settings.variables)
        picks = hosts_of_run(self.inventory, job, _named(hosts), hint="give `hosts`, or set hosts: in the job")
        if not isinstance(name, str):
            raise UsageError(f"{shown(repr(name))} is no name of a run", hint="give a text, or none for JOB-xxxx")
        return RunRequest(job, self.inventory, picks, secrets, name or run_name(job.name), token)

    def launch(
        self, planned: PlannedRun, *, preflight: bool = True, force: bool = False, detach: bool = False
    ) -> AbstractAsyncContextManager[Run]:
        """Start a plan: `async with cluster.launch(planned) as run`.

        Before anything starts it is proved that the hosts reach each other (`preflight`), and that nobody else has the
        plan's GPUs (shared with `force`). With `detach` the run is left alone once all ranks have started.

        Entering the block raises UsageError when a run of that name is recorded on this machine, CheckFailed when it
        can't be. The start itself goes on inside the block: when a check fails then, or the start does, `run.events()`
        and `run.wait()` raise CheckFailed, HostsUnreachable or LaunchFailed: what had begun was undone, or is named.

        Who leaves the block before the run has ended, also by an exception or Ctrl-C, leaves the run alone: it lives
        on, `distui attach` follows it, `distui stop` ends it. A start that is not over by then is undone before the
        block is left, also when that is cancelled: `run.result` is then that it was stopped, and what could not be
        removed (`leftovers`); where nothing is left, the name is free again.
        """
        self.settings.refuse_readonly("a run")
        return self._launched(planned, preflight=preflight, force=force, detach=detach)

    @asynccontextmanager
    async def _launched(self, planned: PlannedRun, *, preflight: bool, force: bool, detach: bool) -> AsyncIterator[Run]:
        connector = await self._connector()
        stored = record(self.settings.store, planned)
        limits = self.settings.limits()
        made = controller_of(connector, stored, planned, preflight=preflight, force=force, detach=detach, limits=limits)
        run = Run(made)
        try:
            async with run:
                yield run
        finally:
            ended = run.result
            if ended is not None and forget_if_never_started(stored, ended, undone=made.undone) and ended.log_dir:
                run.result = replace(ended, log_dir="")


def _named(hosts: object) -> tuple[str, ...]:
    """Names, ranges and groups as they are given: one text is one of them, as in a job file, and not its letters.

    Raises UsageError for what is neither.
    """
    if isinstance(hosts, str):
        return (hosts,) if hosts else ()
    found: tuple[Any, ...] = tuple(hosts) if isinstance(hosts, Iterable) else (hosts,)
    if not all(isinstance(host, str) for host in found):
        raise UsageError(f"{shown(repr(hosts))} are no hosts", hint='give names, ranges and groups: ["node[01-04]"]')
    return found
