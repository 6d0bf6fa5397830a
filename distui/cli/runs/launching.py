"""From a request to a run: ask the hosts, plan, confirm on a terminal, and drive the controller to the end."""

from __future__ import annotations

from dataclasses import replace

from distui.amounts import counted
from distui.cli import wiring
from distui.cli.console import Console
from distui.cli.printing.printer import LogView, printer
from distui.cli.printing.ranks import refuse_unknown
from distui.cli.runs.follow import follow
from distui.cli.runs.planview import confirm_plan
from distui.cli.settings import Settings
from distui.cluster.start.planning import PlannedRun, code_reader, plan_run
from distui.cluster.start.request import RunRequest
from distui.cluster.start.starting import controller_of, forget_if_never_started, record
from distui.errors import ExitCode
from distui.frozen import frozen
from distui.runs.lines.events import RunEnded
from distui.session import Connector
from distui.spec.hosts.inventory import Host
from distui.spec.hosts.names import fold


@frozen
class How:
    """How a run is started and shown."""

    view: LogView
    detach: bool = False
    keep: bool = False
    preflight: bool = True
    force: bool = False
    exit_first: bool = False


async def prepare(
    connector: Connector, settings: Settings, out: Console, request: RunRequest, *, keep: bool = False
) -> PlannedRun:
    """See `plan_run`; says that the hosts are asked."""

    def say(hosts: tuple[Host, ...]) -> None:
        out.say(f"distui: asking {counted(len(hosts), 'host')}: {fold(h.name for h in hosts)}", "dim")

    reader = code_reader(settings.cluster)
    return await plan_run(connector, request, reader, parallel=settings["parallel"], keep=keep, on_asking=say)


async def start(connector: Connector, settings: Settings, out: Console, planned: PlannedRun, how: How) -> RunEnded:
    """Start the plan and follow it to its end. Raises UsageError when a run of that name is recorded here."""
    stored = record(settings.cluster.store, planned)
    controller = controller_of(
        connector,
        stored,
        planned,
        detach=how.detach,
        preflight=how.preflight,
        force=how.force,
        limits=settings.cluster.limits(),
    )
    sink = printer(out, settings.output, how.view, verbose=settings.verbose)
    ended = await follow(controller, sink, out, stop_on_exit=True)
    forget_if_never_started(stored, ended)
    return ended


def exit_code(ended: RunEnded, *, exit_first: bool) -> int:
    """The exit code of `run` and `attach`; with --exit-first the first failed rank's own."""
    failure = ended.failure
    if exit_first and ended.outcome == "failed" and failure is not None and failure.exit:
        return failure.exit
    return ended.exit


async def run(connector: Connector, settings: Settings, out: Console, request: RunRequest, how: How) -> int:
    """All of it: ask, plan, confirm on a terminal, start, follow."""
    planned = await wiring.within(settings.timeout, prepare(connector, settings, out, request, keep=how.keep))
    refuse_unknown(how.view.ranks, range(planned.plan.world_size))
    answer = await confirm_plan(connector, out, settings, planned.plan, request.hosts, force=how.force)
    if answer == "no":
        out.say("distui: not started")
        return ExitCode.INTERRUPTED
    ended = await start(connector, settings, out, planned, replace(how, force=answer == "share"))
    if how.detach and ended.outcome == "detached" and settings.output not in ("json", "ndjson"):
        with out.said_if_lost(f"the run is {planned.plan.run_id}"):
            out.print(planned.plan.run_id)
    return exit_code(ended, exit_first=how.exit_first)
