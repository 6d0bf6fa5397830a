"""`distui ps`: runs, as the hosts remember them."""

from __future__ import annotations

import time
from collections.abc import Sequence, Set
from functools import partial

from distui.amounts import duration, moment
from distui.cli import console as consoles
from distui.cli import wiring
from distui.cli.console import Console, as_json
from distui.cli.printing.run_rows import row_json
from distui.cli.settings import Settings
from distui.cluster.attach.listing import ask_runs, recorded_runs, unasked
from distui.columns import table
from distui.errors import ExitCode
from distui.facts.troubles import shared
from distui.runs.hosts.discover import FoundRuns
from distui.runs.lines.text import safe
from distui.runs.report import history, states
from distui.runs.report.run_words import attempt_words, failure_words, took_words
from distui.spec.hosts.names import fold_sorted

HEADER = ("RUN", "JOB", "STATE", "HOSTS", "RANKS", "STARTED", "TOOK", "FIRST FAILURE")


def act(settings: Settings, out: Console, all_: bool, state: str | None, last: int | None) -> int:
    """See `ps --help`."""
    recorded = recorded_runs(settings.places, settings.selection.chosen())
    if recorded.asked:
        asking = ask_runs(settings.places, recorded, partial(wiring.connected, settings))
        listed = wiring.run_async(asking, limit=settings.timeout)
    else:
        listed = unasked(settings.places, recorded)
    every, found = listed.rows, listed.found
    meant = {host.name for host in listed.asked} if settings.selection.narrows else None
    rows = [r for r in every if (all_ or state or _is_there(r, meant)) and state in (None, r.state)][:last]
    for one in shared(found.unreachable):
        hint = f"\n  try: {one.hint}" if one.hint and settings.verbose else ""
        out.warn(f"distui: {one.message}{hint}", "yellow")
    if not listed.asked and not rows and not settings.json:
        out.say("distui: no hosts to ask (no hosts.yaml, no -H), and no runs are recorded here", "dim")
    show(out, settings, rows, found)
    for row in rows:
        for words in row.warnings if (_is_over(row) or row.apart) and not row.collected else ():
            out.warn(f"distui: {row.run}: {words}", "yellow")
        named = [other for other in every if other.run == row.run and other.live]
        if text := _next_step(row, named, chosen=settings.places.leaves_out):
            out.say(f"distui: {text}", "dim")
    return ExitCode.UNREACHABLE if listed.asked and not found.answered else ExitCode.OK


def _is_there(row: history.RunRow, meant: Set[str] | None) -> bool:
    """Whether something of it may be on a host, on one of those `meant` where some are."""
    return row.live or (row.may_live and (meant is None or not meant.isdisjoint(row.hosts)))


def _is_over(row: history.RunRow) -> bool:
    """Whether nothing of it runs any more, and its tasks are still on its hosts."""
    return row.live and not row.left and not row.apart and row.state in (*states.ENDED, "ended", "unknown")


def _next_step(row: history.RunRow, named: Sequence[history.RunRow], *, chosen: bool = False) -> str:
    """What is still on the hosts of a run that is over, and what removes it; "" where nothing is, or it goes on, or
    more runs there are `named` so: a verb may act on another one. With hosts that were `chosen` it may go on elsewhere.
    """
    if len(named) > 1:
        return ""
    if row.unlisted:
        own = f"{row.run} was started with `docker: {safe(row.unlisted)[:20]}`"
        return f"{own}, and hosts.yaml here has another engine, which does not list it"
    if row.left:
        where = f"its folder is still on {', '.join(row.left)}"
        return f"{row.run} has ended, and {where}; `distui stop {row.run}` removes it"
    if _is_over(row):
        verb, does = ("rm", "removes it") if row.collected else ("stop", "reads its logs and cleans up")
        return f"{row.run} has ended but is still on its hosts; `distui {verb} {row.run}` {does}"
    if row.state == "left" and row.begun:
        gone = f"{row.run} had started, and left its folder, but no container or process, on {fold_sorted(row.hosts)}"
        return f"{gone}; `distui ps` asks all hosts" if chosen else f"{gone}; `distui stop {row.run}` removes it"
    if row.state == "left":
        return f"a launch of {row.run} was killed; `distui stop {row.run}` removes what it left"
    return ""


def show(out: consoles.Console, settings: Settings, rows: Sequence[history.RunRow], found: FoundRuns) -> None:
    """The list, in the form asked for."""
    if settings.json:
        lost = [{"name": n, "error": {"code": t.code, "message": t.message}} for n, t in found.unreachable.items()]
        out.json({"schema": "distui/ps/v1", "runs": [row_json(r) for r in rows], "unreachable": lost})
    elif settings.output == "ndjson":
        out.write("".join(as_json(row_json(r)) + "\n" for r in rows))
    elif settings.quiet or settings.output == "name":
        out.write("".join(f"{r.run if r.recorded else safe(r.run)}\n" for r in rows))
    else:
        out.print("\n".join(table(HEADER, [_cells(r) for r in rows], width=out.width)))


def _cells(row: history.RunRow) -> tuple[str, ...]:
    state = ", ".join(filter(None, (_state(row) + (f" {row.exit}" if row.exit else ""), attempt_words(row))))
    started = moment(row.started) if row.started is not None else ""
    ranks, failure = str(row.ranks or ""), failure_words(row.failure)
    cells = (row.run, row.job, state, fold_sorted(row.hosts), ranks, started, took_words(row), failure)
    return tuple(map(safe, cells))


def _state(row: history.RunRow) -> str:
    """Its state in a word; of a run that stands still or is quiet for how long, and after which step."""
    if row.silent and row.quiet is not None:
        return f"quiet {duration(max(0.0, time.time() - row.quiet), coarse=True)}"
    if not row.stands or row.stalled is None:
        return row.state
    last = f", step {row.stalled.step:,.0f}" if row.stalled.step is not None else ""
    return f"stalled {duration(max(0.0, time.time() - row.stalled.since), coarse=True)}{last}"
