"""What ranks that have ended tell of their end: who did another collective than the others. Pure.

torch and gloo say at best that sizes differ, in the words of a rank that may have done what most did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from distui.plan.labels import named_ranks
from distui.regex import regex
from distui.runs.insight.hang.by_calls import collective_of
from distui.runs.insight.hang.chains import chain_ends, cycle_parts, cycle_words
from distui.runs.insight.hang.collectives import (
    SAME_ORDER,
    collective_words,
    group_words,
    mismatches,
    odd_ones,
    short_waits,
    standing,
)
from distui.runs.insight.hang.elsewhere import may_wait
from distui.runs.insight.hang.places import at_one_place
from distui.runs.insight.seen.answers import Frame
from distui.runs.insight.seen.doing import own_frame
from distui.runs.insight.seen.one_group import groups_apart
from distui.runs.insight.seen.ranks import RankSeen
from distui.runs.lines.explanation import Explanation, RankPlace

MOST_PARTS = 4
"""Of what ranks did, the rarest first: more than that is read by nobody."""

_TOO_LONG = regex(r"op\.preamble\.length <= op\.nbytes\. (\d{1,18}) vs (\d{1,18})")
"""What gloo says as it ends a rank that was sent more than fits (third_party/gloo/gloo/transport/tcp/pair.cc)."""


def explain_difference(ranks: Sequence[RankSeen], said: Sequence[str] = ()) -> Explanation | None:
    """Who called another collective than the others; None where that does not show.

    `said` are the last words of the one that failed first, in which gloo counts bytes.
    """
    ranks = groups_apart(ranks)
    return _by_collective(ranks) or _by_place(ranks, _bytes(said))


def explain_time_out(ranks: Sequence[RankSeen]) -> Explanation | None:
    """Who had not entered a collective that timed out, or had called another one, by what torch wrote of each before
    its watchdog ended it; None where that does not show.
    """
    ranks = groups_apart(ranks)
    if (differ := _by_collective(ranks)) is not None:
        return differ
    answered = [seen for seen in ranks if seen.groups or (seen.process is not None and seen.process.left)]
    answered = [replace(seen, ended="") for seen in answered]  # as they were before
    stands = standing(answered)
    ends = chain_ends(answered, stands, short_waits(answered))
    if parts := cycle_parts(ends):
        places, (one, *_) = _places(ranks, set(ends.cycle)), parts
        return Explanation("deadlock", cycle_words(parts), "likely", places, since=one.since, collective=one.words)
    first = next((each for each in ends.through if set(ends.free) & set(each.missing)), None)
    if first is None:
        return None
    those = [rank for rank in ends.free if rank in first.missing]
    waits = any(may_wait(seen, answered) for seen in answered if seen.rank in ends.free)
    sure = ends.sure and first in stands and not waits and len(answered) == len(ranks)
    return Explanation(
        "hang",
        f"{named_ranks(those)} had not entered {first.words}, in which {named_ranks(first.waiting)} waited in vain",
        "certain" if sure else "likely",
        _places(ranks, set(ends.free)),
        since=first.since,
        collective=first.words,
    )


def _by_collective(ranks: Sequence[RankSeen]) -> Explanation | None:
    """By what torch recorded of each: certain."""
    first = next(iter(mismatches(ranks, ended=True)), None)
    if first is None:
        return None
    parts = [f"{named_ranks(who)} called {what}{at_one_place(ranks, who)}" for what, who in first.kinds.items()]
    which = f"#{first.number} of {group_words(first.group, first.about)}"
    odd = set(first.odd)
    headline = f"ranks called different collectives as {which}: {', '.join(parts)}"
    return Explanation("mismatch", headline, "certain", _places(ranks, odd), advice=SAME_ORDER, collective=which)


def _by_place(ranks: Sequence[RankSeen], counted: str) -> Explanation | None:
    """By where in the program each was, with what torch recorded of those that did not crash.

    Who crashed has lost its record: of its tensors no more is known than that they did not fit.
    """
    known = [seen for seen in ranks if own_frame(seen) is not None]
    one_lost = sum(not _collective([seen]) for seen in known) == 1
    there: dict[str, list[RankSeen]] = {}
    for seen in known:
        there.setdefault(_did(seen, counted if one_lost else ""), []).append(seen)
    if len(there) < 2:
        return None
    parts = sorted(there.items(), key=lambda item: len(item[1]))
    odd = odd_ones([[seen.rank for seen in group] for _, group in parts])
    shown = [f"{named_ranks([seen.rank for seen in group])} {did}" for did, group in parts[:MOST_PARTS]]
    more = ", ..." if len(parts) > MOST_PARTS else ""
    return Explanation(
        "mismatch",
        f"the collectives of the ranks do not fit each other: {', '.join(shown)}{more}",
        "likely",
        _places(ranks, set(odd)),
        advice=SAME_ORDER,
        collective=_collective(known),
    )


def _did(seen: RankSeen, counted: str) -> str:
    """What a rank did last, and where: `called all_reduce #6 of 1000 Double in group 1 at train.py:14 in step`."""
    called, where = collective_of(seen), f"at {own_frame(seen)}"
    if not called:
        return f"was {where}"
    if recorded := _collective([seen]):
        return f"called {recorded} {where}"
    return f"was in {called} {where}" + (f" ({counted})" if counted else "")


def _bytes(said: Sequence[str]) -> str:
    """How many bytes came where a rank had room for less, in gloo's own count."""
    found = next((found for line in said if (found := _TOO_LONG.search(line))), None)
    return f"{found[1]} bytes came where it expected {found[2]}" if found is not None else ""


def _collective(ranks: Sequence[RankSeen]) -> str:
    """The newest that these ranks were in, of any group, where torch recorded it."""
    begun = [
        (group.recent[-1].began_ns, name, group)
        for seen in ranks
        for name, group in seen.groups.items()
        if group.recent
    ]
    if not begun:
        return ""
    _, name, group = max(begun, key=lambda one: one[:2])
    return collective_words(group.recent[-1], name, group.about)


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
