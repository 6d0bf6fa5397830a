"""Why a run does not go on: one pure function from what all ranks answered.

What is claimed follows from positions in collectives (who has begun number n of a group and who has not), which torch
itself counts; stacks and the kernel say what those do that have not. Where positions are not known of all, it is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from distui.amounts import counted
from distui.plan.labels import format_ranks, named_ranks
from distui.runs.insight.hang.alone import NETWORK, alone, tells_members
from distui.runs.insight.hang.by_calls import is_not_recorded, outside_of_calls, waits_in
from distui.runs.insight.hang.chains import Ends, chain_ends, cycle_parts, cycle_words
from distui.runs.insight.hang.collectives import (
    SAME_ORDER,
    Mismatch,
    Standing,
    group_words,
    made_again,
    mismatches,
    newest_of,
    short_waits,
    standing,
    unlike,
)
from distui.runs.insight.hang.direct import Direct, direct, unsure
from distui.runs.insight.hang.elsewhere import elsewhere, may_wait
from distui.runs.insight.hang.explain_gpus import with_gpus
from distui.runs.insight.hang.in_vain import in_vain
from distui.runs.insight.hang.places import called_at, not_seen, said_once
from distui.runs.insight.hang.ras.communicators import Counted
from distui.runs.insight.hang.ras.explain import with_ras
from distui.runs.insight.hang.rows import places_of
from distui.runs.insight.hang.unseen import of_nothing, reasons, silent, unread
from distui.runs.insight.seen.answers import PAUSED
from distui.runs.insight.seen.doing import Doing, advice, at_work, doing
from distui.runs.insight.seen.one_group import groups_apart
from distui.runs.insight.seen.ranks import RankSeen, counted_otherwise, other_programs, several_worlds
from distui.runs.insight.seen.sick import Health
from distui.runs.lines.explanation import STANDS, Certainty, Explanation

FEW_COLLECTIVES = 10
"""Who has done no more in any group may still prepare its data, or compile for the first time."""
FIRST_STEPS = "it is at work before the first steps, which may take long: wait, or raise `stall_after`"

MOST_PARTS = 4
"""Ranks of the run of which it is said which of torch's are in them."""


def explain(ranks: Sequence[RankSeen], ras: Sequence[Counted] = (), health: Health | None = None) -> Explanation:
    """What all ranks' answers together mean; `ras` is what NCCL itself counts, `health` what is wrong with GPUs."""
    ranks = groups_apart(ranks)
    acts = {seen.rank: doing(seen) for seen in ranks}
    found = with_ras(_by_torch(ranks, acts), ranks, acts, ras)
    if health is not None:
        found = with_gpus(found, health, max((seen.at for seen in ranks), default=0.0))
    apart = tuple(other_programs(ranks))
    if (world := several_worlds(ranks)) is not None:
        several = f"the program made several default groups of {counted(world, 'rank')}"
        apart = (f"{several}: which are together is not known", *apart)
    if apart:
        sure: Certainty = "likely" if found.certainty == "certain" else found.certainty
        found = replace(found, certainty=sure, evidence=(*found.evidence, *apart))
    found = replace(
        found, evidence=(*found.evidence, *made_again(ranks), *_own_numbers(ranks), *counted_otherwise(ranks))
    )
    if found.kind in STANDS:  # else it says so itself
        found = replace(found, evidence=(*found.evidence, *unread(ranks)))
    return said_once(found, ranks)


def _by_torch(ranks: Sequence[RankSeen], acts: Mapping[int, Doing]) -> Explanation:
    """What follows from torch's counters."""
    stands, differ = standing(ranks), mismatches(ranks)
    if differ:
        return _mismatch(ranks, acts, differ, stands)
    apart = direct(ranks, acts)
    if stands:
        return _stands(ranks, acts, stands, apart)
    return in_vain(ranks, acts) or (_direct(ranks, acts, apart) if apart else _nothing_stands(ranks, acts))


def _own_numbers(ranks: Sequence[RankSeen]) -> Iterator[str]:
    """Whose numbers these are, where one rank of the run has started several of torch's."""
    parts: dict[int, list[int]] = {}
    for seen in ranks:
        if seen.within is not None:
            parts.setdefault(seen.within, []).append(seen.rank)
    if parts:
        shown = [f"{format_ranks(tuple(own))} in rank {rank}" for rank, own in sorted(parts.items())[:MOST_PARTS]]
        more = ", ..." if len(parts) > MOST_PARTS else ""
        apart = any(seen.process is not None and seen.process.torch_rank not in (None, seen.rank) for seen in ranks)
        what = "ranks of several programs, one after the other" if apart else "ranks as torch counts them"
        yield f"{what}: {', '.join(shown)} of this run{more}"


# somebody waits


def _stands(
    ranks: Sequence[RankSeen], acts: Mapping[int, Doing], stands: Sequence[Standing], apart: Direct | None
) -> Explanation:
    ends = chain_ends(ranks, stands, short_waits(ranks), elsewhere(ranks, acts))
    if ends.free and apart is not None:
        ends = replace(ends, free=tuple(rank for rank in ends.free if rank not in apart.waits))
        if not ends.free:  # they wait themselves, in sends and receives
            return _direct(ranks, acts, apart, stands)
    if ends.free:
        in_calls = {seen.rank: name for seen in ranks if seen.rank in ends.free and (name := _not_recorded(seen))}
        outside = tuple(rank for rank in ends.free if rank not in in_calls)
        if outside:
            return _hang(ranks, acts, stands, replace(ends, free=outside))
        return _held_in_call(_hang(ranks, acts, stands, ends), ranks, acts, in_calls)
    if parts := cycle_parts(ends):
        return _deadlock(ranks, acts, stands, ends, parts)
    if any(seen.in_vain and seen.rank in ends.lost for seen in ranks) and (found := in_vain(ranks, acts)) is not None:
        return replace(found, evidence=_evidence(_with(stands, ends)))
    return _all_entered(ranks, acts, stands, ends)


def _hang(ranks: Sequence[RankSeen], acts: Mapping[int, Doing], stands: Sequence[Standing], ends: Ends) -> Explanation:
    first = next(one for one in ends.through if set(one.missing) & set(ends.free))
    those = [rank for rank in ends.free if rank in first.missing]
    leader = acts[those[0]]
    number = len(those)
    verb = "has" if number == 1 else "have"
    does = f": it {leader.text}" if number == 1 else ""
    waits = f"for which {named_ranks(first.waiting)} {_waits(first)}"
    headline = f"{named_ranks(those)} {verb} not entered {first.words}, {waits}{does}"
    stall = all(acts[rank].stall for rank in those)
    early = not stall and _prepare(ranks, acts, first, those)
    next_step = advice(leader, stall=stall)
    sure = first in stands and not early and _are_sure(ranks, acts, ends)
    return Explanation(
        kind="stall" if stall or early else "hang",
        headline=headline,
        certainty="certain" if sure else "likely",
        ranks=places_of(ranks, acts, first, set(ends.free)),
        evidence=(*_evidence(_with(stands, ends)), *not_seen(ranks, those)),
        advice="; ".join(part for part in (FIRST_STEPS, next_step) if part) if early else next_step,
        since=first.since,
        collective=first.words,
    )


def _not_recorded(seen: RankSeen) -> str:
    """The call in which a rank waits for others and of which torch tells nothing; empty where it is in none."""
    begun = (one for group in seen.groups.values() for one in (*group.recent, *group.direct))
    return waits_in(seen) if not seen.stopped and all(one.over for one in begun) else ""


def _held_in_call(
    found: Explanation, ranks: Sequence[RankSeen], acts: Mapping[int, Doing], in_calls: Mapping[int, str]
) -> Explanation:
    """Who lacks waits itself, in what torch does not record: those are named that do not, if there are any."""
    waiting = {seen.rank for seen in ranks if any(group.pending is not None for group in seen.groups.values())}
    those = sorted(set(outside_of_calls(ranks)) - waiting)
    names = " and ".join(sorted(set(in_calls.values())))
    headline = found.headline.partition(": it ")[0]
    headline += f": {'it is' if len(in_calls) == 1 else 'they are'} in {names}, which torch has not recorded"
    if not those:
        return replace(found, headline=headline)
    one = len(those) == 1
    places = (replace(place, culprit=place.rank in those) for place in found.ranks)
    return replace(
        found,
        kind="stall" if all(acts[rank].stall for rank in those) else "hang",
        headline=f"{headline}, and {named_ranks(those)} {'is' if one else 'are'} in no collective"
        + (f": it {acts[those[0]].text}" if one else ""),
        ranks=tuple(sorted(places, key=lambda place: (not place.culprit, place.rank))),
        advice=advice(acts[those[0]], stall=acts[those[0]].stall),
    )


def _are_sure(ranks: Sequence[RankSeen], acts: Mapping[int, Doing], ends: Ends) -> bool:
    """Whether it is known of all on the way for whom they wait, and of those at the end that they wait for nobody;
    and of a checkpoint that it gets on, or hangs.
    """
    plain = elsewhere(ranks, acts).plain
    those = [seen for seen in ranks if seen.rank in ends.free and seen.rank not in plain]
    unsure = any(acts[rank].unsure for rank in ends.free)
    return ends.sure and not unsure and not any(may_wait(seen, ranks) for seen in those)


def _with(stands: Sequence[Standing], ends: Ends) -> tuple[Standing, ...]:
    """All that stands still, and what else is on the way to who is named."""
    known = frozenset(stands)
    return (*stands, *(one for one in ends.through if one not in known))


def _prepare(ranks: Sequence[RankSeen], acts: Mapping[int, Doing], first: Standing, those: Sequence[int]) -> bool:
    """Whether all of these ranks are at work, and have done so little in any group that they may prepare their data."""
    seen = [one for one in ranks if one.rank in those]
    return first.collective.number <= FEW_COLLECTIVES and all(
        max((newest_of(group) for group in one.groups.values()), default=0) <= FEW_COLLECTIVES
        and (acts[one.rank].stall or at_work(one, acts[one.rank]))
        for one in seen
    )


def _deadlock(
    ranks: Sequence[RankSeen],
    acts: Mapping[int, Doing],
    stands: Sequence[Standing],
    ends: Ends,
    parts: Sequence[Standing],
) -> Explanation:
    first = parts[0]
    return Explanation(
        kind="deadlock",
        headline=cycle_words(parts),
        certainty="certain" if ends.sure else "likely",
        ranks=places_of(ranks, acts, first, set(ends.cycle)),
        evidence=_evidence(_with(stands, ends)),
        advice="call the collectives of these groups in the same order on every rank",
        since=first.since,
        collective=first.words,
    )


def _all_entered(
    ranks: Sequence[RankSeen], acts: Mapping[int, Doing], stands: Sequence[Standing], ends: Ends
) -> Explanation:
    """All that are known have begun what is at the end of the chains, and it does not end: somebody unseen has not, or
    nothing gets through.
    """
    stopped = _stopped(ranks, ends)
    gone = {seen.rank for seen in ranks if seen.in_vain} & set(ends.lost)
    culprits = stopped or set(ends.lost) - gone
    each = (*ends.last, *ends.through)
    first = next((one for one in each if (culprits or gone) & {*one.waiting, *one.unknown}), each[0])
    stands = _with(stands, ends)
    if not culprits and not gone and (known := alone(ranks, acts, ends.last or (first,))) is not None:
        return Explanation(
            kind="hang", headline=known.headline, certainty="likely",
            ranks=places_of(ranks, acts, first, set(known.culprits)),
            evidence=(*_evidence(stands), *known.evidence),
            advice=known.advice, since=first.since, collective=first.words,
        )  # fmt: skip
    others = replace(first, waiting=tuple(rank for rank in first.waiting if rank not in culprits) or first.waiting)
    at = called_at(ranks, others.waiting, first.group, first.collective.number)
    if culprits:
        waits = f"{named_ranks(others.waiting)} {_waits(others)} in {first.words}{at} for {named_ranks(culprits)}"
        headline = f"{waits}: {_who(ranks, culprits)}{acts[min(culprits)].text}"
    elif gone:
        headline = f"{named_ranks(others.waiting)} {_waits(others)} in {first.words}{at} for {named_ranks(gone)}"
        headline += f", which waited in vain {'itself' if len(gone) == 1 else 'themselves'}"
    else:
        headline = f"every rank has entered {first.words}{at}, and it does not end"
    next_step = advice(acts[min(stopped)], stall=False) if stopped else ""
    return Explanation(
        kind="hang",
        headline=headline,
        certainty="likely",
        ranks=places_of(ranks, acts, first, culprits),
        evidence=(*_evidence(stands), *not_seen(ranks, sorted(culprits))),
        advice=next_step if gone or _is_there(ranks, culprits) else NETWORK,
        since=first.since,
        collective=first.words,
    )


def _stopped(ranks: Sequence[RankSeen], ends: Ends) -> set[int]:
    """The ranks that are stopped and belong, as far as anybody knows, to what is at the end of the chains."""
    inside = {rank for one in ends.through for rank in (*one.waiting, *one.unknown)}
    any_rank = not all(tells_members(ranks, one) for one in ends.last)
    return {seen.rank for seen in ranks if seen.stopped and (any_rank or seen.rank in inside)}


def _is_there(ranks: Sequence[RankSeen], culprits: set[int]) -> bool:
    """Whether the process of the first of them is seen."""
    return any(seen.process is not None for seen in ranks if seen.rank == min(culprits, default=-1))


def _who(ranks: Sequence[RankSeen], culprits: set[int]) -> str:
    """Who it is that does what is said next, as far as that is a process."""
    first = f"rank {min(culprits)} " if len(culprits) > 1 else "it "
    return first if _is_there(ranks, culprits) else ""


def _mismatch(
    ranks: Sequence[RankSeen], acts: Mapping[int, Doing], differ: Sequence[Mismatch], stands: Sequence[Standing]
) -> Explanation:
    first = differ[0]
    parts = [
        f"{named_ranks(who)} called {what}{called_at(ranks, who, first.group, first.number)}"
        for what, who in first.kinds.items()
    ]
    odd = set(first.odd)
    where = group_words(first.group, first.about)
    return Explanation(
        kind="mismatch",
        headline=f"ranks called different collectives as #{first.number} of {where}: {', '.join(parts)}",
        certainty="certain",
        ranks=places_of(ranks, acts, stands[0] if stands else None, odd, in_calls=True),
        evidence=_evidence(stands),
        advice=SAME_ORDER,
        since=stands[0].since if stands else None,
        collective=f"#{first.number} of {where}",
    )


def _direct(
    ranks: Sequence[RankSeen], acts: Mapping[int, Doing], found: Direct, stands: Sequence[Standing] = ()
) -> Explanation:
    """Ranks wait for others in what torch does not count together: never certain."""
    places = places_of(ranks, acts, stands[0] if stands else None, set(found.culprits))
    waits = {rank: f"waits in {one.words}{acts[rank].at}" for rank, one in found.waits.items()}
    return Explanation(
        kind="stall" if found.stall else "hang",
        headline=found.headline,
        certainty="likely",
        ranks=tuple(replace(place, does=waits.get(place.rank, place.does)) for place in places),
        evidence=(*found.evidence, *_evidence(stands)),
        advice=found.advice,
        since=found.first.since,
        collective=found.first.words,
    )


# nobody waits


def _nothing_stands(ranks: Sequence[RankSeen], acts: Mapping[int, Doing]) -> Explanation:
    stopped = tuple(seen.rank for seen in ranks if seen.stopped)
    places = places_of(ranks, acts, None, set(stopped))
    if stopped:
        by = "by a signal" if not any(seen.held for seen in ranks) else "by a signal or a debugger"
        alone = f"{named_ranks(stopped)} {acts[stopped[0]].text}"
        by = "with their containers" if any(seen.process and seen.process.state == PAUSED for seen in ranks) else by
        headline = alone if len(stopped) == 1 else f"{named_ranks(stopped)} are stopped {by}"
        return Explanation("hang", headline, "certain", places, advice=advice(acts[stopped[0]], stall=False))
    if any(seen.groups for seen in ranks):
        ended = {seen.rank for seen in ranks if seen.ended}
        lost = [rank for rank in silent(ranks) if rank not in ended]  # who waits for others there, nobody knows
        first_calls = any(map(is_not_recorded, ranks))
        sure: Certainty = "likely" if lost or first_calls or unsure(ranks) else "certain"
        mixed = tuple(_of_types(one) for one in unlike(ranks))
        headline = "no collective stands still" + (", but ranks mixed types of tensors in one" if mixed else "")
        evidence = (*mixed, *of_nothing(ranks, lost))
        return Explanation("moving", headline, sure, places, evidence, SAME_ORDER if mixed else "")
    return Explanation(
        "unseen", "no rank tells where it is in its collectives", "unknown", places, tuple(reasons(ranks))
    )


def _of_types(one: Mismatch) -> str:
    """`all_reduce #21 ...: rank 2 called all_reduce of 1000 Int, ranks 0-1,3 called ...`; who is odd comes first."""
    parts = ", ".join(f"{named_ranks(who)} called {what}" for what, who in one.kinds.items())
    return f"#{one.number} of {group_words(one.group, one.about)} went through with different types: {parts}"


# words


def _waits(one: Standing) -> str:
    return "waits" if len(one.waiting) == 1 else "wait"


def _evidence(stands: Sequence[Standing]) -> tuple[str, ...]:
    """What torch's counters say, group by group."""
    found = []
    for one in stands:
        parts = [f"{named_ranks(one.waiting)} entered"]
        parts += [f"{named_ranks(one.missing)} did not"] if one.missing else []
        parts += [f"of {named_ranks(one.unknown)} nothing is known"] if one.unknown else []
        found.append(f"{one.words}: {', '.join(parts)}")
    return tuple(found)
