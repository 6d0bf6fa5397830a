"""What torchrun does by itself while its container lives: ranks started again, and ranks given other numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from distui.amounts import plural
from distui.plan.command.torchrun import failed_rank
from distui.plan.labels import format_ranks, named_ranks
from distui.plan.model import RunPlan
from distui.runs.lines.events import Event, Notice, RanksRestarted
from distui.runs.lines.text import text_of
from distui.runs.store.logs import Written
from distui.runs.watch.track import TaskTrack


def restart_events(plan: RunPlan, track: TaskTrack, written: Sequence[Written], at: float) -> Iterator[Event]:
    """The events that these lines of a task tell."""
    if plan.launcher != "torchrun":
        return
    for group in written:
        if group.rank is None and plan.max_restarts:
            for piece in group.lines.pieces:
                yield from _failed(plan, track, text_of(piece), at)
    if track.numbers != track.reported_numbers:
        yield from _numbered(track, at)


def _failed(plan: RunPlan, track: TaskTrack, line: str, at: float) -> Iterator[Event]:
    """torchrun says which rank failed, and starts the node's ranks again unless it did so as often as it may."""
    found = failed_rank(line)
    if found is None:
        return
    track.failures += 1
    local, code = found
    if track.failures <= plan.max_restarts and local < len(track.task.ranks):
        rank, host = track.task.ranks[local], track.task.host
        yield RanksRestarted(at, track.task.index, rank, host, code, track.failures, plan.max_restarts)


def _numbered(track: TaskTrack, at: float) -> Iterator[Event]:
    """Which RANK torchrun gives ranks of this node now, where that is news."""
    news = {r: n for r, n in track.numbers.items() if track.reported_numbers.get(r, r) != n}
    track.reported_numbers = dict(track.numbers)
    if news:
        ranks = sorted(news)
        numbers = format_ranks(news[r] for r in ranks)
        text = f"torchrun gives {named_ranks(ranks)} the {plural(len(ranks), 'number')} RANK {numbers} now"
        yield Notice(at, "info", text, track.task.host)
