"""A closer look at a run that goes on: its hosts watch its ranks for some seconds, to tell what slows it down."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from distui.runs.insight.asking.look import Asked, Look, look
from distui.runs.insight.asking.task_names import with_names
from distui.runs.insight.asking.watching import SECONDS, watch_hosts
from distui.runs.insight.hang.by_calls import explain_by_calls
from distui.runs.insight.hang.explain import explain
from distui.runs.insight.hang.places import said_once
from distui.runs.insight.seen.helpers import BUSY
from distui.runs.insight.seen.ranks import RankSeen, ranks_of
from distui.runs.insight.seen.sick import health
from distui.runs.insight.seen.watched import Figures, Watched
from distui.runs.insight.slow.lateness import lateness
from distui.runs.insight.slow.links import links
from distui.runs.insight.slow.slow import Slow, explain_slow
from distui.runs.lines.explanation import STANDS

COMPARED = 2
"""Ranks that are not late of which stacks are taken, beside those that are."""
KEPT = 100
"""Collectives of a group that are passed on."""
MOST_LATE = 4
"""Late ranks of which stacks are taken."""


async def look_and_watch(asked: Asked, *, stacks: bool, seconds: float = SECONDS) -> Look:
    """For somebody who asks: one look, and a closer one where nothing stands still, for which ranks are watched for so
    many seconds each time. Never raises DistuiError.
    """
    seen = await look(asked, stacks=stacks)
    if seen.to_be_sure:
        await asyncio.sleep(seen.to_be_sure)
        seen = await look(asked, stacks=stacks, before=seen.ras)
    if seen.explanation.kind in STANDS:
        return seen
    closer = await look_closer(asked, seconds)
    if not stacks and (those := _to_ask(asked, seen, closer)):  # stacks are all that is left
        seen = await look(asked, stacks=True, only=those, before=seen.ras)
        if seen.explanation.kind in STANDS:
            return seen
        closer = await look_closer(asked, seconds)
    if closer.explanation.kind in STANDS:  # since a moment ago: what stands is asked for its stacks
        return await look(asked, stacks=stacks)
    closer = closer.with_stacks_of(seen)
    return _by_calls(closer, asked) if closer.explanation.kind in ("unseen", "moving") else closer


def _to_ask(asked: Asked, before: Look, seen: Look) -> frozenset[int]:
    """The tasks that are sent a signal for their stacks, though nobody asked for those: where a rank stands still, and
    no rank has entered a collective since, as far as they tell that.

    Not one that may be starting: a signal in the middle of torch's start has ended a rank; one that waits there for
    others takes no harm.
    """
    figures = _figures(seen)
    idle = {one.rank for one in seen.ranks if one.process is not None and one.process.cpu < BUSY}
    stand = {rank for rank, own in figures.items() if own.turns == 0 and rank in idle}
    if not stand or seen.explanation.kind not in ("unseen", "moving") or _positions(before) != _positions(seen):
        return frozenset()
    starting = {
        one.run_rank
        for one in seen.ranks
        if one.process is not None and one.process.torch and one.process.torch_rank is None and one.rank not in stand
    }
    return frozenset(task.index for task in asked.tasks if not starting & set(task.ranks))


def _positions(seen: Look) -> dict[tuple[int, str], tuple[int, bool]]:
    """How far each rank is in each of its groups, and whether it waits there."""
    return {
        (one.rank, name): (group.enqueued, group.pending is not None)
        for one in seen.ranks
        for name, group in one.groups.items()
    }


def _figures(seen: Look) -> dict[int, Figures]:
    """What the kernel counted of each rank."""
    slow = seen.slow
    return {one.rank: own for one in seen.ranks if slow is not None and (own := slow.figures(one.rank)) is not None}


def _by_calls(seen: Look, asked: Asked) -> Look:
    """What the calls tell of ranks that have been watched, where those do not tell of their collectives."""
    found = explain_by_calls(seen.explanation, seen.ranks, _figures(seen))
    return replace(seen, explanation=with_names(said_once(found, seen.ranks), asked.names))


async def look_closer(asked: Asked, seconds: float = SECONDS) -> Look:
    """Watch the ranks of a run; where some are late, once more, with stacks of these and of some that are not.

    What is claimed must hold both times. Never raises DistuiError.
    """

    def slowness(watched: Mapping[str, Watched]) -> Slow:
        answers = {host: found.answer for host, found in watched.items()}
        ranks = ranks_of(asked.tasks, asked.silent | answers, asked.ended)
        return Slow(ranks, watched, lateness(ranks), links(watched), asked.gpus)

    slow = slowness(await watch_hosts(asked.hosts, asked.ids, seconds=seconds))
    if slow.lateness.late:
        before = {one.rank for one in slow.lateness.late}
        slow = slowness(await watch_hosts(asked.hosts, asked.ids, _sampled(slow), seconds=seconds))
        late = tuple(one for one in slow.lateness.late if one.rank in before)
        slow = replace(slow, lateness=replace(slow.lateness, late=late))
    answers = {host: found.answer for host, found in slow.watched.items()}
    sick = health(slow.ranks, answers, asked.gpus, asked.errors)
    found = with_names(explain_slow(explain(slow.ranks, health=sick), slow), asked.names)
    return Look(tuple(map(_shortened, slow.ranks)), found, slow)


def _shortened(seen: RankSeen) -> RankSeen:
    """A rank with no more of its collectives than are worth to be passed on."""
    process = seen.process
    if process is None or process.groups is None:
        return seen
    groups = {name: replace(group, recent=group.recent[-KEPT:]) for name, group in process.groups.items()}
    return replace(seen, process=replace(process, groups=groups))


def _sampled(slow: Slow) -> dict[str, list[int]]:
    """Host -> the processes of which stacks are taken: a signal each, so no more than needed."""
    ranks = {*[one.rank for one in slow.lateness.late][:MOST_LATE], *slow.references[:COMPARED]}
    found: dict[str, list[int]] = {}
    for seen in slow.ranks:
        if seen.rank in ranks and seen.process is not None:
            found.setdefault(seen.host, []).append(seen.process.pid)
    return found
