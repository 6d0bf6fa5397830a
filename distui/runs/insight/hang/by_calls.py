"""Who holds the others up where torch records no collectives, by the calls of main threads. Pure.

An older torch has no flight recorder for gloo (2.4: none), and a job may turn it off. Then this is left: a rank whose
main thread was in a collective, and was given no core since, still waits in it; a rank that was in none at that time is
one that it may wait for. Which group it is nobody knows, so nothing of it is certain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from distui.plan.labels import named_ranks
from distui.regex import regex
from distui.runs.insight.seen.answers import Frame
from distui.runs.insight.seen.doing import Doing, advice, doing
from distui.runs.insight.seen.ranks import RankSeen
from distui.runs.insight.seen.watched import Figures
from distui.runs.lines.explanation import Explanation, RankPlace

_FILE = regex(r"/torch/distributed/distributed_c10d\.py$")
_COLLECTIVE = regex(r"(all_|monitored_)?(reduce|gather|scatter|broadcast|to_all|barrier|recv)(_\w+)?")
"""Functions of that file that wait for other ranks."""
UNCOUNTED = ("monitored_barrier",)
"""Those that torch's flight recorder leaves out, though all ranks of a group must call them."""


def explain_by_calls(first: Explanation, ranks: Sequence[RankSeen], figures: Mapping[int, Figures]) -> Explanation:
    """`first`, of ranks that do not tell where they are in their collectives, with what their calls tell; of a run that
    goes on, as far as torch counts, no more than who waits in what it does not count.

    `ranks` have the stacks from before they were watched; `figures`, by rank, what the kernel counted since.
    """
    acts = {seen.rank: doing(seen) for seen in ranks}
    inside = {seen.rank: name for seen in ranks if (name := collective_of(seen))}
    counts = first.kind == "moving"
    waiting = [
        rank for rank, name in inside.items()
        if (own := figures.get(rank)) is not None and own.turns == 0 and not (counts and name not in UNCOUNTED)
    ]  # fmt: skip
    outside = [seen.rank for seen in ranks if seen.rank not in inside and seen.main_stack is not None]
    culprits = outside if waiting else []
    if counts and not culprits:
        return first
    places = [_place(seen, acts[seen.rank], inside, waiting, culprits) for seen in ranks]
    first = replace(first, ranks=tuple(sorted(places, key=lambda place: (not place.culprit, place.rank))))
    if not culprits:
        return first
    seconds = min(figures[rank].seconds for rank in waiting)
    stall = all(acts[rank].stall for rank in culprits)
    return replace(
        first, kind="stall" if stall else "hang", certainty="likely", collective=_names(inside, waiting),
        headline=_headline(acts, inside, waiting, culprits),
        since=max(seen.at for seen in ranks) - seconds,
        advice=advice(acts[culprits[0]], stall=stall),
    )  # fmt: skip


def collective_of(seen: RankSeen) -> str:
    """The collective that its main thread is in, as the program called it; empty where it is in none."""
    frames: tuple[Frame, ...] = seen.main_stack.frames if seen.main_stack is not None else ()
    called = [one.function for one in frames if _FILE.search(one.file) and _COLLECTIVE.fullmatch(one.function)]
    return called[-1] if called else ""


def _names(inside: Mapping[int, str], waiting: Sequence[int]) -> str:
    return " and ".join(sorted({inside[rank] for rank in waiting}))


def _headline(
    acts: Mapping[int, Doing],
    inside: Mapping[int, str],
    waiting: Sequence[int],
    culprits: Sequence[int],
) -> str:
    """`rank 1 is in no collective, while rank 0 waits in all_reduce: it sleeps at /work/train.py:8 in load`."""
    one = len(culprits) == 1
    wait = f"{named_ranks(waiting)} wait{'s' * (len(waiting) == 1)} in {_names(inside, waiting)}"
    does = f": it {acts[culprits[0]].text}" if one else ""
    return f"{named_ranks(culprits)} {'is' if one else 'are'} in no collective, while {wait}{does}"


def _place(
    seen: RankSeen, act: Doing, inside: Mapping[int, str], waiting: Sequence[int], culprits: Sequence[int]
) -> RankPlace:
    name = inside.get(seen.rank, "")
    does = f"{'waits' if seen.rank in waiting else 'is'} in {name}{act.at}" if name else act.text
    return RankPlace(seen.rank, seen.host, does, name, None, seen.rank in culprits, within=seen.within)
