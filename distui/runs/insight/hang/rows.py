"""Each rank as a row beside the verdict: where it is in the group that stands still, and what it does. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distui.runs.insight.hang.collectives import Standing, group_words
from distui.runs.insight.seen.doing import Doing
from distui.runs.insight.seen.ranks import RankSeen
from distui.runs.lines.explanation import RankPlace


def places_of(
    ranks: Sequence[RankSeen],
    acts: Mapping[int, Doing],
    stand: Standing | None,
    culprits: set[int],
    *,
    in_calls: bool = False,
) -> tuple[RankPlace, ...]:
    """Every rank, those that others wait for first; `in_calls` tells that these wait, too, in other collectives."""
    group = stand.group if stand is not None else main_group(ranks)
    most = max((s.groups[group].enqueued for s in ranks if group in s.groups), default=0)
    free = {rank for rank in culprits if not in_calls or acts[rank].busy}
    places = [
        _place(seen, acts[seen.rank], group, most, culprit=seen.rank in culprits, waits=seen.rank not in free)
        for seen in ranks
    ]
    return tuple(sorted(places, key=lambda place: (not place.culprit, place.rank)))


def main_group(ranks: Sequence[RankSeen]) -> str:
    """The group that most ranks are in."""
    names = [name for seen in ranks for name in seen.groups]
    return max(sorted(set(names)), key=names.count, default="")


def _place(seen: RankSeen, act: Doing, group: str, most: int, *, culprit: bool, waits: bool) -> RankPlace:
    own = seen.groups.get(group)
    newest = own.recent[-1] if own is not None and own.recent else None
    place = f"{newest.what} #{newest.number}" if newest is not None else ""
    behind = most - own.enqueued if own is not None else None
    call = _waits_in(seen, group) if waits else ""
    does = f"{call}{act.at}" if call else act.text
    return RankPlace(seen.rank, seen.host, does, place, behind, culprit, within=seen.within)


def _waits_in(seen: RankSeen, group: str) -> str:
    """In which collective a rank waits, of this group or else of another one, which is named; empty where in none."""
    for name, own in sorted(seen.groups.items(), key=lambda item: (item[0] != group, item[0])):
        if own.pending is not None:
            where = f" in {group_words(name, own.about)}" if name != group else ""
            return f"waits in {own.pending.what} #{own.pending.number}{where}"
    return ""
