"""Ranks of which nobody knows where they are in their collectives, and why. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from distui.plan.labels import named_ranks
from distui.runs.insight.seen.answers import PAUSED
from distui.runs.insight.seen.ranks import RankSeen


def silent(ranks: Sequence[RankSeen]) -> tuple[int, ...]:
    """Ranks that tell no positions, or have ended and left none; nobody where all tell that torch counts: a logger does
    nothing in collectives.
    """
    answered = [seen.process for seen in ranks if seen.process is not None and seen.process.groups is not None]
    world = max((process.world or 0 for process in answered), default=0)
    if 0 < world <= sum(process.torch_rank is not None for process in answered):
        return ()
    return tuple(seen.rank for seen in ranks if seen.process is None or seen.process.groups is None)


def why_silent(seen: RankSeen) -> str:
    """Why a rank tells no positions."""
    process = seen.process
    if process is None:
        return seen.ended or seen.why_not or "can't be seen"
    if process.uses:
        several = " and " in process.uses
        return f"{process.uses} {'do not tell their' if several else 'does not tell its'} collectives"
    if not process.torch:
        return "no torch.distributed in use, or started with `insight: off` or as `python -I`"
    return "; ".join(process.unasked) or f"torch {process.torch} has recorded no collective of it"


def reasons(ranks: Sequence[RankSeen]) -> Iterator[str]:
    """`rank 1: it was not asked`, each reason once."""
    found: dict[str, list[int]] = {}
    for seen in ranks:
        found.setdefault(why_silent(seen), []).append(seen.rank)
    yield from (f"{named_ranks(who)}: {why}" for why, who in found.items())


def of_nothing(ranks: Sequence[RankSeen], those: Iterable[int]) -> Iterator[str]:
    """`of ranks 4-5 nothing is known: host h4 can't be asked`, each reason once; `rank 4 has ended: exit 0`."""
    found: dict[tuple[str, bool], list[int]] = {}
    wanted = set(those)
    for seen in ranks:
        if seen.rank in wanted:
            found.setdefault((why_silent(seen), bool(seen.ended)), []).append(seen.rank)
    for (why, ended), who in found.items():
        has = "has" if len(who) == 1 else "have"
        yield f"{named_ranks(who)} {has} ended: {why}" if ended else f"of {named_ranks(who)} nothing is known: {why}"


def unread(ranks: Sequence[RankSeen]) -> Iterator[str]:
    """`rank 4 does not tell its collectives: no whole answer within 5 s`, each reason once. Not of those that are
    stopped, of which that is said.
    """
    found: dict[str, list[int]] = {}
    for seen in ranks:
        process = seen.process
        if process is not None and process.groups is None and process.state not in ("T", "t", PAUSED):
            for why in process.unasked:
                what, _, reason = why.partition(": ")
                if what == "collectives":
                    found.setdefault(reason, []).append(seen.rank)
    for reason, who in found.items():
        does, own = ("does", "its") if len(who) == 1 else ("do", "their")
        yield f"{named_ranks(who)} {does} not tell {own} collectives: {reason}"
