"""Ranks that waited for others in vain and are gone, and nobody is left in their collective: who had not entered it.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distui.plan.labels import named_ranks
from distui.runs.insight.hang.by_calls import waits_in
from distui.runs.insight.hang.collectives import STANDING_S, group_words
from distui.runs.insight.hang.rows import places_of
from distui.runs.insight.seen.answers import Group
from distui.runs.insight.seen.doing import Doing, advice
from distui.runs.insight.seen.ranks import RankSeen
from distui.runs.lines.explanation import Explanation


def in_vain(ranks: Sequence[RankSeen], acts: Mapping[int, Doing]) -> Explanation | None:
    """Some waited in vain, and nobody is left in their collective: who is behind in it and in none had not entered it.

    In which group they waited is not always known. Then only such a rank is named that is behind in all of them.
    """
    gone = [seen.rank for seen in ranks if seen.in_vain]
    each = {name: late for name in _group_names(ranks) if (late := _late_in(name, ranks, gone))}
    those = sorted(set.intersection(*map(set, each.values()))) if each else []
    if not gone or not those:
        return None
    leader = acts[those[0]]
    by_rank = {seen.rank: seen for seen in ranks}
    groups = {name: by_rank[those[0]].groups[name] for name in sorted(each, key=lambda name: len(each[name]))}
    places = {group_words(name, own.about): own for name, own in reversed(groups.items())}
    if len(places) == 1:
        where, own = next(iter(places.items()))
        newest = f"{own.recent[-1].what} #{own.recent[-1].number}" if own.recent else ""
        which = f"{f'the collective after {newest} in' if newest else 'the first collective of'} {where}, in which"
        which += f" {named_ranks(gone)} waited in vain"
    else:
        which = f"the collective in which {named_ranks(gone)} waited in vain, of {' or '.join(sorted(places))}"
    stall = all(acts[rank].stall for rank in those)
    return Explanation(
        kind="stall" if stall else "hang",
        headline=f"{named_ranks(those)} had not entered {which}" + (f": it {leader.text}" if len(those) == 1 else ""),
        certainty="likely",
        ranks=places_of(ranks, acts, None, set(those)),
        advice=advice(leader, stall=stall),
        collective=" or ".join(f"#{own.enqueued + 1} in {where}" for where, own in sorted(places.items())),
    )


def _group_names(ranks: Sequence[RankSeen]) -> list[str]:
    return sorted({name for seen in ranks for name, group in seen.groups.items() if not group.mixed})


def _late_in(name: str, ranks: Sequence[RankSeen], gone: Sequence[int]) -> tuple[int, ...]:
    """Who is behind in a group, and waits in none, if one of those that are `gone` may have waited there in vain: not
    where they are known to be no part of it, nor where it goes on.
    """
    inside = [seen for seen in ranks if name in seen.groups and not seen.in_vain]
    members = {rank for seen in inside for rank in seen.groups[name].ranks}
    if (members and not members & set(gone)) or any(_goes_on(seen, seen.groups[name]) for seen in inside):
        return ()
    there = [seen for seen in inside if not _waits(seen)]
    reached = min((seen.groups[name].enqueued for seen in there), default=0)
    return tuple(seen.rank for seen in there if seen.groups[name].enqueued == reached)


def _waits(seen: RankSeen) -> bool:
    """Whether a rank waits for others itself."""
    return bool(waits_in(seen)) or any(group.pending is not None for group in seen.groups.values())


def _goes_on(seen: RankSeen, group: Group) -> bool:
    """Whether a rank has begun and ended something in a group a moment ago."""
    newest = group.recent[-1] if group.recent else None
    return newest is not None and newest.over and seen.at - (newest.began_ns / 1e9 - seen.ahead) < STANDING_S
