"""`distui logs`: what the ranks of a run printed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial

from distui.cli import wiring
from distui.cli.console import Console
from distui.cli.printing import words
from distui.cli.printing.loglines import into_file, log_out, parse_grep, parse_moment
from distui.cli.printing.printer import LogView
from distui.cli.settings import Settings
from distui.cluster.attach import places
from distui.cluster.logs.folder import into_folder
from distui.cluster.logs.of_run import read_here, read_run
from distui.cluster.logs.sink import LogSink
from distui.cluster.logs.wanted import Wanted
from distui.errors import ExitCode, UsageError
from distui.runs.report import history
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
            reading = _logs(settings, out, place, earlier, lines, follow=follow, merge=merge)
            shown = wiring.while_read(out, reading) if follow and save is None else reading
            try:
                return wiring.run_async(shown, limit=settings.timeout)
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


async def _logs(
    settings: Settings,
    out: Console,
    place: places.RunLocation,
    earlier: StoredRun | None,
    lines: LogSink,
    *,
    follow: bool,
    merge: bool,
) -> int:
    """What there is to read of a run, or of an attempt that failed: its files here are all there is of that."""
    if earlier is not None and lines.wanted.stderr_only:
        raise UsageError("the files of an earlier attempt do not tell streams apart", hint="leave out --stderr")
    if earlier is not None:
        good = await read_here(settings.cluster, earlier, lines, out.tell, merge=merge)
    else:
        connect = partial(wiring.connected, settings)
        good = await read_run(settings.cluster, connect, place, lines, out.tell, follow=follow, merge=merge)
    return ExitCode.OK if good else ExitCode.CONTACT_LOST
