"""From an order to a run: ask the hosts, plan, and drive the controller to the end."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from distui.cli import wiring
from distui.cli.console import Console
from distui.cli.follow import follow
from distui.cli.order import Order
from distui.cli.phrases import counted
from distui.cli.printer import LogView, printer
from distui.cli.ranks import refuse_unknown
from distui.cli.settings import Settings
from distui.errors import CheckFailed, ExitCode, PlanError
from distui.identity import identity
from distui.run.events import RunEnded

if TYPE_CHECKING:
    from distui.facts.host import HostFacts
    from distui.plan.model import NoPlan, RunPlan
    from distui.run.build.context import BuildSource
    from distui.run.code.source import CodeReader, CodeSource
    from distui.run.replan import Again
    from distui.run.store import StoredRun
    from distui.session import Connector


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan, the facts it was made from, and how the run's next attempts are planned."""

    plan: RunPlan
    facts: Mapping[str, HostFacts]
    again: Again
    code: CodeSource | None = None
    build: BuildSource | None = None


@dataclass(frozen=True, slots=True)
class How:
    """How a run is started and shown."""

    view: LogView
    detach: bool = False
    keep: bool = False
    preflight: bool = True
    force: bool = False
    exit_first: bool = False


async def prepare(connector: Connector, told: Settings, out: Console, order: Order, *, keep: bool = False) -> Prepared:
    """Ask the hosts and make the plan; with `keep` of a run whose ended containers stay.

    Raises HostsUnreachable or HostsFailed when a host does not answer, PlanError when there is no plan, and UsageError
    or CheckFailed for code that can't be sent.
    """
    from distui.facts.host import HostFacts
    from distui.facts.probe import probe_all
    from distui.plan.plan import NoPlan, plan
    from distui.run.build.context import read_build
    from distui.run.port_users import with_holders
    from distui.run.replan import Replan
    from distui.spec.names import fold

    code = await asyncio.to_thread(code_reader(told).read, order.job, order.token)
    build = await asyncio.to_thread(read_build, order.job)
    out.say(f"distui: asking {counted(len(order.hosts), 'host')}: {fold(h.name for h in order.hosts)}", "dim")
    results = await probe_all(connector, order.hosts, parallel=told["parallel"])
    wiring.refuse_dead(results)
    said = code.plan if code else None
    built, who = build.plan if build else None, identity(order.run_id)
    planner = partial(plan, order.job, order.inventory, order.picks, code=said, build=built, keep=keep, **who)
    made = planner(facts=results)
    if isinstance(made, NoPlan):
        raise no_plan(await with_holders(connector, made, order.hosts))
    facts = {name: r for name, r in results.items() if isinstance(r, HostFacts)}

    async def connected() -> Connector:
        return connector

    return Prepared(made, facts, Replan(planner, connected, order.hosts, facts, told["parallel"]), code, build)


def code_reader(told: Settings) -> CodeReader:
    """What reads the code of jobs on this machine."""
    from distui.run.code.source import CodeReader

    return CodeReader(told.paths.cache, told.environ)


def no_plan(found: NoPlan) -> PlanError:
    """Why there is no plan, equal reasons of several hosts as one."""
    from distui.spec.names import fold

    hosts: dict[tuple[str, str], list[str]] = {}
    for problem in found.problems:
        hosts.setdefault((problem.message, problem.hint), []).append(problem.host or "")
    return PlanError(
        tuple(
            (f"{fold(filter(None, names))}: " if any(names) else "") + message + (f" (try: {hint})" if hint else "")
            for (message, hint), names in hosts.items()
        )
    )


async def start(
    connector: Connector, told: Settings, out: Console, order: Order, prepared: Prepared, how: How
) -> RunEnded:
    """Start the plan and follow it to its end. Raises UsageError when a run of that name is recorded here."""
    from distui.run.controller import RunController
    from distui.run.launch_steps import LaunchOptions
    from distui.run.open_files import refuse_too_few

    refuse_too_few(len(prepared.plan.hosts))
    stored = _record(told, order, prepared.plan)
    controller = RunController(
        prepared.plan,
        connector=connector,
        stored=stored,
        facts=prepared.facts,
        secrets=order.secrets,
        options=LaunchOptions(how.detach, how.preflight, how.force, prepared.code, prepared.build),
        planner=prepared.again,
        limits=wiring.limits(told),
    )
    sink = printer(out, told.output, how.view, verbose=told.verbose)
    ended = await follow(controller, sink, out, leash=True)
    if ended.outcome == "launch_failed" and not ended.leftovers:
        _forget(stored)
    return ended


def _record(told: Settings, order: Order, plan: RunPlan) -> StoredRun:
    """The run's folder here with plan and hosts. Raises UsageError for a taken name, CheckFailed for a full disk."""
    from distui.plan.serialize import to_json
    from distui.run.job_record import record_job

    store = wiring.store(told)
    try:
        stored = store.create(plan.run_id)
        stored.write_plan(to_json(plan))
        record_job(stored, order.job, order.picks)
        wiring.save_hosts(stored, order.hosts)
    except OSError as exc:
        shutil.rmtree(store.root / plan.run_id, ignore_errors=True)
        raise CheckFailed(
            f"can't write {store.root / plan.run_id}: {exc.strerror}; nothing was started",
            hint="free some space there, or set XDG_STATE_HOME to a folder on another disk",
        ) from exc
    return stored


def _forget(stored: StoredRun) -> None:
    """A run that never was leaves its name free for the next try."""
    shutil.rmtree(stored.path, ignore_errors=True)


def exit_code(ended: RunEnded, *, exit_first: bool) -> int:
    """The exit code of `run` and `attach`; with --exit-first the first failed rank's own."""
    failure = ended.failure
    if exit_first and ended.outcome == "failed" and failure is not None and failure.exit:
        return failure.exit
    return ended.exit


async def run(connector: Connector, told: Settings, out: Console, order: Order, how: How) -> int:
    """All of it: ask, plan, confirm on a terminal, start, follow."""
    from distui.cli.planview import confirm_plan

    prepared = await wiring.within(told.timeout, prepare(connector, told, out, order, keep=how.keep))
    refuse_unknown(how.view.ranks, range(prepared.plan.world_size))
    answer = await confirm_plan(connector, out, told, prepared.plan, order.hosts, force=how.force)
    if answer == "no":
        out.say("distui: not started")
        return ExitCode.INTERRUPTED
    ended = await start(connector, told, out, order, prepared, replace(how, force=answer == "share"))
    if how.detach and ended.outcome == "detached" and told.output not in ("json", "ndjson"):
        with out.said_if_lost(f"the run is {prepared.plan.run_id}"):
            out.print(prepared.plan.run_id)
    return exit_code(ended, exit_first=how.exit_first)
