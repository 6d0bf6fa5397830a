"""`distui logs`: what the ranks of a run printed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from distui.cli import wiring
from distui.cli.console import Console
from distui.cli.printing import words
from distui.cli.printing.loglines import into_file, log_out, parse_grep, parse_moment
from distui.cli.printing.printer import LogView
from distui.cli.printing.ranks import refuse_unknown
from distui.cli.settings import Settings
from distui.cluster.attach import places
from distui.cluster.attach.taking_up import Live, take_up
from distui.cluster.logs import from_files, from_hosts
from distui.cluster.logs.folder import into_folder
from distui.cluster.logs.sink import LogSink
from distui.cluster.logs.wanted import Wanted
from distui.errors import ExitCode, NotFound, UsageError
from distui.plan.labels import named_ranks
from distui.runs.report import history
from distui.runs.store.masking import Mask, stored_secrets
from distui.runs.store.runs import StoredRun


def act(
    settings: Settings,
    out: Console,
    run: str,
    follow: bool,
    ranks: frozenset[int] | None,
    tail: int | None,
    timestamps: bool,
    since: str | None,
    until: str | None,
    grep: str | None,
    stderr_only: bool,
    no_prefix: bool,
    merge: bool,
    save: str | None,
    attempt: int | None,
) -> int:
    """See `logs --help`."""
    now = datetime.now(UTC)
    wanted = Wanted(
        ranks=ranks,
        since=parse_moment("--since", since, now) if since else "",
        until=parse_moment("--until", until, now) if until else "",
        grep=parse_grep(grep),
        stderr_only=stderr_only,
        tail=tail,
    )
    view = LogView(prefix=not no_prefix, timestamps=timestamps)

    def show(place: places.RunLocation) -> int:
        earlier = _earlier(place, attempt) if attempt is not None else None
        with _way(settings, out, view, wanted, save=save, merge=merge) as lines:
            if earlier is not None:
                _hide(settings, out, lines, stored_secrets(earlier), warn=False)
                return wiring.run_async(_of_attempt(earlier, out, lines, merge=merge), limit=settings.timeout)
            try:
                return wiring.run_async(
                    _logs(settings, out, place, lines, follow=follow, merge=merge), limit=settings.timeout
                )
            except KeyboardInterrupt:
                out.say("")
                for text, style in words.still_running(run) if follow else ():
                    out.say(text, style)
                return ExitCode.INTERRUPTED

    return settings.places.at(out.tell, run, show)


@contextmanager
def _way(
    settings: Settings, out: Console, view: LogView, wanted: Wanted, *, save: str | None, merge: bool
) -> Iterator[LogSink]:
    """Where the lines go: to stdout, or into files of which it is said where they are. Raises OutputFailed."""
    if save is None:
        printed = log_out(out.out.fileno(), view, wanted, colour=out.out_colour)
        yield printed
        printed.outlet.refuse_loss()
        return
    path = settings.cwd / save
    with into_file(path, view, wanted) if merge else into_folder(path, wanted, timestamps=view.timestamps) as lines:
        yield lines
    out.say(f"distui: the logs are in {path}" if path.exists() else "distui: there are no such lines")


def _earlier(place: places.RunLocation, attempt: int) -> StoredRun | None:
    """What is kept here of an earlier attempt; None for the newest one. Raises UsageError when there is no such one."""
    kept = place.stored.earlier() if place.stored is not None else ()
    newest = history.stored_row(place.stored).attempt if place.stored is not None else None
    if attempt == newest or (newest is None and attempt == 1):
        return None
    if place.stored is None or attempt not in kept:
        known = ", ".join(map(str, (*kept, newest))) if newest is not None else "none"
        raise UsageError(f"attempt {attempt} of {place.run} is not recorded here (attempts here: {known})")
    return place.stored.attempt(attempt)


async def _of_attempt(stored: StoredRun, out: Console, lines: LogSink, *, merge: bool) -> int:
    """An attempt that failed: its files here are all there is of it."""
    if lines.wanted.stderr_only:
        raise UsageError("the files of an earlier attempt do not tell streams apart", hint="leave out --stderr")
    refuse_unknown(lines.wanted.ranks, [f.rank for f in from_files.rank_files(stored)])
    return _tell(out, await from_files.show(stored, lines, follow=False, merge=merge))


def _tell(out: Console, troubles: Sequence[str]) -> int:
    """Say which files here could not be read."""
    for trouble in troubles:
        out.warn(f"distui: {trouble}", "red")
    return ExitCode.CONTACT_LOST if troubles else ExitCode.OK


async def _logs(
    settings: Settings, out: Console, place: places.RunLocation, lines: LogSink, *, follow: bool, merge: bool
) -> int:
    stamps = bool(lines.timestamps or lines.wanted.until)
    if place.is_complete and not lines.wanted.stderr_only:
        assert place.stored is not None
        if follow and place.hosts and not place.stored.is_followed:  # what is followed is what lives under the name
            async with wiring.connected(settings, place.hosts) as connector:
                await places.find(connector, place)
        refuse_unknown(lines.wanted.ranks, [f.rank for f in from_files.rank_files(place.stored)])
        _hide(settings, out, lines, stored_secrets(place.stored), warn=False)
        return _tell(out, await from_files.show(place.stored, lines, follow=follow, merge=merge))
    async with wiring.connected(settings, place.hosts) as connector:
        try:
            live = await take_up(settings.cluster, connector, place)
        except NotFound as exc:
            if place.stored is not None:
                _hide(settings, out, lines, stored_secrets(place.stored), warn=False)
            return await _from_here(place, out, lines, exc, merge=merge)
        refuse_unknown(lines.wanted.ranks, [r for t in live.plan.tasks for r in t.ranks])
        _hide(settings, out, lines, live.plan.secret_names)
        for name in live.unreachable:
            out.warn(f"distui: {name} did not answer; its ranks are missing here", "yellow")
        if follow and merge:
            raise UsageError(
                f"{place.run} is not followed on this machine, and -f gives its lines as they come, not in order",
                hint=f"leave out -f or --merge, or follow it here first: `distui attach {place.run}`",
            )
        if follow:
            await from_hosts.follow(connector, live, lines, out.tell)
            return ExitCode.OK
        good = await from_hosts.show(connector, live, lines, out.tell_always, stamps=stamps, merge=merge)
        good = not _tell_unfound(out, live, lines.wanted.ranks) and good
    return ExitCode.OK if good and not live.unreachable else ExitCode.CONTACT_LOST


def _tell_unfound(out: Console, live: Live, wanted: frozenset[int] | None) -> bool:
    """Say which ranks of a run that has ended are on no host, where only the hosts knew of them; whether there are."""
    planned = {rank for task in live.plan.tasks for rank in task.ranks}
    unfound = live.found.unfound if live.found is not None and not live.runs else ()
    if gone := [rank for rank in unfound if rank not in planned and (wanted is None or rank in wanted)]:
        out.warn(f"distui: nothing of {named_ranks(gone)} is on the hosts that answered", "yellow")
    return bool(gone)


def _hide(settings: Settings, out: Console, lines: LogSink, names: Iterable[str], *, warn: bool = True) -> None:
    """Values of the run's secrets are not shown. What was followed here was hidden, or warned of, by then."""
    lines.mask = Mask.of(names, settings.environ)
    for warning in lines.mask.warnings if warn else ():
        out.warn(f"distui: {warning}", "yellow")


async def _from_here(place: places.RunLocation, out: Console, lines: LogSink, error: NotFound, *, merge: bool) -> int:
    """The hosts know the run no more: what is here is all there is."""
    if place.stored is None:
        raise error
    if lines.wanted.stderr_only:
        raise UsageError(
            f"the containers of {place.run} are gone, and its files here do not tell stderr from stdout",
            hint="leave out --stderr",
        )
    return _tell(out, await from_files.show(place.stored, lines, follow=False, merge=merge))
