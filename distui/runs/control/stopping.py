"""Stopping a run, or some of its ranks, from afar: nobody here follows it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from distui.errors import DistuiError, ExitCode, UsageError
from distui.facts.host import Trouble
from distui.frozen import frozen
from distui.plan.labels import format_ranks, named_ranks
from distui.plan.model import RunPlan, Task
from distui.runs.hosts.discover import FoundRun
from distui.runs.hosts.stop_word import StopWord
from distui.runs.task.host_run import HostRun
from distui.runs.verdict.evidence import Verb
from distui.session import Connector


@frozen
class StopReport:
    """What a stop from afar did: errors by host, and what is left, in words."""

    errors: Mapping[str, str]
    leftovers: tuple[str, ...]


async def stop_found(
    connector: Connector, found: FoundRun | None, plan: RunPlan, *, who: str, grace: float, remove: bool = True
) -> StopReport:
    """Stop every task of a run on the hosts that answer, and remove what it left; safe to repeat."""

    async def stop(host: HostRun) -> tuple[str, ...]:
        await host.notes.say_stopped(StopWord(who, "user", int(ExitCode.TERMINATED), grace))
        await host.stop(_running(host, found), grace, give_up=host.reconnect_timeout)
        return await host.remove() if remove else ()

    return await _on_hosts(connector, plan, plan.hosts, stop)


async def stop_ranks(
    connector: Connector,
    found: FoundRun | None,
    plan: RunPlan,
    ranks: Collection[int],
    *,
    who: str,
    grace: float,
    verb: Verb = "stop",
) -> StopReport:
    """Stop the tasks of some ranks and leave the rest alone: what becomes of the run is its job's `on_fail`.

    To whoever follows it they fail, and `who` ended them. Raises UsageError when a task has ranks that are not among
    them: they live and end together.
    """
    chosen = [task for task in plan.tasks if set(task.ranks) & set(ranks)]
    for task in chosen:
        if not set(task.ranks) <= set(ranks):
            message = f"{named_ranks(task.ranks)} on {task.host} are one task and end together"
            raise UsageError(message, hint=f"--rank {format_ranks(task.ranks)}")

    async def stop(host: HostRun) -> tuple[str, ...]:
        tasks = [task for task in _running(host, found) if task in chosen]
        await host.notes.say_ended(StopWord(who, "user", int(ExitCode.TERMINATED), grace, verb=verb), tasks)
        await host.stop(tasks, grace, give_up=host.reconnect_timeout)
        return ()

    return await _on_hosts(connector, plan, tuple(dict.fromkeys(task.host for task in chosen)), stop)


def _running(host: HostRun, found: FoundRun | None) -> list[Task]:
    tasks = found.tasks if found is not None else ()
    running = {t.labels.task for t in tasks if t.running and t.host == host.host}
    return [task for task in host.tasks if task.index in running]


async def _on_hosts(
    connector: Connector, plan: RunPlan, names: Sequence[str], work: Callable[[HostRun], Awaitable[tuple[str, ...]]]
) -> StopReport:
    """Do something on these hosts of a run side by side; a host that fails keeps none of the others from it."""
    hosts = [HostRun(name, plan, connector) for name in names]

    async def one(host: HostRun) -> tuple[str, ...]:
        await host.connect()
        return await work(host)

    try:
        results = await asyncio.gather(*(one(host) for host in hosts), return_exceptions=True)
    finally:
        await asyncio.gather(*(host.link.close() for host in hosts))
    errors: dict[str, str] = {}
    left: list[str] = []
    for host, result in zip(hosts, results, strict=True):
        if isinstance(result, DistuiError):
            errors[host.host] = Trouble("", result.message).words(host.host)
        elif isinstance(result, BaseException):
            raise result
        else:
            left += result
    return StopReport(errors, tuple(left))
