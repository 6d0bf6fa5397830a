"""From a plan to started tasks: connect, check, image, push, start; undone again when anything fails.

Everything that can be checked is checked on *all* hosts before the first container starts. Once starts are under
way they are never cut off in the middle: what was begun is finished and then undone, so that nothing appears later.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Coroutine, Mapping
from typing import Any

from distui.amounts import counted, duration
from distui.doctor.reach import prove
from distui.doctor.reach_check import endpoints_of_plan
from distui.doctor.reach_words import in_words
from distui.errors import DistuiError, ExitCode, HostError
from distui.plan.model import Task
from distui.runs.attempt.attempt import Attempt
from distui.runs.attempt.steps import (
    LaunchOptions,
    LaunchRefused,
    each,
    finished,
    phase,
    raise_errors,
    sentence,
    together,
)
from distui.runs.ending.cleanup import kill_found, may_still_have, roll_back
from distui.runs.ending.conclude import conclude
from distui.runs.ending.finish import refused
from distui.runs.ending.visits import carry_marks
from distui.runs.hosts.claims.folder import STALE_MINUTES, Claim, claim_of
from distui.runs.launch.code import ensure_code
from distui.runs.launch.data import check_mounts, fetch_data
from distui.runs.launch.images import ensure_images, looking_at_images
from distui.runs.launch.leases import PortsTaken, hold, hold_still, refuse_taken, with_other_ports
from distui.runs.lines.events import HostChanged, RankChanged, TaskStarted
from distui.runs.task.host_run import START_TIMEOUT, HostRun
from distui.spec.hosts.names import fold, fold_sorted

HELD_UP_SECONDS = 5.0
"""How long a stop waits for starts in silence."""


async def without_taken_ports(attempt: Attempt, refusal: PortsTaken, taken: dict[str, set[int]]) -> Attempt:
    """The same attempt, planned again without ports that others have by now, and recorded here; `taken` collects them.

    Raises LaunchRefused where that can't be: it is to stop, or something is left that would refuse our own name.
    """
    requests, planner = attempt.run.requests, attempt.run.planner
    if requests.stop is not None:
        stopped = _interrupted(attempt)
        stopped.leftovers = refusal.leftovers
        raise stopped from None
    if planner is None or refusal.leftovers:
        raise refusal
    return await attempt.followed_by(await with_other_ports(attempt, planner, refusal, taken), ran=False)


async def launch(attempt: Attempt, options: LaunchOptions) -> None:
    """Start every task of the attempt. Raises LaunchRefused, with nothing left started; PortsTaken, which is one, where
    nothing is in the way but ports that the plan chose itself: `without_taken_ports` plans without them.
    """
    _check_code(attempt, options)
    claim = claim_of(attempt.plan, attempt.clock())
    try:
        await _unless_stopped(attempt, _prepare(attempt, claim, options))
        await _take_all(attempt, claim, options)
        await _push(attempt)
        await _start(attempt)
        await _hand_over(attempt)
    except LaunchRefused as refusal:
        for host in refusal.lost:  # they were waited for: that is enough for the way back, too
            attempt.hosts[host].reconnect_timeout = 0.0
        error = _stopped_elsewhere() if await _taken_away(attempt) else refusal
        planned_again = isinstance(error, PortsTaken) and attempt.run.planner is not None
        if not planned_again and any(host.claim.taken for host in attempt.hosts.values()):
            await conclude(attempt, refused(attempt, error))
        error.leftovers = await _undo(attempt)
        raise error from None
    except BaseException:
        for words in await asyncio.shield(roll_back(attempt)):
            await attempt.notice("error", f"left: {words}")
        raise
    finally:
        await asyncio.shield(
            each([h for h in attempt.hosts.values() if h.claim.leased], lambda host: host.claim.free())
        )


async def _undo(attempt: Attempt) -> tuple[str, ...]:
    """What the start has left on hosts, in words. Whoever waits no longer leaves what is not undone by then."""
    requests = attempt.run.requests
    left = await requests.unless(lambda: requests.detach, roll_back(attempt))
    if left is not None:
        return left
    hosts = [host for host in attempt.hosts.values() if host.claim.taken]
    return tuple(may_still_have(host, "nobody waited until the start was undone") for host in hosts)


async def _hand_over(attempt: Attempt) -> None:
    """The tasks hold the run's name from now on.

    Raises LaunchRefused when the run was stopped from elsewhere meanwhile: whoever did so found nothing to stop where
    no task had begun yet, and believes that there is none.
    What they have of the hosts is theirs by their labels and marks by now, whoever holds the name: the leases go.
    """

    async def over(host: HostRun) -> bool:
        held, _ = await asyncio.gather(host.claim.holds(over=True), _freed(host))
        return held

    held = await each(attempt.hosts.values(), over)
    if False in held.values():  # what stays on a host that fails now does no harm
        raise _stopped_elsewhere()


async def _freed(host: HostRun) -> None:
    """Give the lease back where that can be done now; else it is tried once more when the launch is over."""
    if host.claim.leased:
        with contextlib.suppress(DistuiError):
            await host.claim.free()


async def _taken_away(attempt: Attempt) -> bool:
    """Whether a stop from elsewhere is why the launch has failed, as far as hosts can say."""
    held = await each(
        [h for h in attempt.hosts.values() if h.claim.taken and h.link.is_up], lambda host: host.claim.holds()
    )
    return False in held.values()


def _stopped_elsewhere() -> LaunchRefused:
    return LaunchRefused(("stopped from elsewhere while starting",), ExitCode.TERMINATED)


def _check_code(attempt: Attempt, options: LaunchOptions) -> None:
    """What was planned is what is sent."""
    planned, source = attempt.plan.code, options.code
    if planned is not None and (source is None or source.tree.id != planned.tree):
        raise LaunchRefused(["the code is not what it was when the plan was made: plan again"], ExitCode.CHECK_FAILED)


async def _prepare(attempt: Attempt, claim: Claim, options: LaunchOptions) -> None:
    """Everything before the run's folder is made on a host."""
    await _connect(attempt)
    await _check_hosts(attempt)
    await hold(attempt, claim, force=options.force)
    async with looking_at_images(attempt) as images:
        if options.preflight:
            await _check_reach(attempt, force=options.force)
            await check_mounts(attempt)
        await ensure_images(attempt, options.build, images)
    await fetch_data(attempt)


async def _unless_stopped(attempt: Attempt, work: Coroutine[Any, Any, None]) -> None:
    """Do `work`, but give it up as soon as a stop is asked for. Whoever only leaves gives up nothing."""
    requests = attempt.run.requests
    await requests.unless(lambda: requests.stop is not None, work)
    if requests.stop is not None:
        raise _interrupted(attempt)


def _interrupted(attempt: Attempt) -> LaunchRefused:
    return LaunchRefused(("stopped before anything was started",), attempt.run.requests.exit)


async def _connect(attempt: Attempt) -> None:
    await phase(attempt, "connect", counted(len(attempt.hosts), "host"))

    async def connect(host: HostRun) -> None:
        await host.connect()
        await attempt.emit(HostChanged(attempt.clock(), host.host, "up"))

    raise_errors(await each(attempt.hosts.values(), connect), ExitCode.UNREACHABLE)


async def _check_hosts(attempt: Attempt) -> None:
    """Refuse a run's name that somebody has on a host, and say who; and a host that may not be any more as planned."""
    await phase(attempt, "check", "run name, addresses and ports")
    hosts = attempt.hosts.values()
    results, restarted = await asyncio.gather(
        each(hosts, lambda host: host.claim.holder()), each(hosts, HostRun.restarted)
    )
    raise_errors(restarted, ExitCode.CHECK_FAILED)
    if words := [f"{host}: it was restarted since it was probed" for host, is_new in restarted.items() if is_new]:
        raise LaunchRefused([*words, "probe and launch again"], ExitCode.CHECK_FAILED)
    raise_errors(results, ExitCode.CHECK_FAILED)
    held = [
        f"{host}: a run named {attempt.plan.run_id} is there already ({who})" for host, who in results.items() if who
    ]
    if held:
        raise LaunchRefused([*held, _other_name(attempt)], ExitCode.CHECK_FAILED)


def _other_name(attempt: Attempt) -> str:
    return f"give another --name, or `distui stop {attempt.plan.run_id}` first"


async def _check_reach(attempt: Attempt, *, force: bool) -> None:
    """Every pair of hosts reaches each other on the plan's addresses; the rendezvous port is free."""
    try:
        sessions = {host: await h.link.session(give_up=h.reconnect_timeout) for host, h in attempt.hosts.items()}
        report = await prove(sessions, endpoints_of_plan(attempt.plan))
    except HostError as exc:
        message = f"the reachability check did not finish: {sentence(exc)}"
        raise LaunchRefused([message], ExitCode.CHECK_FAILED) from exc
    if report.unproved:
        text = f"no python3 on {fold(report.unproved)}: that its peers reach it is not proved"
        await attempt.notice("warning", text)
    await refuse_taken(attempt, report.problems, force=force)
    if report.problems:
        reasons = [words + (f" ({hint})" if hint else "") for words, hint in in_words(report.problems)]
        raise LaunchRefused(reasons, ExitCode.CHECK_FAILED)


async def _push(attempt: Attempt) -> None:
    await phase(attempt, "push", "env files")

    async def push(host: HostRun) -> None:
        await asyncio.gather(host.push_hook(), *(host.push(task, attempt.run.secrets) for task in host.tasks))

    raise_errors(await finished(each(attempt.hosts.values(), push)), ExitCode.LAUNCH_FAILED)


async def _take_all(attempt: Attempt, claim: Claim, options: LaunchOptions) -> None:
    """Take the run's name on every host, and see that what it uses there is still the run's alone.

    At once, unless code is sent in between: that may take long, so others are looked for after it.
    """
    if options.code is None:
        await together(_take(attempt, claim), hold_still(attempt, claim, force=options.force))
        await carry_marks(attempt)
        return
    await _take(attempt, claim)
    await carry_marks(attempt)
    await _unless_stopped(attempt, ensure_code(attempt, options.code))
    await hold_still(attempt, claim, force=options.force)


async def _take(attempt: Attempt, claim: Claim) -> None:
    """Take the run's folder on every host, which one launch of this name can.

    The first host by name decides between launches on the same hosts; nobody waits, so nothing can lock up.
    """

    async def take(host: HostRun) -> str:
        return await host.claim.take(claim)

    hosts = sorted(attempt.hosts.values(), key=lambda h: h.host)
    for some in (hosts[:1], hosts[1:]):
        results = await finished(each(some, take))
        _raise_held(attempt, results)
        raise_errors(results, ExitCode.LAUNCH_FAILED)


def _raise_held(attempt: Attempt, results: Mapping[str, str | DistuiError]) -> None:
    name = attempt.plan.run_id
    text = f"a run named {name} is being started or is there already"
    held = [f"{host}: {text} ({who})" for host, who in results.items() if isinstance(who, str) and who]
    if held:
        hint = f"{_other_name(attempt)}; a launch that was killed frees its name after {STALE_MINUTES} minutes"
        raise LaunchRefused([*held, hint], ExitCode.CHECK_FAILED)


async def _start(attempt: Attempt) -> None:
    await phase(attempt, "start", counted(len(attempt.plan.tasks), "task"))
    attempt.tracker.starting()

    going = {host.host for host in attempt.hosts.values()}

    async def start(host: HostRun) -> None:
        results = await asyncio.gather(*(_start_task(attempt, host, t) for t in host.tasks), return_exceptions=True)
        going.discard(host.host)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    said = asyncio.create_task(_stop_started(attempt, going))
    try:
        results = await finished(each(attempt.hosts.values(), start))
    finally:
        said.cancel()
    if attempt.run.requests.stop is not None:
        raise LaunchRefused(("stopped while starting",), attempt.run.requests.exit)
    raise_errors(results, ExitCode.LAUNCH_FAILED)


async def _stop_started(attempt: Attempt, going: Collection[str]) -> None:
    """Once a stop is asked for while tasks start: where hosts are still `going` a while later, name them, and stop what
    runs on the others. Whatever that does not reach is for who undoes the start.
    """
    requests = attempt.run.requests
    while requests.stop is None:
        await requests.next()
    await asyncio.sleep(HELD_UP_SECONDS)
    if going:
        its = "its engine has" if len(going) == 1 else "their engines have"
        words = f"{its} not answered a start that has begun, for which a stop waits (up to {duration(START_TIMEOUT)})"
        started = [host for host in attempt.hosts.values() if host.host not in going]
        meanwhile = "; ranks of other hosts are stopped now" if started else ""
        await attempt.notice("warning", f"{fold_sorted(going)}: {words}{meanwhile}")
        await each(started, kill_found)


async def _start_task(attempt: Attempt, host: HostRun, task: Task) -> None:
    if attempt.run.requests.stop is not None:
        return
    for rank in task.ranks:
        await attempt.emit(RankChanged(attempt.clock(), rank, host.host, "starting"))
    identity = await host.start(task)
    await attempt.emit(TaskStarted(attempt.clock(), task.index, host.host, identity))
    for rank in task.ranks:
        await attempt.emit(RankChanged(attempt.clock(), rank, host.host, "running"))
