"""Collectives that do not end though nobody is known to be missing, in groups of which torch tells no members. Pure.

gloo names a group by a count of the groups that its own rank has made, and tells no members. So one group has two
names where a rank makes its groups in another order than the others, and who has not yet used a group is not known to
be in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distui.frozen import frozen
from distui.plan.labels import named_ranks
from distui.runs.insight.hang.collectives import Standing, is_default
from distui.runs.insight.hang.places import called_at, not_seen
from distui.runs.insight.hang.unseen import of_nothing, silent
from distui.runs.insight.seen.doing import Doing, advice
from distui.runs.insight.seen.ranks import RankSeen

SAME_GROUPS = "every rank must call new_group for the same groups in the same order, also for those that it is not in"

NETWORK = "look at the network between these hosts: `distui doctor` proves who reaches whom"
MOST_PARTS = 4
"""Groups of which it is said who waits in them."""


@frozen
class Alone:
    """What is said of it."""

    headline: str
    advice: str
    culprits: frozenset[int] = frozenset()
    evidence: tuple[str, ...] = ()


def alone(ranks: Sequence[RankSeen], acts: Mapping[int, Doing], stands: Sequence[Standing]) -> Alone | None:
    """What is said of collectives that are known to lack nobody; None where all who belong there are known."""
    waiting = {rank for one in stands for rank in one.waiting}
    if all(tells_members(ranks, one) for one in stands):
        return None
    lost = [rank for rank in silent(ranks) if rank not in waiting]
    apart = len(stands) > 1 and any(set(one.waiting) != waiting for one in stands)
    if lost:
        return _lacks_unseen(ranks, _apart(ranks, stands).headline if apart else _known(ranks, stands[0]), lost)
    if apart:
        return _apart(ranks, stands)
    return _unused(ranks, acts, stands[0]) if len(stands) == 1 else None


def _lacks_unseen(ranks: Sequence[RankSeen], headline: str, lost: Sequence[int]) -> Alone:
    """Ranks that tell nothing may belong there: whether they have entered nobody knows, and nobody is blamed."""
    away = [seen.rank for seen in ranks if seen.rank in lost and seen.process is None and not seen.ended]
    why = list(of_nothing(ranks, lost))
    more = "; ..." if len(why) > MOST_PARTS else ""
    evidence = (*why[MOST_PARTS:], *not_seen(ranks, away))
    return Alone("; ".join((headline, *why[:MOST_PARTS])) + more, NETWORK if away else "", evidence=evidence)


def _known(ranks: Sequence[RankSeen], one: Standing) -> str:
    at = called_at(ranks, one.waiting, one.group, one.collective.number)
    return f"all that are known have entered {one.words}{at}, and it does not end"


def _apart(ranks: Sequence[RankSeen], stands: Sequence[Standing]) -> Alone:
    """`rank 0 waits in ... in group 1 at ...; rank 1 waits in ... in group 2 at ...`."""
    more = "; ..." if len(stands) > MOST_PARTS else ""
    parts = "; ".join(_waits(ranks, one) for one in stands[:MOST_PARTS])
    lone = any(len(one.waiting) == 1 for one in stands)
    return Alone(f"ranks wait in different groups: {parts}{more}", SAME_GROUPS if lone else NETWORK)


def _unused(ranks: Sequence[RankSeen], acts: Mapping[int, Doing], one: Standing) -> Alone | None:
    """Ranks that have not used a group yet may belong to it; not where others have done several collectives in it, and
    not those that tell no positions: they are in no torch world, else they would be `silent`.
    """
    tell = [seen for seen in ranks if seen.process is not None and seen.process.groups is not None]
    rest = [seen.rank for seen in tell if seen.rank not in one.waiting and one.group not in seen.groups]
    if not rest:
        return None
    if one.collective.number > 1 and len(one.waiting) > 1:
        return Alone(_known(ranks, one), NETWORK)
    headline = (
        f"{_waits(ranks, one)}, a group that {named_ranks(rest)} {'has' if len(rest) == 1 else 'have'} not used yet"
    )
    if len(rest) > 1:
        return Alone(headline, "")
    act = acts[rest[0]]
    return Alone(f"{headline}: rank {rest[0]} {act.text}", advice(act, stall=act.stall), frozenset(rest))


def _waits(ranks: Sequence[RankSeen], one: Standing) -> str:
    at = called_at(ranks, one.waiting, one.group, one.collective.number)
    return f"{named_ranks(one.waiting)} {'waits' if len(one.waiting) == 1 else 'wait'} in {one.words}{at}"


def tells_members(ranks: Sequence[RankSeen], one: Standing) -> bool:
    """Whether it is known who belongs to its group."""
    return is_default(one.group, one.about) or any(
        seen.groups[one.group].ranks for seen in ranks if one.group in seen.groups
    )
