"""Whose the port is that keeps a job from being planned: the plan knows that somebody listens, the hosts know who."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from distui.errors import HostError, PlanProblem
from distui.plan.model import NoPlan
from distui.runs.hosts.claims.lease import Resource, holders
from distui.runs.hosts.claims.marks import tasks_on
from distui.session import Connector, session_on
from distui.spec.hosts.inventory import Host


async def with_holders(connector: Connector, found: NoPlan, hosts: Sequence[Host]) -> NoPlan:
    """The same reasons; of a port that is taken it is said which run has it, where one does. Never raises HostError."""
    by_name = {host.name: host for host in hosts}

    async def named(problem: PlanProblem) -> PlanProblem:
        host = by_name.get(problem.host or "")
        return await _named(connector, problem, host) if problem.port and host is not None else problem

    return NoPlan(tuple(await asyncio.gather(*map(named, found.problems))))


async def _named(connector: Connector, problem: PlanProblem, host: Host) -> PlanProblem:
    try:
        async with session_on(connector, host.name) as session:
            tasks = await tasks_on(session.run, host.name, host)
    except HostError:
        return problem
    conflicts = holders(tasks, [Resource("port", problem.port)])
    return replace(problem, message=conflicts[0].message) if conflicts else problem
