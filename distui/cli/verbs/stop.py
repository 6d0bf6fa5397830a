"""`distui stop` and `distui kill`: end a run from any machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from distui.cli import console as consoles
from distui.cli import runs, settings, wiring
from distui.cli.console import Console, confirm_async
from distui.cli.options import DURATION, RANKS, RUN, verb
from distui.cli.phrases import counted
from distui.cli.ranks import refuse_unknown
from distui.errors import DistuiError, ExitCode, UsageError

if TYPE_CHECKING:
    from distui.cli.attaching import Live
    from distui.cli.settings import Settings
    from distui.run.store import StoredRun
    from distui.session import Connector

DRAIN_SECONDS = 60.0
"""How long another distui on this machine may take to read the logs to their end after a stop."""


_SOME = click.option(
    "--rank",
    "ranks",
    type=RANKS,
    metavar="SET",
    help="Only these ranks; the job's on_fail says what the others do.",
)


@verb("stop")
@click.argument("names", metavar="RUN...", type=RUN, nargs=-1, required=True)
@click.option("--grace", type=DURATION, metavar="DUR", help="Between SIGTERM and SIGKILL [the job's stop_grace].")
@_SOME
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...], grace: float | None, ranks: frozenset[int] | None) -> int:
    """Stop runs on all their hosts: SIGTERM, after the grace SIGKILL; read the logs to their end, clean up.

    Works from any machine that reaches the hosts. Repeating it is safe.
    """
    return _end(settings.of(ctx), names, grace, "stop", ranks)


@verb("kill")
@click.argument("names", metavar="RUN...", type=RUN, nargs=-1, required=True)
@_SOME
@click.pass_context
def kill(ctx: click.Context, names: tuple[str, ...], ranks: frozenset[int] | None) -> int:
    """Kill runs on all their hosts at once with SIGKILL, then clean up as stop does."""
    return _end(settings.of(ctx), names, 0.0, "kill", ranks)


def _end(told: Settings, names: tuple[str, ...], grace: float | None, word: str, ranks: frozenset[int] | None) -> int:
    told.refuse_readonly(word)
    out = consoles.of(told)
    if ranks is not None:
        if len(names) > 1:
            raise UsageError("--rank is about one run", hint="name one run")
        return wiring.run_async(_some(told, out, runs.locate(told, names[0]), ranks, grace, word), limit=told.timeout)
    return max(_end_named(told, out, name, grace, word) for name in names)


def _end_named(told: Settings, out: Console, name: str, grace: float | None, word: str) -> int:
    """One of several runs: what is wrong with one keeps none of the others alive."""
    try:
        return wiring.run_async(_end_one(told, out, runs.locate(told, name), grace, word), limit=told.timeout)
    except DistuiError as exc:
        hint = f"\n  try: {exc.hint}" if exc.hint else ""
        out.warn(f"distui: {exc.message}{hint}", "red")
        return exc.exit_code


async def _end_one(told: Settings, out: Console, place: runs.Place, grace: float | None, word: str) -> int:
    from distui.cli.attaching import take_up
    from distui.cli.sweeping import recorded_token, sweep_run
    from distui.run.folder import token_of

    async with wiring.connected(told, place.hosts) as connector:
        found, unreachable = await runs.find(told, connector, place)
        if found is None and not unreachable and place.stored is not None:
            if place.stored.is_followed:
                return await _between_attempts(out, place.stored)
            if not await sweep_run(connector, out, place.run, place.hosts, recorded_token(place.stored)):
                out.say(f"distui: {place.run} is on none of its hosts; there is nothing to {word}")
            return ExitCode.OK
        live = await take_up(told, connector, place)
        if not await _agreed(told, out, live, word):
            return ExitCode.INTERRUPTED
        if place.stored is not None and place.stored.is_followed:
            return await _beside(connector, out, place, live, grace)
        code = await _own(told, connector, out, place, live, grace)
        up = [host for host in place.hosts if host.name not in unreachable]
        await sweep_run(connector, out, place.run, up, token_of(live.found.tasks[0].labels))
        return code


async def _some(
    told: Settings, out: Console, place: runs.Place, ranks: frozenset[int], grace: float | None, word: str
) -> int:
    """Some ranks; whoever follows the run sees them end as if stopped from outside."""
    from distui.cli.attaching import take_up
    from distui.plan.labels import format_ranks
    from distui.run.adopt import stop_ranks

    async with wiring.connected(told, place.hosts) as connector:
        live = await take_up(told, connector, place)
        refuse_unknown(ranks, [rank for task in live.plan.tasks for rank in task.ranks])
        if not await _agreed(told, out, live, word):
            return ExitCode.INTERRUPTED
        seconds = live.plan.stop_grace if grace is None else grace
        report = await stop_ranks(connector, live.found, live.plan, ranks, grace=seconds)
    for host, text in report.errors.items():
        out.warn(f"distui: {host}: {text}", "red")
    if report.errors:
        return ExitCode.CONTACT_LOST
    done = f"rank {format_ranks(sorted(ranks))}" if len(ranks) == 1 else f"ranks {format_ranks(sorted(ranks))}"
    then = "the others go on" if live.plan.on_fail == "wait" else "whoever follows the run stops the others"
    out.say(f"distui: {done} of {place.run} ended; with `on_fail: {live.plan.on_fail}` {then}")
    return ExitCode.OK


async def _between_attempts(out: Console, stored: StoredRun) -> int:
    """Another distui here follows it, and it has nothing on its hosts: it rests before its next attempt."""
    stored.ask_stop()
    left = not await runs.let_go(stored, limit=DRAIN_SECONDS)
    out.say(f"distui: {stored.run_id} {'is followed by another distui here, which goes on' if left else 'is stopped'}")
    return ExitCode.CONTACT_LOST if left else ExitCode.OK


async def _agreed(told: Settings, out: Console, live: Live, word: str) -> bool:
    """Somebody else's run is only ended when that is said twice."""
    from distui.cli.launching import owner

    found = live.found
    if found.owner in ("", owner()):
        return True
    ranks = counted(found.world_size, "rank")
    return await confirm_async(out, told, f"{found.run} belongs to {found.owner} ({ranks}). {word.capitalize()} it?")


async def _own(
    told: Settings, connector: Connector, out: Console, place: runs.Place, live: Live, grace: float | None
) -> int:
    """Nobody here follows it: follow it ourselves, so that its logs are read to the end before it is removed."""
    from distui.cli.attaching import adopt
    from distui.cli.launching import owner
    from distui.cli.printer import LogView, printer
    from distui.run.events import RunEnded

    controller = adopt(told, connector, place, live)
    controller.signs = owner()
    sink = printer(out, told.output, LogView(stdout=False), verbose=told.verbose)
    ended: RunEnded | None = None
    async with controller:
        controller.request_stop("user", grace=grace, exit=ExitCode.TERMINATED)
        async for batch in controller.batches():
            await sink.feed(batch, controller.state)
            if isinstance(batch[-1], RunEnded):
                ended = batch[-1]
    assert ended is not None
    await sink.finish(ended, controller.state)
    return ExitCode.CONTACT_LOST if ended.outcome == "unknown" or ended.leftovers else ExitCode.OK


async def _beside(connector: Connector, out: Console, place: runs.Place, live: Live, grace: float | None) -> int:
    """Another distui here follows it: stop the ranks and let that one drain and clean up."""
    from distui.cli.launching import owner
    from distui.run.adopt import stop_found

    seconds = live.plan.stop_grace if grace is None else grace
    out.say(f"distui: stopping {place.run}; the distui that follows it here cleans up")
    report = await stop_found(connector, live.found, live.plan, who=owner(), grace=seconds, remove=False)
    for host, text in report.errors.items():
        out.warn(f"distui: {host}: {text}", "red")
    assert place.stored is not None
    left = not await runs.let_go(place.stored, limit=seconds + DRAIN_SECONDS)
    out.say(f"distui: {place.run} {'is still being read to its end' if left else 'is stopped'}")
    return ExitCode.CONTACT_LOST if report.errors else ExitCode.OK
