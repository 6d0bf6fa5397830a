"""The plan of a run's next attempt, from what its hosts are by then: restarted, with a GPU less, at another address.

Or of the same attempt, when others have its ports.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Protocol

from distui.facts.host import HostFacts
from distui.facts.probe import probe_all
from distui.frozen import frozen
from distui.plan.model import NoPlan, RunPlan
from distui.session import Connector
from distui.spec.hosts.inventory import Host


@frozen
class NextAttempt:
    """A plan and the facts that it was made from."""

    plan: RunPlan
    facts: Mapping[str, HostFacts]


Ports = Mapping[str, Collection[int]]
"""Ports by host."""


class AttemptPlanner(Protocol):
    """Plans an attempt of the run again."""

    def __call__(self, attempt: int, spent: float, taken: Ports | None = None, /) -> Awaitable[NextAttempt | NoPlan]:
        """The attempt of that number, with a port and a rendezvous file of its own. `spent` are the seconds that the
        run has taken so far, `taken` ports that others have though nobody may listen on them yet.
        """


class PlanFunction(Protocol):
    """`plan` with everything given that does not change between attempts."""

    def __call__(
        self, *, facts: Mapping[str, HostFacts], attempt: int, spent: float, taken: Ports | None
    ) -> RunPlan | NoPlan:
        """See distui.plan.plan."""


@frozen
class Replanner:
    """Asks the hosts again and plans with their answers. Awaited as an `AttemptPlanner`."""

    planner: PlanFunction
    connector: Callable[[], Awaitable[Connector]]
    hosts: Sequence[Host]
    known: Mapping[str, HostFacts]
    """What the first plan was made from: a host that does not answer is planned as it was then, and the launch says
    what is wrong with it."""
    parallel: int

    async def __call__(self, attempt: int, spent: float, taken: Ports | None = None, /) -> NextAttempt | NoPlan:
        """See AttemptPlanner."""
        results = await probe_all(await self.connector(), self.hosts, parallel=self.parallel)
        facts = {**self.known, **{name: r for name, r in results.items() if isinstance(r, HostFacts)}}
        plan = self.planner(facts=facts, attempt=attempt, spent=spent, taken=taken)
        return plan if isinstance(plan, NoPlan) else NextAttempt(plan, facts)
