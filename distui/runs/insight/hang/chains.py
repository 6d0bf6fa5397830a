"""Who waits for whom, followed to the end: from ranks that wait in collectives to those that wait for nobody. Pure.

A rank that waits in a collective waits for those that have not entered it. Those may wait in another one, for others;
at the end is a rank that does something of its own, one of which nothing is known, a collective that all have entered,
or a rank that was met before: then they wait for each other, which no time mends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from distui.frozen import frozen
from distui.plan.labels import named_ranks
from distui.runs.insight.hang.collectives import Standing
from distui.runs.insight.hang.elsewhere import Elsewhere, waits_surely
from distui.runs.insight.seen.ranks import RankSeen


@frozen
class Ends:
    """Where the chains end. Only one of `cycle`, `free`, and the rest is given, in this order."""

    cycle: tuple[int, ...] = ()
    """Ranks that wait for each other, and for nobody else as far as that is known."""
    free: tuple[int, ...] = ()
    """Ranks that others wait for, and that wait for nobody."""
    lost: tuple[int, ...] = ()
    """Ranks that others may wait for, of which nothing is known."""
    last: tuple[Standing, ...] = ()
    """Collectives that stand still, of which nobody is known to lack."""
    through: tuple[Standing, ...] = ()
    """The collectives on the way."""
    sure: bool = True
    """Whether all on the way is known: that the ranks wait, and for whom."""


Node = tuple[str, int]
"""`("rank", 3)`; `("in", 0)`: what those wait for that are in the first of the collectives; `("past", 0)`: what those
wait for that have begun a later one of its group.
"""
Graph = Mapping[Node, Sequence[Node]]
"""Rank -> what it waits in -> the ranks that lack there."""


def chain_ends(
    ranks: Sequence[RankSeen], stands: Sequence[Standing], short: Sequence[Standing] = (), away: Elsewhere | None = None
) -> Ends:
    """Where the chains end that begin with those who wait in `stands`; they may go on through collectives that do not
    count as standing still yet (`short`). Ranks that are `away` do something else than to wait.
    """
    away = away if away is not None else Elsewhere()
    each = (*stands, *short)
    waiting = {rank for one in stands for rank in one.waiting}
    held, sure = waiting - away.plain, True
    graph = _graph(ranks, each, away.plain)
    if not held:  # nobody waits as far as can be seen, and yet it stands still
        held, sure, graph = waiting, False, _graph(ranks, each, frozenset())
    surely = {seen.rank: waits_surely(seen) for seen in ranks}
    certain = {
        node: [
            where
            for where in there
            if where[0] == "in" and each[where[1]].sure and each[where[1]].group in surely[node[1]]
        ]
        if node[0] == "rank"
        else there
        for node, there in graph.items()
        if node[0] == "rank" or node[1] < len(stands)
    }
    if cycle := cycle_of(certain):
        return Ends(cycle=cycle, through=_on(each, {("in", at) for at in range(len(stands))}))
    reached = _reached(graph, (("rank", rank) for rank in held))
    through = _on(each, reached)
    blocked = {number for kind, number in reached if kind == "rank" and graph.get((kind, number))}
    sure = sure and not any(one.unknown or not one.sure for one in through)
    free = {rank for one in through for rank in one.missing} - blocked
    if free:
        return Ends(free=tuple(sorted(free)), through=through, sure=sure)
    if free := {rank for one in through for rank in one.missing} & away.maybe:
        return Ends(free=tuple(sorted(free)), through=through, sure=False)
    cycle = cycle_of({node: graph.get(node, ()) for node in reached})
    lost = {rank for one in through for rank in one.unknown}
    last = tuple(one for one in through if not one.missing)
    if lost or last or not cycle:
        return Ends(lost=tuple(sorted(lost)), last=last, through=through, sure=False)
    return Ends(cycle=cycle, through=through, sure=False)


def cycle_parts(ends: Ends) -> tuple[Standing, ...]:
    """The collectives in which the ranks of a cycle wait for each other, with these ranks alone."""
    those = set(ends.cycle)
    parts = (
        replace(
            one,
            waiting=tuple(rank for rank in one.waiting if rank in those),
            missing=tuple(rank for rank in one.missing if rank in those),
        )
        for one in ends.through
    )
    return tuple(one for one in parts if one.waiting and one.missing)


def cycle_words(parts: Sequence[Standing]) -> str:
    """`ranks wait for each other in different groups: rank 0 waits in ... for rank 1; rank 1 waits in ...`."""
    each = (
        f"{named_ranks(one.waiting)} {'waits' if len(one.waiting) == 1 else 'wait'} in {one.words} for "
        f"{named_ranks(one.missing)}"
        for one in parts
    )
    return "ranks wait for each other in different groups: " + "; ".join(each)


def _graph(ranks: Sequence[RankSeen], stands: Sequence[Standing], away: frozenset[int]) -> dict[Node, list[Node]]:
    """Rank -> the collectives that it waits in -> the ranks that they lack."""
    found: dict[Node, list[Node]] = {}
    for at, one in enumerate(stands):
        lacks: list[Node] = [("rank", rank) for rank in one.missing]
        past = {
            seen.rank
            for seen in ranks
            if (own := seen.groups.get(one.group)) is not None
            and own.pending is not None
            and own.pending.number > one.collective.number
        }
        found[("in", at)] = lacks
        found[("past", at)] = [*lacks, *(("rank", rank) for rank in one.waiting)]
        for kind, those in (("in", one.waiting), ("past", tuple(sorted(past)))):
            for rank in those:
                if rank not in away:
                    found.setdefault(("rank", rank), []).append((kind, at))
    return found


def _on(stands: Sequence[Standing], nodes: Iterable[Node]) -> tuple[Standing, ...]:
    """The collectives among these nodes, in their order."""
    found = {number for kind, number in nodes if kind != "rank"}
    return tuple(one for at, one in enumerate(stands) if at in found)


def _reached(graph: Graph, begin: Iterable[Node]) -> set[Node]:
    found: set[Node] = set()
    left = list(begin)
    while left:
        node = left.pop()
        if node not in found:
            found.add(node)
            left.extend(graph.get(node, ()))
    return found


def cycle_of(graph: Graph) -> tuple[int, ...]:
    """The ranks that wait for each other and for nobody else; of all that do so, where there are several such parts."""
    part: dict[Node, int] = {}
    back: dict[Node, list[Node]] = {}
    for node, there in graph.items():
        for other in there:
            back.setdefault(other, []).append(node)
    for number, first in enumerate(reversed(_finished(graph))):
        if first not in part:
            left = [first]
            while left:
                node = left.pop()
                if node not in part:
                    part[node] = number
                    left.extend(back.get(node, ()))
    size: dict[int, int] = {}
    for number in part.values():
        size[number] = size.get(number, 0) + 1
    leaves = {part[node] for node, there in graph.items() for other in there if part[other] != part[node]}
    closed = {number for number, count in size.items() if count > 1}
    closed = closed - leaves or closed
    return tuple(sorted(number for (kind, number), own in part.items() if kind == "rank" and own in closed))


def _finished(graph: Graph) -> list[Node]:
    """All nodes, each after those that it leads to, but for cycles."""
    order: list[Node] = []
    seen: set[Node] = set()
    for first in graph:
        left: list[tuple[Node, bool]] = [(first, False)]
        while left:
            node, done = left.pop()
            if done:
                order.append(node)
            elif node not in seen:
                seen.add(node)
                left.append((node, True))
                left.extend((other, False) for other in graph.get(node, ()))
    return order
