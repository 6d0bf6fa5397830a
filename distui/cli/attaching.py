"""Takes up runs that go on: for `attach`, `wait` and `stop`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from distui.cli import runs, wiring
from distui.cli.settings import Settings

if TYPE_CHECKING:
    from distui.facts.host import HostFacts, Trouble
    from distui.plan.model import RunPlan
    from distui.run.controller import RunController
    from distui.run.discover import FoundRun
    from distui.run.store import StoredRun
    from distui.session import Connector

    Asked = tuple[FoundRun | None, Mapping[str, Trouble]]


@dataclass(frozen=True, slots=True)
class Live:
    """A run that was found on its hosts, and what is needed to follow it."""

    found: FoundRun
    plan: RunPlan
    unreachable: Mapping[str, Trouble]
    facts: Mapping[str, HostFacts]
    """For the clocks of the hosts, and how their engines are reached."""


async def take_up(told: Settings, connector: Connector, place: runs.Place, asked: Asked | None = None) -> Live:
    """Find the run on its hosts, unless they were `asked` just now. Raises NotFound or ContactLost."""
    from distui.facts.host import HostFacts
    from distui.facts.probe import probe_all
    from distui.run.adopt import plan_of

    run, unreachable = asked or await runs.find(told, connector, place)
    found = runs.there(told, place, run, unreachable)
    plan = plan_of(found, place.stored, place.hosts)
    up = [h for h in place.hosts if h.name in plan.hosts and h.name not in unreachable]
    results = await probe_all(connector, up, parallel=told["parallel"])
    facts = {name: r for name, r in results.items() if isinstance(r, HostFacts)}
    return Live(found, plan, unreachable, facts)


def adopt(told: Settings, connector: Connector, place: runs.Place, live: Live) -> RunController:
    """A controller that follows the run from now on, writing into this machine's folder of it."""
    from distui.run.controller import RunController

    stored = _folder(told, place, live)
    controller = RunController(
        live.plan,
        connector=connector,
        stored=stored,
        facts=live.facts,
        secrets={name: told.environ[name] for name in live.plan.secret_names if name in told.environ},
        adopted=True,
        limits=wiring.limits(told, adopted=True),
    )
    for name, trouble in live.unreachable.items():
        if name in controller.hosts and trouble.code == "command_timeout":
            controller.hosts[name].silent = trouble
    return controller


def _folder(told: Settings, place: runs.Place, live: Live) -> StoredRun:
    """The run's folder here, with its plan and how its hosts are reached."""
    from distui.plan.serialize import to_json
    from distui.run.recorded import stored_plan

    stored = wiring.store(told).adopt(live.found.run)
    before = stored_plan(stored)
    if before is not None and before.attempt < live.plan.attempt:
        stored.set_aside(before.attempt)
        before = None
    if before is None:
        stored.write_plan(to_json(live.plan))
    if not wiring.saved_hosts(stored):
        wiring.save_hosts(stored, [h for h in place.hosts if h.name in live.plan.hosts])
    return stored
