"""`distui stop` and `distui kill`: end a run from any machine."""

from __future__ import annotations

from functools import partial

from distui.cli import wiring
from distui.cli.console import Console
from distui.cli.printing.ranks import refuse_unknown
from distui.cli.printing.run_rows import each_named
from distui.cli.runs.ending import StopShown
from distui.cli.settings import Settings
from distui.cluster.attach.ending import end_run
from distui.cluster.attach.front_end import agreed
from distui.cluster.attach.live_run import Live, attach
from distui.cluster.attach.places import RunLocation
from distui.cluster.hosts.selection import Selection
from distui.errors import ExitCode, UsageError
from distui.identity import owner
from distui.plan.labels import format_ranks, named_ranks
from distui.runs.control.stopping import stop_ranks
from distui.runs.verdict.evidence import Verb
from distui.spec.hosts.names import fold


def act(
    settings: Settings, out: Console, names: tuple[str, ...], grace: float | None, ranks: frozenset[int] | None
) -> int:
    """See `stop --help`."""
    return _end(settings, out, names, grace, "stop", ranks)


def kill(settings: Settings, out: Console, names: tuple[str, ...], ranks: frozenset[int] | None) -> int:
    """See `kill --help`."""
    return _end(settings, out, names, 0.0, "kill", ranks)


def _end(
    settings: Settings,
    out: Console,
    names: tuple[str, ...],
    grace: float | None,
    word: Verb,
    ranks: frozenset[int] | None,
) -> int:
    settings.refuse_readonly(word)
    if ranks is not None and len(names) > 1:
        raise UsageError("--rank is about one run", hint="name one run")

    def end(place: RunLocation) -> int:
        work = (
            _whole(settings, out, place, grace, word)
            if ranks is None
            else _some(settings, out, place, ranks, grace, word)
        )
        return wiring.run_async(work, limit=settings.timeout)

    return each_named(out, names, lambda name: settings.places.at(out.tell, name, end))


async def _whole(settings: Settings, out: Console, place: RunLocation, grace: float | None, word: Verb) -> int:
    front = StopShown(settings, out)
    async with wiring.connected(settings, place.hosts) as connector:
        check = partial(_refuse_part, settings.selection, place, word)
        done = await end_run(settings.cluster, connector, front, place, grace=grace, word=word, check=check)
    if not done.agreed:
        return ExitCode.INTERRUPTED
    for words in done.remaining:
        out.tell(words, "warning")
    return ExitCode.CONTACT_LOST if done.left else ExitCode.OK


def _refuse_part(selection: Selection, place: RunLocation, word: Verb, live: Live) -> None:
    """Raise UsageError where `-H` or `-l` leaves out some of the run's hosts: it is ended on all of them."""
    asked = {host.name for host in place.hosts}
    others = [host for host in live.plan.hosts if host not in asked]
    if place.chosen and others:
        here = [rank for task in live.plan.tasks if task.host in asked for rank in task.ranks]
        given = " and ".join(flag for flag, value in (("-H", selection.hosts), ("-l", selection.labels)) if value)
        some = f"; `distui {word} {place.run} --rank {format_ranks(sorted(here))}` ends {named_ranks(here)} alone"
        raise UsageError(
            f"{place.run} has tasks on {fold(others)}{', too' if here else ''}, and {word} ends it on all its hosts",
            hint=f"leave out {given or '-H'}" + (some if here else ""),
        )


async def _some(
    settings: Settings, out: Console, place: RunLocation, ranks: frozenset[int], grace: float | None, word: Verb
) -> int:
    """Some ranks; whoever follows the run sees them fail, and who stopped them."""
    async with wiring.connected(settings, place.hosts) as connector:
        live = await attach(settings.cluster, connector, place)
        refuse_unknown(ranks, [rank for task in live.plan.tasks for rank in task.ranks])
        if not await agreed(StopShown(settings, out), live, word):
            return ExitCode.INTERRUPTED
        seconds = live.plan.stop_grace if grace is None else grace
        report = await stop_ranks(connector, live.found, live.plan, ranks, who=owner(), grace=seconds, verb=word)
    for host, text in report.errors.items():
        out.tell(f"{host}: {text}", "error")
    if report.errors:
        return ExitCode.CONTACT_LOST
    then = "the others keep running" if live.plan.on_fail == "wait" else "whoever follows the run stops the others"
    out.tell(f"{named_ranks(ranks)} of {place.run} ended; with `on_fail: {live.plan.on_fail}` {then}")
    return ExitCode.OK
