"""Attaches to runs that go on: for `attach`, `wait` and `stop`."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

from distui.cluster.attach import leftover, places
from distui.cluster.attach.beside import Beside
from distui.cluster.attach.places import Asked, RunLocation, open_here
from distui.cluster.hosts.connecting import Connect
from distui.cluster.masks import mask_of
from distui.cluster.settings import ClusterSettings
from distui.errors import PlanProblem
from distui.facts.host import HostFacts, Trouble
from distui.facts.probe import probe_all
from distui.frozen import frozen
from distui.identity import owner
from distui.plan.model import NoPlan, RunPlan
from distui.plan.serialize import to_json
from distui.runs.attempt.replan import AttemptPlanner, NextAttempt, Ports
from distui.runs.attempt.run_context import run_context
from distui.runs.control.beside import StoredReader
from distui.runs.control.controller import RunController
from distui.runs.hosts.discover import FoundRun, FoundTask
from distui.runs.report.found import plan_of, unfound
from distui.runs.report.history import stored_row
from distui.runs.report.older import launch_of, set_aside
from distui.runs.store.end_record import launch_here
from distui.runs.store.recorded import stored_plan
from distui.runs.store.runs import RunStore, StoredRun, cannot_write
from distui.runs.store.saved_hosts import save_hosts, saved_hosts
from distui.session import Connector
from distui.spec.hosts.inventory import Host

STARTED_SECONDS = 10.0
"""How long an attempt's tasks may take to be there once the first one is."""


@frozen
class Live:
    """A run that was found on its hosts, and what is needed to follow it."""

    found: FoundRun | None
    """None when the hosts do not list it any more: what is left of it is known by its plan, which is recorded here."""
    plan: RunPlan
    unreachable: Mapping[str, Trouble]
    """Hosts that did not answer and may have something of it."""
    facts: Mapping[str, HostFacts]
    """For the clocks of the hosts, and how their engines are reached."""

    @property
    def token(self) -> str:
        """The token of its launch and attempt."""
        return self.plan.token

    @property
    def runs(self) -> bool:
        """Whether a task of it was seen to run."""
        return self.found is not None and self.found.state in ("running", "partial")

    def started(self, task: FoundTask) -> float | None:
        """When a task began, in our clock as far as that of its host is known."""
        facts = self.facts.get(task.host)
        offset = (facts.clock_offset_ms or 0.0) / 1000 if facts is not None else 0.0
        return task.started - offset if task.started is not None else None


async def attach(
    settings: ClusterSettings,
    connector: Connector,
    place: RunLocation,
    asked: Asked | None = None,
    plan: RunPlan | None = None,
    *,
    disputed: bool = False,
) -> Live:
    """Find the run on its hosts, unless they were `asked` just now. Raises NotFound or ContactLost, and Disputed as
    `leftover.run_there`.

    `plan` is that of a run which no host lists, where the caller has looked (`open_here`): it may be over by now.
    """
    found, unreachable = asked or await places.find(connector, place)
    plan = (plan or open_here(place.stored, unreachable)) if found is None else None
    if plan is None:
        found = await leftover.run_there(settings, connector, place, found, unreachable, disputed=disputed)
        plan = plan_of(found, place.stored, place.hosts)
    up = [h for h in place.hosts if h.name in plan.hosts and h.name not in unreachable]
    results = await probe_all(connector, up, parallel=settings.parallel)
    facts = {name: r for name, r in results.items() if isinstance(r, HostFacts)}
    return Live(found, plan, may_have(plan, unreachable), facts)


def may_have(plan: RunPlan, unreachable: Mapping[str, Trouble]) -> Mapping[str, Trouble]:
    """Those of the hosts that did not answer that may have something of the run: any, where tasks of it are missing."""
    return {name: why for name, why in unreachable.items() if name in plan.hosts or unfound(plan)}


def adopt(
    settings: ClusterSettings, connector: Connector, place: RunLocation, live: Live, *, keep: bool | None = None
) -> RunController:
    """A controller that follows the run from now on, writing into this machine's folder of it.

    Whether its ended containers stay is what was asked for when it was started, unless `keep` says something else.
    Raises AlreadyFollowed where another distui here has it by now, and UsageError with `--readonly`: who has a run
    stops and removes what its end asks for.
    """
    settings.refuse_readonly(f"to attach to {place.run}, which nobody follows here,")
    stored = _folder(settings, place, live)
    goes_on = keep is None  # who stops it waits for no further attempt
    planner = _begun_elsewhere(settings, connector, place, stored) if goes_on else None
    return _controller(settings, connector, live, stored, stored, keep=keep, planner=planner)


def view(
    settings: ClusterSettings,
    connector: Connector,
    place: RunLocation,
    live: Live,
    folder: Path,
    *,
    left_by: StoredRun | None = None,
) -> RunController:
    """A controller that only looks on: it reads the run from its hosts into `folder`, which goes when that is over.

    The run, its owner and what is recorded of it here are as without it. An owner that has left its folder here and is
    gone (`left_by`) is not waited for at the end. Raises CheckFailed for a full disk.
    """
    try:
        stored = _made(RunStore(folder).adopt(live.plan.run_id), place, live)
    except OSError as exc:
        raise cannot_write(folder, exc, "; the run was not touched") from exc
    planner = _begun_elsewhere(settings, connector, place, stored)
    started_as = place.stored if place.stored is not None else stored
    return _controller(settings, connector, live, stored, started_as, views=True, left_by=left_by, planner=planner)


def _begun_elsewhere(
    settings: ClusterSettings, connector: Connector, where: RunLocation, stored: StoredRun
) -> AttemptPlanner:
    """For who did not start the run: the next attempt is what that one begins, as soon as the hosts have it."""
    place = RunLocation(where.run, stored, where.hosts)

    async def planner(attempt: int, spent: float, taken: Ports | None = None, /) -> NextAttempt | NoPlan:
        until = time.monotonic() + leftover.REST_SECONDS
        begun = 0.0
        while (now := time.monotonic()) < until:
            asked = await places.find_again(connector, place)
            if (found := asked[0]) is not None and found.attempt >= attempt:
                begun = begun or now
                if not found.unfound or now - begun > STARTED_SECONDS:
                    try:
                        live = await attach(settings, connector, place, asked)
                    except places.Disputed as exc:
                        return NoPlan((PlanProblem("attempt", None, exc.message),))
                    return NextAttempt(live.plan, live.facts)
            await asyncio.sleep(leftover.POLL_SECONDS)
        return NoPlan((PlanProblem("attempt", None, "the distui that started the run has not begun it in time"),))

    return planner


def _controller(
    settings: ClusterSettings,
    connector: Connector,
    live: Live,
    stored: StoredRun,
    started_as: StoredRun,
    *,
    keep: bool | None = None,
    views: bool = False,
    left_by: StoredRun | None = None,
    planner: AttemptPlanner | None = None,
) -> RunController:
    """`started_as` is the folder of whoever started it here, if it was started here."""
    context = run_context(
        live.plan,
        connector=connector,
        stored=stored,
        mask=mask_of(settings, live.plan.secret_names, started_as),
        adopted=True,
        views=views,
        left_by=left_by,
        keep=keep,
        planner=planner,
        began=_began(stored, live),
        limits=settings.limits(adopted=True),
        stopped_as=owner(),
        unreachable=live.unreachable,
    )
    found = frozenset(task.labels.task for task in live.found.tasks) if live.found is not None else frozenset()
    return RunController(live.plan, context, facts=live.facts, found=found)


def reader_of(settings: ClusterSettings, place: RunLocation) -> StoredReader:
    """Reads on from where the run's files here are now, if there are any yet."""
    return StoredReader(place.stored or StoredRun(settings.store.root / place.run))


def beside(
    settings: ClusterSettings,
    place: RunLocation,
    plan: RunPlan,
    reader: StoredReader,
    connect: Connect,
    folder: Callable[[], Path],
) -> Beside:
    """The run as its owner on this machine writes it down; taken over when that one leaves.

    With `--readonly` it is looked on at from then on, in a new `folder`, which is to live as long as that is shown.
    """

    @contextlib.asynccontextmanager
    async def own() -> AsyncIterator[RunController]:
        here = RunLocation(place.run, reader.stored, place.hosts)
        async with connect(place.hosts) as connector:
            live = await attach(settings, connector, here, await places.find_again(connector, here))
            if settings.readonly:
                copy = folder()
                await asyncio.to_thread(_copy, reader.stored, copy)
                following = view(settings, connector, here, live, copy, left_by=reader.stored)
            else:
                following = adopt(settings, connector, here, live)
            async with following as controller:
                yield controller

    mask = mask_of(settings, plan.secret_names)
    return Beside(plan, own, looks=settings.readonly, reader=reader, mask=mask)


def _copy(stored: StoredRun, folder: Path) -> None:
    """What is recorded of a run, as a run in `folder` that is followed on. Raises CheckFailed for a full disk."""
    try:
        copy = RunStore(folder).adopt(stored.run_id)
        left_out = shutil.ignore_patterns("lock", "stop", ".*")  # what is just being written has another name soon
        shutil.copytree(stored.path, copy.path, ignore=left_out, dirs_exist_ok=True)
    except OSError as exc:
        raise cannot_write(folder, exc, "; the run was not touched") from exc


def _began(stored: StoredRun, live: Live) -> float | None:
    """When the run began, in our clock: as it is recorded here, else by the first start of a task on its host."""
    if launch_here(stored) == live.token:
        began = stored_row(stored).started
        if began is not None:
            return began
    tasks = live.found.tasks if live.found is not None else ()
    starts = [start for start in map(live.started, tasks) if start is not None]
    return min(starts, default=None)


def _folder(settings: ClusterSettings, place: RunLocation, live: Live) -> StoredRun:
    """The run's folder here, with its plan and how its hosts are reached; another launch's is kept apart.

    Raises AlreadyFollowed, and CheckFailed for a full disk.
    """
    store = settings.store
    try:
        set_aside(store, live.plan.run_id, launch_of(live.plan))
        stored = store.adopt(live.plan.run_id)
        with stored.followed():  # else what another one writes there by now is its own
            return _made(stored, place, live)
    except OSError as exc:
        raise cannot_write(store.root / live.plan.run_id, exc, "; the run was not touched") from exc


def _made(stored: StoredRun, place: RunLocation, live: Live) -> StoredRun:
    """The folder with what it lacks. Raises OSError."""
    before = stored_plan(stored)
    if before is not None and before.attempt < live.plan.attempt:
        stored.set_aside(before.attempt)
        before = None
    if before is None or len(before.tasks) < len(live.plan.tasks):
        stored.write_plan(to_json(live.plan))
    known = saved_hosts(stored)
    names = {host.name for host in known}
    if more := [host for host in _hosts(place, live) if host.name not in names]:
        save_hosts(stored, [*known, *more])
    return stored


def _hosts(place: RunLocation, live: Live) -> list[Host]:
    """The hosts of the run; also those that did not answer, where its plan has not all of its tasks: later calls ask
    no others.
    """
    names = {*live.plan.hosts, *(live.unreachable if unfound(live.plan) else ())}
    return [host for host in place.hosts if host.name in names]
