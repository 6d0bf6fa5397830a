"""From a request to a plan: the job's sources read here, the hosts asked, and who can plan the next attempt."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TypeVar

from distui.cluster.settings import ClusterSettings
from distui.cluster.start.request import RunRequest
from distui.cluster.start.unusable import refuse_unusable
from distui.errors import PlanError
from distui.facts.host import HostFacts, ProbeResult
from distui.facts.probe import probe_all
from distui.frozen import frozen
from distui.identity import identity
from distui.plan.model import NoPlan, RunPlan, in_words
from distui.plan.plan import plan
from distui.runs.attempt.replan import AttemptPlanner, Replanner
from distui.runs.code.source import CodeReader, CodeSource
from distui.runs.images.context import BuildSource, read_build
from distui.runs.launch.port_users import with_holders
from distui.session import Connector
from distui.spec.hosts.inventory import Host
from distui.spec.job.job import Job

T = TypeVar("T")

Connect = Callable[[], Awaitable[Connector]]
"""Gives the connections to a run's hosts when they are needed."""


def code_reader(settings: ClusterSettings) -> CodeReader:
    """What reads the code of jobs on this machine."""
    return CodeReader(settings.paths.cache, settings.environ)


@frozen
class Sources:
    """What a job takes along from this machine, read once for all hosts and attempts."""

    code: CodeSource | None = None
    build: BuildSource | None = None

    @classmethod
    def read(
        cls,
        reader: CodeReader,
        job: Job,
        token: str | None,
        *,
        typing: bool = False,
        given_up: threading.Event | None = None,
    ) -> Sources:
        """Read the folder or repository of `code:` and the folder of `build:`. Blocks, but not for long once
        `given_up` is set.

        `typing` is for a job that is being edited: what takes long is not read again. Raises UsageError and CheckFailed
        for what can't be sent.
        """
        return cls(reader.read(job, token, typing=typing, given_up=given_up), read_build(job, given_up))


async def in_thread(read: Callable[[threading.Event], T]) -> T:
    """What a thread reads that knows when nobody waits for it any more: distui ends with its last thread only."""
    given_up = threading.Event()
    try:
        return await asyncio.to_thread(read, given_up)
    except asyncio.CancelledError:
        given_up.set()
        raise


async def read_sources(reader: CodeReader, request: RunRequest) -> Sources:
    """What goes along with a run. Raises as `Sources.read`."""
    return await in_thread(lambda given_up: Sources.read(reader, request.job, request.token, given_up=given_up))


@frozen
class PlannedRun:
    """A plan, what it was made from, what goes along, and how the run's next attempts are planned.

    Programs read `plan` and `facts`, and give the whole to `launch`.
    """

    request: RunRequest
    plan: RunPlan
    facts: Mapping[str, HostFacts]
    sources: Sources
    planner: AttemptPlanner | None
    """None when another plan than the one that was made last is started."""


class RunPlanner:
    """Plans one run, now from facts that are there, later from hosts asked again."""

    def __init__(self, request: RunRequest, sources: Sources, *, keep: bool = False) -> None:
        """`keep` is for a run whose ended containers stay."""
        self._request = request
        self._sources = sources
        self._plan = partial(
            plan,
            request.job,
            request.inventory,
            request.picks,
            code=sources.code.plan if sources.code else None,
            build=sources.build.plan if sources.build else None,
            keep=keep,
            **identity(request.run_id),
        )

    def plan(self, facts: Mapping[str, ProbeResult]) -> RunPlan | NoPlan:
        """The plan by these facts, or every reason why there is none."""
        return self._plan(facts=facts)

    def planned(self, made: RunPlan, facts: Mapping[str, ProbeResult], connect: Connect, parallel: int) -> PlannedRun:
        """What is needed to start `made`, which this planner made from `facts`."""
        known = {
            host.name: found for host in self._request.hosts if isinstance(found := facts.get(host.name), HostFacts)
        }
        hosts = [host for host in self._request.hosts if host.name in known]
        return PlannedRun(
            self._request, made, known, self._sources, Replanner(self._plan, connect, hosts, known, parallel)
        )


async def plan_run(
    connector: Connector,
    request: RunRequest,
    reader: CodeReader,
    *,
    parallel: int,
    keep: bool = False,
    on_asking: Callable[[tuple[Host, ...]], None] = lambda hosts: None,
) -> PlannedRun:
    """Read the sources, ask the hosts and make the plan.

    Raises HostsUnreachable or HostsFailed when a host does not answer, PlanError when there is no plan, and UsageError
    or CheckFailed for code that can't be sent. `on_asking` is called before the hosts are.
    """
    sources = await read_sources(reader, request)
    planner, hosts = RunPlanner(request, sources, keep=keep), request.hosts
    on_asking(hosts)
    results = await probe_all(connector, hosts, parallel=parallel)
    refuse_unusable(results)
    made = planner.plan(results)
    if isinstance(made, NoPlan):
        raise plan_error(await with_holders(connector, made, hosts))

    async def connected() -> Connector:
        return connector

    return planner.planned(made, results, connected, parallel)


def plan_error(found: NoPlan) -> PlanError:
    """Why there is no plan."""
    reasons = (words + (f" (try: {hint})" if hint else "") for words, hint in in_words(found.problems))
    return PlanError(tuple(reasons), found.problems)
