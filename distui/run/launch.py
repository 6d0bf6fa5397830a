"""From a plan to started tasks: connect, check, image, push, start; undone again when anything fails.

Everything that can be checked is checked on *all* hosts before the first container starts. Once starts are under
way they are never cut off in the middle: what was begun is finished and then undone, so that nothing appears later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, TypeVar

from distui.doctor.reach import prove
from distui.doctor.reach_check import endpoints_of_plan
from distui.errors import DistuiError, ExitCode, HostError
from distui.plan.model import Task
from distui.run.asked import heeding
from distui.run.cleanup import roll_back
from distui.run.conclude import conclude
from distui.run.ending import refused
from distui.run.events import HostChanged, Notice, RankChanged, TaskStarted
from distui.run.folder import STALE_MINUTES, Claim, claim_of
from distui.run.host_run import HostRun
from distui.run.launch_code import give_code
from distui.run.launch_data import check_mounts, fetch_data
from distui.run.launch_images import give_images
from distui.run.launch_leases import PLANS, PortsTaken, hold, hold_still, refuse_taken, with_other_ports
from distui.run.launch_steps import LaunchRefused, each, finished, phase, raise_errors, sentence

if TYPE_CHECKING:
    from distui.run.controller import RunController

T = TypeVar("T")


async def launch(run: RunController) -> None:
    """Start every task of the run's plan. Raises LaunchRefused, with nothing left started.

    A port that the plan chose itself and that another run has by now is no reason: the plan is made again without it.
    """
    taken: dict[str, set[int]] = {}
    async with heeding(run):
        for left in reversed(range(PLANS)):
            try:
                await _launch(run)
                break
            except PortsTaken as refusal:
                if run.requests.stop is not None:
                    stopped = _interrupted(run)
                    stopped.leftovers = refusal.leftovers
                    raise stopped from None
                if not left or run.again is None or refusal.leftovers:  # what is left would refuse our own name
                    raise
                await run.renew(await with_other_ports(run, run.again, refusal, taken))


async def _launch(run: RunController) -> None:
    _check_code(run)
    claim = claim_of(run.plan, run.clock())
    try:
        await _unless_stopped(run, _prepare(run, claim))
        await _take(run, claim)
        if run.code is not None:
            await _unless_stopped(run, give_code(run, run.code))
        await hold_still(run, claim)
        await _push(run)
        await _start(run)
        await _hand_over(run)
    except LaunchRefused as refusal:
        for host in refusal.lost:  # they were waited for: that is enough for the way back, too
            run.hosts[host].patience = 0.0
        told = _stopped_elsewhere() if await _taken_away(run) else refusal
        if any(host.taken for host in run.hosts.values()):
            await conclude(run, refused(run, told))
        told.leftovers = await roll_back(run)
        raise told from None
    except BaseException:
        await asyncio.shield(roll_back(run))
        raise
    finally:
        await asyncio.shield(each([h for h in run.hosts.values() if h.leased], HostRun.free))


async def _hand_over(run: RunController) -> None:
    """The tasks hold the run's name from now on.

    Raises LaunchRefused when the run was stopped from elsewhere meanwhile: whoever did so found nothing to stop where
    no task had begun yet, and believes that there is none.
    """
    held = await each(run.hosts.values(), lambda host: host.holds(over=True))
    if False in held.values():  # what stays on a host that fails now does no harm
        raise _stopped_elsewhere()


async def _taken_away(run: RunController) -> bool:
    """Whether a stop from elsewhere is why the launch has failed, as far as hosts can say."""
    held = await each([h for h in run.hosts.values() if h.taken and h.link.is_up], HostRun.holds)
    return False in held.values()


def _stopped_elsewhere() -> LaunchRefused:
    return LaunchRefused(("stopped from elsewhere while starting",), ExitCode.TERMINATED)


def _check_code(run: RunController) -> None:
    """What was planned is what is sent."""
    planned, source = run.plan.code, run.code
    if planned is not None and (source is None or source.tree.id != planned.tree):
        raise LaunchRefused(["the code is not what it was when the plan was made: plan again"], ExitCode.CHECK_FAILED)


async def _prepare(run: RunController, claim: Claim) -> None:
    """Everything before the run's folder is made on a host."""
    await _connect(run)
    await _check_hosts(run)
    await hold(run, claim)
    if run.preflight:
        await _check_reach(run)
        await check_mounts(run)
    await give_images(run)
    await fetch_data(run)


async def _unless_stopped(run: RunController, work: Awaitable[None]) -> None:
    """Do `work`, but give it up as soon as a stop is asked for. Whoever only leaves gives up nothing."""
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            if run.requests.stop is not None:
                raise _interrupted(run)
            run.requests.changed.clear()
            asked = asyncio.create_task(run.requests.changed.wait())
            await asyncio.wait((task, asked), return_when=asyncio.FIRST_COMPLETED)
            asked.cancel()
        await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _interrupted(run: RunController) -> LaunchRefused:
    return LaunchRefused(("stopped before anything was started",), run.requests.exit)


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
    await refuse_taken(run, report.problems)
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


async def _take(run: RunController, claim: Claim) -> None:
    """Take the run's folder on every host, which one launch of this name can.

    The first host by name decides between launches on the same hosts; nobody waits, so nothing can lock up.
    """

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
