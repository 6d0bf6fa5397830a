"""What ranks that have ended tell of their end: who did another collective than the others. Pure.

torch and gloo say at best that sizes differ, in the words of a rank that may have done what most did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distui.plan.labels import named_ranks
from distui.runs.insight.hang.collectives import SAME_ORDER, collective_words, group_words, mismatches
from distui.runs.insight.hang.places import at_one_place
from distui.runs.insight.seen.answers import Frame
from distui.runs.insight.seen.doing import own_frame
from distui.runs.insight.seen.ranks import RankSeen
from distui.runs.lines.explanation import Explanation, RankPlace


def explain_difference(ranks: Sequence[RankSeen]) -> Explanation | None:
    """Who called another collective than the others; None where that does not show."""
    return _by_collective(ranks) or _by_place(ranks)


def _by_collective(ranks: Sequence[RankSeen]) -> Explanation | None:
    """By what torch recorded of each: certain."""
    first = next(iter(mismatches(ranks, ended=True)), None)
    if first is None:
        return None
    parts = [f"{named_ranks(who)} called {what}{at_one_place(ranks, who)}" for what, who in first.kinds.items()]
    which = f"#{first.number} of {group_words(first.group, first.about)}"
    odd = set(next(iter(first.kinds.values())))
    headline = f"ranks called different collectives as {which}: {', '.join(parts)}"
    return Explanation("mismatch", headline, "certain", _places(ranks, odd), advice=SAME_ORDER, collective=which)


def _by_place(ranks: Sequence[RankSeen]) -> Explanation | None:
    """By where in the program each was: a rank that crashed tells no more than that."""
    there: dict[str, list[RankSeen]] = {}
    for seen in ranks:
        if (frame := own_frame(seen)) is not None:
            there.setdefault(str(frame), []).append(seen)
    places = sorted(there.items(), key=lambda item: len(item[1]))
    if len(places) < 2 or len(places[0][1]) == len(places[-1][1]):
        return None
    odd = [seen.rank for _, group in places[:-1] for seen in group]
    parts = [f"{named_ranks([seen.rank for seen in group])} at {frame}" for frame, group in places]
    collective = _collective(places[-1][1])
    within = f", in {collective}" if collective else ""
    headline = f"ranks were in different collectives: {', '.join(parts)}{within}"
    return Explanation(
        "mismatch", headline, "likely", _places(ranks, set(odd)), advice=SAME_ORDER, collective=collective
    )


def _collective(ranks: Sequence[RankSeen]) -> str:
    """What these ranks were in, where torch recorded it."""
    for seen in ranks:
        for name, group in sorted(seen.groups.items()):
            if group.recent:
                return collective_words(group.recent[-1], name, group.about)
    return ""


def crashed_at(ranks: Sequence[RankSeen]) -> Mapping[int, Frame]:
    """Where in the program's own files each rank was that said so."""
    return {seen.run_rank: frame for seen in ranks if (frame := own_frame(seen)) is not None}


def _places(ranks: Sequence[RankSeen], odd: set[int]) -> tuple[RankPlace, ...]:
    """Every rank, the odd ones first."""
    places = [_place(seen, culprit=seen.rank in odd) for seen in ranks]
    return tuple(sorted(places, key=lambda place: (not place.culprit, place.rank)))


def _place(seen: RankSeen, *, culprit: bool) -> RankPlace:
    frame = own_frame(seen)
    does = f"has ended: {seen.ended}" if seen.ended else seen.why_not or "has ended"
    where = _collective([seen])
    return RankPlace(
        seen.rank, seen.host, f"{does} at {frame}" if frame else does, where, None, culprit, within=seen.within
    )
