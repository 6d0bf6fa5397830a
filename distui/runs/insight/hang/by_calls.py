"""Who holds the others up where torch records no collectives, by the calls of main threads. Pure.

An older torch has no flight recorder for gloo (2.4: none), a job may turn it off, and none counts what makes a group:
`init_process_group`, `new_group`. Nor is the first collective of a group over NCCL recorded before all of the group
have come to it: its call connects them first, and waits for them. Then this is left: a rank whose main thread was in
such a call, and was given no core since, still waits in it; a rank that was in none at that time is one that it may
wait for. Which group it is nobody knows, so nothing of it is certain.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from distui.frozen import frozen
from distui.plan.labels import named_ranks
from distui.regex import regex
from distui.runs.insight.hang.collectives import SAME_ORDER, STANDING_S, odd_ones
from distui.runs.insight.seen.answers import Frame
from distui.runs.insight.seen.doing import Doing, advice, at_work, doing
from distui.runs.insight.seen.ranks import RankSeen
from distui.runs.insight.seen.watched import Figures
from distui.runs.lines.explanation import Explanation, RankPlace

_FILE = regex(r"/torch/distributed/distributed_c10d\.py$")
_COLLECTIVE = regex(r"(all_|monitored_)?(reduce|gather|scatter|broadcast|to_all|barrier|send|recv)(_\w+)?")
"""Functions of that file that wait for other ranks."""
INIT = "init_process_group"
JOINS = (INIT, "new_group", "new_subgroups", "new_subgroups_by_enumeration", "split_group")
"""Functions of that file that make a group: they end when all ranks of the group have called them."""
UNCOUNTED = ("monitored_barrier", *JOINS)
"""What torch's flight recorder leaves out, though all ranks of a group must call it."""
DIRECT = ("send", "recv")
"""What these begin with, gloo's recorder leaves out; two ranks must call it, and the others may well do without."""
POLLS = frozenset({"S hrtimer_nanosleep", "S do_nanosleep", "S clock_nanosleep"})
"""How the kernel shows a thread that sleeps again and again: who waits in `init_process_group` for others to connect
to it, or for who is to be connected to, does (`waitForWorkers` in TCPStore.cpp, torch 2.13).
"""
POLLING, IDLE = 0.5, 0.1
"""In what share of the looks it sleeps at least (in the others it asks whether they are there, or has no core), and how
many cores it uses at most.
"""
MOST_PLACES = 4
"""Places at which ranks are that are named in one line."""


@frozen
class _Calls:
    """What is known by the calls of main threads."""

    inside: Mapping[int, str]
    """Rank -> the call that it is in, of those that wait for other ranks."""
    stand: Sequence[int]
    """The ranks in one that were given no core since."""
    waiting: Sequence[int]
    """The ranks that may be said to wait."""
    culprits: Sequence[int]
    """The ones that they may wait for."""


def explain_by_calls(first: Explanation, ranks: Sequence[RankSeen], figures: Mapping[int, Figures]) -> Explanation:
    """`first`, of ranks that do not tell where they are in their collectives, with what their calls tell; of a run that
    goes on, as far as torch counts, no more than who waits in what it does not count.

    `ranks` have the stacks from before they were watched; `figures`, by rank, what the kernel counted since.
    """
    acts = {seen.rank: doing(seen) for seen in ranks}
    counts = first.kind == "moving"
    calls = _calls_of(ranks, figures, counts=counts)
    if calls.culprits:
        return _held_up(first, ranks, acts, calls, figures)
    if counts:
        return _nothing_done(_less_sure(first, calls, figures), ranks, acts, figures)
    if len(kinds := _different(ranks, calls, figures)) > 1:
        return _mismatch(first, ranks, acts, calls, kinds, figures)
    return _nothing_done(replace(first, ranks=_places(ranks, acts, calls)), ranks, acts, figures)


def _calls_of(ranks: Sequence[RankSeen], figures: Mapping[int, Figures], *, counts: bool) -> _Calls:
    """`counts` is whether torch tells of the collectives that it records that they go on."""
    inside = {seen.rank: name for seen in ranks if (name := waits_in(seen))}
    others = [seen for seen in ranks if seen.rank not in inside]
    stand = [rank for rank in inside if _stands(figures.get(rank))]
    apart = all(_does_nothing(seen, figures.get(seen.rank)) for seen in others if not seen.ended)
    waiting = [rank for rank in stand if not counts or _leaves_out(inside[rank], apart=apart)]
    outside = [seen.rank for seen in others if seen.main_stack is not None]
    starting = [seen.rank for seen in others if _polls(seen, figures.get(seen.rank))]
    if starting and set(inside.values()) <= {INIT} and (waiting or _all_stand(outside, figures)):
        ready = {seen.rank for seen in ranks if seen.process is not None and seen.process.torch_rank is not None}
        outside = [rank for rank in outside if rank not in ready]
        inside |= dict.fromkeys(starting, INIT)
        waiting = [*waiting, *starting]
    unrecorded = [seen.rank for seen in ranks if counts and _waits_unrecorded(seen, figures.get(seen.rank))]
    if unrecorded and not waiting:  # of a group, and nobody knows of which one
        gone_on = {seen.rank for seen in ranks if _quiet_for(seen) < _seconds(figures.get(seen.rank))}
        outside = [rank for rank in outside if rank not in gone_on]
    waiting = sorted({*waiting, *unrecorded})
    return _Calls(inside, stand, waiting, outside if waiting else ())


def _held_up(
    first: Explanation,
    ranks: Sequence[RankSeen],
    acts: Mapping[int, Doing],
    calls: _Calls,
    figures: Mapping[int, Figures],
) -> Explanation:
    """Ranks wait, and others are in no such call."""
    seconds = min(_seconds(figures.get(rank)) for rank in calls.waiting)
    start = all(calls.inside[rank] == INIT for rank in calls.waiting)
    blamed = [seen for seen in ranks if seen.rank in calls.culprits]
    stall = all(acts[seen.rank].stall or (start and at_work(seen, acts[seen.rank])) for seen in blamed)
    return replace(
        first, kind="stall" if stall else "hang", certainty="likely", collective=_names(calls),
        headline=_headline(acts, calls), ranks=_places(ranks, acts, calls),
        since=max(seen.at for seen in ranks) - seconds,
        evidence=(*_seen_to_wait(calls, figures), *first.evidence),
        advice=advice(acts[calls.culprits[0]], stall=stall),
    )  # fmt: skip


def _different(ranks: Sequence[RankSeen], calls: _Calls, figures: Mapping[int, Figures]) -> dict[str, list[int]]:
    """Which ranks wait in which call, the rarest first, where all of them stand in one that all must come to; else
    nothing. Such calls of several groups may differ, too, but in one of them something would be done then: gloo moves
    its bytes in threads of its own.
    """
    kinds: dict[str, list[int]] = {}
    for seen in ranks:
        name = calls.inside.get(seen.rank, "")
        if not name or name.startswith(DIRECT) or not _does_nothing(seen, figures.get(seen.rank)):
            return {}
        kinds.setdefault(name, []).append(seen.rank)
    return dict(sorted(kinds.items(), key=lambda kind: len(kind[1])))


def _mismatch(
    first: Explanation,
    ranks: Sequence[RankSeen],
    acts: Mapping[int, Doing],
    calls: _Calls,
    kinds: Mapping[str, Sequence[int]],
    figures: Mapping[int, Figures],
) -> Explanation:
    """All ranks wait, in different calls."""
    odd = set(odd_ones(tuple(kinds.values())))
    parts = ", ".join(f"{named_ranks(who)} in {name}{acts[who[0]].at}" for name, who in kinds.items())
    places = (replace(place, culprit=place.rank in odd) for place in _places(ranks, acts, calls))
    seconds = min(_seconds(figures.get(rank)) for rank in calls.stand)
    return replace(
        first, kind="mismatch", certainty="likely", advice=SAME_ORDER, collective=" and ".join(sorted(kinds)),
        headline=f"all ranks wait, in different calls: {parts}",
        ranks=tuple(sorted(places, key=lambda place: (not place.culprit, place.rank))),
        since=max(seen.at for seen in ranks) - seconds,
        evidence=(*_seen_to_wait(calls, figures), *first.evidence),
    )  # fmt: skip


def _less_sure(first: Explanation, calls: _Calls, figures: Mapping[int, Figures]) -> Explanation:
    """Of a run that goes on, as far as torch counts: who waits in what it does not count, though nobody is to blame."""
    if not calls.waiting and not any(calls.inside[rank].startswith(DIRECT) for rank in calls.stand):
        return first
    return replace(first, certainty="likely", evidence=(*_seen_to_wait(calls, figures), *first.evidence))


def _seen_to_wait(calls: _Calls, figures: Mapping[int, Figures]) -> Iterator[str]:
    """By what it is known who waits in what, each reason once."""
    reasons: dict[str, list[int]] = {}
    for rank in calls.waiting:
        own, does = figures.get(rank), "which torch has not recorded: a group's first one over NCCL connects its ranks"
        if own is not None and _stands(own):
            does = f"main thread did not run for {own.seconds:.0f} s"
        elif calls.inside[rank] == INIT:
            does = "main thread only slept again and again"
        reasons.setdefault(f"in {calls.inside[rank]}, {does}", []).append(rank)
    for why, who in reasons.items():
        yield f"{named_ranks(who)}: {why}"


def is_not_recorded(seen: RankSeen, seconds: float = 0.0) -> bool:
    """Whether its main thread was, so many seconds before its positions were asked for, in the call of a collective
    that is none of those: all of them were over long before.
    """
    name = collective_of(seen)
    known = seen.process is not None and seen.process.groups is not None
    if not known or not name or name in UNCOUNTED or name.startswith(DIRECT):
        return False
    begun = (one for group in seen.groups.values() for one in (*group.recent, *group.direct))
    return all(one.over for one in begun) and _quiet_for(seen) >= seconds + STANDING_S


def outside_of_calls(ranks: Sequence[RankSeen]) -> list[int]:
    """Ranks that are in no call that waits for others, and have entered nothing for long."""
    return [
        seen.rank
        for seen in ranks
        if seen.main_stack is not None and not seen.ended and not waits_in(seen) and _quiet_for(seen) >= STANDING_S
    ]


def _waits_unrecorded(seen: RankSeen, own: Figures | None) -> bool:
    """Whether a rank waits in a collective of which torch does not tell, though it tells of those of others."""
    silent = seen.process is not None and seen.process.groups is None and _stands(own)
    name = collective_of(seen)
    return (silent and bool(name) and not name.startswith(DIRECT)) or is_not_recorded(seen, _seconds(own))


def _quiet_for(seen: RankSeen) -> float:
    """For how many seconds a rank has entered and ended nothing, as far as torch records that."""
    moments = (
        moment
        for group in seen.groups.values()
        for moment in (group.ended_ns, *(one.began_ns for one in (*group.recent[-1:], *group.direct[-1:])))
        if moment
    )
    return seen.at - max((ns / 1e9 - seen.ahead for ns in moments), default=-math.inf)


def _seconds(own: Figures | None) -> float:
    """For how long a rank was watched."""
    return own.seconds if own is not None else 0.0


def _leaves_out(name: str, *, apart: bool) -> bool:
    """Whether torch's recorder leaves out a call that a rank waits in, and it may be said who is in none: of a send or
    a receive only where no rank `apart` from it does anything, since one that computes may come to it.
    """
    return name in UNCOUNTED or (apart and name.startswith(DIRECT))


def _stands(own: Figures | None) -> bool:
    """Whether a main thread was given no core while it was watched."""
    return own is not None and own.turns == 0


def _polls(seen: RankSeen, own: Figures | None) -> bool:
    """Whether it does nothing but sleep again and again, in a process whose torch has not made its first group yet."""
    process = seen.process
    if process is None or own is None or not process.torch or process.torch_rank is not None or process.groups:
        return False
    slept = sum(count for state, count in own.states.items() if state in POLLS)
    mostly = 0 < slept >= POLLING * sum(own.states.values())
    return seen.main_stack is None and bool(own.turns) and mostly and process.cpu < IDLE


def _all_stand(ranks: Sequence[int], figures: Mapping[int, Figures]) -> bool:
    """Whether all of them do, if there are any."""
    return bool(ranks) and all(_stands(figures.get(rank)) for rank in ranks)


def _does_nothing(seen: RankSeen, own: Figures | None) -> bool:
    """Whether none of its threads was seen to compute, and its calls are known."""
    process = seen.process
    idle = process is not None and process.cpu < IDLE and own is not None and "R" not in own.states
    return idle and _stands(own) and seen.main_stack is not None


def _nothing_done(
    first: Explanation, ranks: Sequence[RankSeen], acts: Mapping[int, Doing], figures: Mapping[int, Figures]
) -> Explanation:
    """Of ranks that all stand still, in nothing that waits for others as far as can be seen: where; else `first`."""
    live = [seen for seen in ranks if not seen.ended]
    if not live or not all(_does_nothing(seen, figures.get(seen.rank)) for seen in live):
        return first
    at: dict[str, list[int]] = {}
    for seen in live:
        at.setdefault(acts[seen.rank].text, []).append(seen.rank)
    rare = sorted(at.items(), key=lambda item: len(item[1]))
    parts = [f"{named_ranks(who)}: {what}" for what, who in rare[:MOST_PLACES]]
    more = "; ..." if len(rare) > MOST_PLACES else ""
    seconds = min(figures[seen.rank].seconds for seen in live)
    word = "but" if first.kind == "moving" else "and"
    headline = f"{first.headline}, {word} no rank's main thread ran for {seconds:.0f} s"
    places = tuple(replace(place, does=acts[place.rank].text) for place in first.ranks)
    return replace(first, headline=headline, ranks=places, evidence=(*first.evidence, "; ".join(parts) + more))


def collective_of(seen: RankSeen) -> str:
    """The collective that its main thread is in, as the program called it; empty where it is in none."""
    called = [name for name in functions_of(seen) if _COLLECTIVE.fullmatch(name)]
    return called[-1] if called else ""


def waits_in(seen: RankSeen) -> str:
    """The same of all that waits for other ranks, what makes a group among it."""
    called = [name for name in functions_of(seen) if name in JOINS]
    return called[-1] if called else collective_of(seen)


def functions_of(seen: RankSeen) -> list[str]:
    """The functions of torch's own file of collectives that its main thread is in, innermost first."""
    frames: tuple[Frame, ...] = seen.main_stack.frames if seen.main_stack is not None else ()
    return [one.function for one in frames if _FILE.search(one.file)]


def _names(calls: _Calls) -> str:
    return " and ".join(sorted({calls.inside[rank] for rank in calls.waiting}))


def _headline(acts: Mapping[int, Doing], calls: _Calls) -> str:
    """`rank 1 is in no collective, while rank 0 waits in all_reduce: it sleeps at /work/train.py:8 in load`; of what
    makes a group `rank 1 is not in new_group, in which rank 0 waits`.
    """
    culprits, waiting, names = calls.culprits, calls.waiting, _names(calls)
    one = len(culprits) == 1
    wait = f"{named_ranks(waiting)} wait{'s' * (len(waiting) == 1)}"
    does = f": it {acts[culprits[0]].text}" if one else ""
    if all(calls.inside[rank] in JOINS for rank in waiting):
        return f"{named_ranks(culprits)} {'is' if one else 'are'} not in {names}, in which {wait}{does}"
    return f"{named_ranks(culprits)} {'is' if one else 'are'} in no collective, while {wait} in {names}{does}"


def _places(ranks: Sequence[RankSeen], acts: Mapping[int, Doing], calls: _Calls) -> tuple[RankPlace, ...]:
    """Where each rank is, the ones that are waited for first."""
    places = [_place(seen, acts[seen.rank], calls) for seen in ranks]
    return tuple(sorted(places, key=lambda place: (not place.culprit, place.rank)))


def _place(seen: RankSeen, act: Doing, calls: _Calls) -> RankPlace:
    name = calls.inside.get(seen.rank, "")
    does = f"{'waits' if seen.rank in calls.waiting else 'is'} in {name}{act.at}" if name else act.text
    return RankPlace(seen.rank, seen.host, does, name, None, seen.rank in calls.culprits, within=seen.within)
