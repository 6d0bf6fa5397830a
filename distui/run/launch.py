"""From a plan to started tasks: connect, check, image, push, start; undone again when anything fails.

Everything that can be checked is checked on *all* hosts before the first container starts. Once starts are under
way they are never cut off in the middle: what was begun is finished and then undone, so that nothing appears later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from distui.doctor.reach import prove
from distui.doctor.reach_check import endpoints_of_plan
from distui.errors import DistuiError, ExitCode, HostError
from distui.plan.model import Task
from distui.run.cleanup import roll_back
from distui.run.events import HostChanged, Notice, RankChanged, TaskStarted
from distui.run.folder import STALE_MINUTES, claim_of
from distui.run.host_run import HostRun
from distui.run.launch_code import give_code
from distui.run.launch_data import check_mounts, fetch_data
from distui.run.launch_images import give_images
from distui.run.launch_steps import LaunchRefused, each, finished, phase, raise_errors, sentence
from distui.run.lease import Lease

if TYPE_CHECKING:
    from distui.run.controller import RunController

T = TypeVar("T")


async def launch(run: RunController) -> None:
    """Start every task of the run's plan. Raises LaunchRefused, with nothing left started."""
    _check_code(run)
    await _unless_stopped(run, _prepare(run))
    try:
        await _take(run)
        if run.code is not None:
            await _unless_stopped(run, give_code(run, run.code))
        await _lease_gpus(run)
        await _push(run)
        await _start(run)
    except LaunchRefused as refusal:
        refusal.leftovers = await roll_back(run)
        raise
    except BaseException:
        await asyncio.shield(roll_back(run))
        raise
    finally:
        await asyncio.shield(each([h for h in run.hosts.values() if h.leased], HostRun.free))
    await each(run.hosts.values(), HostRun.launched)  # what stays of it on a host that fails now does no harm


def _check_code(run: RunController) -> None:
    """What was planned is what is sent."""
    planned, source = run.plan.code, run.code
    if planned is not None and (source is None or source.tree.id != planned.tree):
        raise LaunchRefused(["the code is not what it was when the plan was made: plan again"], ExitCode.CHECK_FAILED)


async def _prepare(run: RunController) -> None:
    """Everything before the first change on a host."""
    await _connect(run)
    await _check_hosts(run)
    if run.preflight:
        await _check_reach(run)
        await check_mounts(run)
    await give_images(run)
    await fetch_data(run)


async def _unless_stopped(run: RunController, work: Awaitable[None]) -> None:
    """Do `work`, but give it up as soon as a stop is asked for."""
    task = asyncio.ensure_future(work)
    asked = asyncio.create_task(run.requests.changed.wait())
    try:
        await asyncio.wait((task, asked), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise _interrupted(run)
        await task
    finally:
        asked.cancel()
        task.cancel()
        await asyncio.gather(asked, task, return_exceptions=True)


def _interrupted(run: RunController) -> LaunchRefused:
    """A stop was asked for, or the terminal was closed: there is no run yet that could live on without it."""
    code = ExitCode.TERMINATED if run.requests.stop is None else run.requests.exit
    return LaunchRefused(("stopped before anything was started",), code)


async def _connect(run: RunController) -> None:
    await phase(run, "connect", f"{len(run.hosts)} host(s)")

    async def connect(host: HostRun) -> None:
        await host.connect()
        await run.emit(HostChanged(run.clock(), host.host, "up"))

    raise_errors(await each(run.hosts.values(), connect), ExitCode.UNREACHABLE)


async def _check_hosts(run: RunController) -> None:
    """Refuse a run's name that somebody has on a host, and say who; and a host that may not be any more as planned."""
    await phase(run, "check", "run name, addresses and ports")
    hosts = run.hosts.values()
    results, restarted = await asyncio.gather(each(hosts, HostRun.holder), each(hosts, HostRun.restarted))
    raise_errors(restarted, ExitCode.CHECK_FAILED)
    if words := [f"{host}: it was restarted since it was probed" for host, is_new in restarted.items() if is_new]:
        raise LaunchRefused([*words, "probe and launch again"], ExitCode.CHECK_FAILED)
    raise_errors(results, ExitCode.CHECK_FAILED)
    held = [f"{host}: a run named {run.plan.run_id} is there already ({who})" for host, who in results.items() if who]
    if held:
        raise LaunchRefused([*held, _other_name(run)], ExitCode.CHECK_FAILED)


def _other_name(run: RunController) -> str:
    return f"give another --name, or `distui stop {run.plan.run_id}` first"


async def _check_reach(run: RunController) -> None:
    """Every pair of hosts reaches each other on the plan's addresses; the rendezvous port is free."""
    try:
        sessions = {host: await h.link.session() for host, h in run.hosts.items()}
        report = await prove(sessions, endpoints_of_plan(run.plan))
    except HostError as exc:
        words = f"the reachability check did not finish: {sentence(exc)}"
        raise LaunchRefused([words], ExitCode.CHECK_FAILED) from exc
    if report.unproved:
        text = f"no python3 on {', '.join(report.unproved)}: that its peers reach it is not proved"
        await run.emit(Notice(run.clock(), "warning", text))
    if report.problems:
        raise LaunchRefused(
            [f"{p.host}: {p.message}" + (f" ({p.hint})" if p.hint else "") for p in report.problems],
            ExitCode.CHECK_FAILED,
        )


async def _push(run: RunController) -> None:
    await phase(run, "push", "env files")

    async def push(host: HostRun) -> None:
        await asyncio.gather(*(host.push(task, run.secrets) for task in host.tasks))

    raise_errors(await finished(each(run.hosts.values(), push)), ExitCode.LAUNCH_FAILED)


async def _take(run: RunController) -> None:
    """Take the run's folder on every host, which one launch of this name can.

    The first host by name decides between launches on the same hosts; nobody waits, so nothing can lock up.
    """
    claim = claim_of(run.plan, run.clock())

    async def take(host: HostRun) -> str:
        return await host.take(claim)

    hosts = sorted(run.hosts.values(), key=lambda h: h.host)
    for some in (hosts[:1], hosts[1:]):
        results = await finished(each(some, take))
        _raise_held(run, results)
        raise_errors(results, ExitCode.LAUNCH_FAILED)


def _raise_held(run: RunController, results: Mapping[str, str | DistuiError]) -> None:
    name = run.plan.run_id
    text = f"a run named {name} is being started or is there already"
    held = [f"{host}: {text} ({who})" for host, who in results.items() if isinstance(who, str) and who]
    if held:
        hint = f"{_other_name(run)}; a launch that was killed frees its name after {STALE_MINUTES} minutes"
        raise LaunchRefused([*held, hint], ExitCode.CHECK_FAILED)


async def _lease_gpus(run: RunController) -> None:
    """No GPU is used twice without a word: not by a run that lives, nor by a launch at the same moment.

    With `force` neither keeps this one from starting; who shares what is said then.
    """
    hosts = sorted((h for h in run.hosts.values() if h.gpus), key=lambda h: h.host)
    claim = claim_of(run.plan, run.clock())

    async def lease(host: HostRun) -> Lease:
        return await host.lease(claim)

    for some in () if run.force else (hosts[:1], hosts[1:]):
        leases = await finished(each(some, lease))
        raise_errors(leases, ExitCode.LAUNCH_FAILED)
        for host, told in leases.items():
            if isinstance(told, Lease) and told.state == "failed":
                text = f"can't hold the GPUs while starting ({told.why}): a launch at this moment would go unseen"
                await run.emit(Notice(run.clock(), "warning", text, host))
        _raise_shared([(host, t.why) for host, t in leases.items() if isinstance(t, Lease) and t.state == "held"])
    found = await each(hosts, HostRun.sharers)
    raise_errors(found, ExitCode.CHECK_FAILED)
    shared = [(host, words) for host, told in found.items() if isinstance(told, tuple) for words in told]
    if not run.force:
        _raise_shared(shared)
    for host, words in shared:
        await run.emit(Notice(run.clock(), "warning", f"{words}, and by this run too (--force)", host))


def _raise_shared(held: Sequence[tuple[str, str]]) -> None:
    if held:
        hint = "wait, take other GPUs (`-H host:1`) or other hosts, or share them: `distui run --force`, in the app `R`"
        raise LaunchRefused([*(f"{host}: {words}" for host, words in held), hint], ExitCode.CHECK_FAILED)


async def _start(run: RunController) -> None:
    await phase(run, "start", f"{len(run.plan.tasks)} task(s)")
    run.known.starting()

    async def start(host: HostRun) -> None:
        results = await asyncio.gather(*(_start_task(run, host, t) for t in host.tasks), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    results = await finished(each(run.hosts.values(), start))
    if run.requests.stop is not None:
        raise LaunchRefused(("stopped while starting",), run.requests.exit)
    raise_errors(results, ExitCode.LAUNCH_FAILED)


async def _start_task(run: RunController, host: HostRun, task: Task) -> None:
    if run.requests.stop is not None:
        return
    for rank in task.ranks:
        await run.emit(RankChanged(run.clock(), rank, host.host, "starting"))
    identity = await host.start(task)
    await run.emit(TaskStarted(run.clock(), task.index, host.host, identity))
    for rank in task.ranks:
        await run.emit(RankChanged(run.clock(), rank, host.host, "running"))
