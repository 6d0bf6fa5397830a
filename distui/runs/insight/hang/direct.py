"""Sends and receives that do not end, as far as torch records them: those over NCCL. Pure.

Each rank counts its own, so one can't be found at its other end by its number: the other end is named, as likely.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from distui.frozen import frozen
from distui.plan.labels import named_ranks
from distui.regex import regex
from distui.runs.insight.hang.alone import NETWORK
from distui.runs.insight.hang.collectives import SLOWER, STANDING_S, contradict, group_words, is_default
from distui.runs.insight.seen.answers import Collective, Group
from distui.runs.insight.seen.doing import Doing, advice
from distui.runs.insight.seen.ranks import RankSeen

PAIRS = "every send needs its receive on the other rank, in the same order among what else both call"

_ONE = regex(r"\b(?:send|recv) \d{1,7}(?:->|<-)(\d{1,7})\b")
"""`send 0->1`, `recv 0<-1`: its own rank first, as numbers of the group."""


@frozen
class Waits:
    """A rank that has begun a send or a receive (or a batch of them) long ago and nothing in its group since."""

    rank: int
    group: str
    about: str
    one: Collective
    others: tuple[int, ...]
    """Its other ends."""
    since: float
    """On our clock."""

    @property
    def words(self) -> str:
        """`recv 0<-1 of 8x8 Float in the default group`."""
        size = f" of {self.one.sizes} {self.one.kinds}".rstrip() if self.one.sizes else ""
        return f"{self.one.what}{size} in {group_words(self.group, self.about)}"


@frozen
class Direct:
    """What is said of them."""

    headline: str
    waits: Mapping[int, Waits]
    culprits: tuple[int, ...]
    """Other ends that wait for nobody themselves."""
    first: Waits
    stall: bool
    """Whether the other ends are at work: they may come to it."""
    advice: str

    @property
    def evidence(self) -> tuple[str, ...]:
        """Who has begun what."""
        return tuple(f"{one.words}: rank {rank} has begun it" for rank, one in sorted(self.waits.items()))


def direct(ranks: Sequence[RankSeen], acts: Mapping[int, Doing]) -> Direct | None:
    """Who waits in sends and receives, and for whom; None where nobody does, or that is not known."""
    if any(s.process is not None and s.process.torch_rank not in (None, s.rank) for s in ranks):
        return None  # torch counts the ranks in another way than the run
    waits = {seen.rank: one for seen in ranks if (one := _waits(seen)) is not None}
    by_rank = {seen.rank: seen for seen in ranks}
    missing = {rank: found for rank, one in waits.items() if (found := tuple(_missing(one, waits, by_rank)))}
    if missing:
        return _held_up(waits, missing, by_rank, acts)
    stuck = _closed(waits)
    return _both_there(stuck) if stuck else None


def unsure(ranks: Sequence[RankSeen]) -> bool:
    """Whether a send or a receive has begun long ago and is not over, whatever that means; or the collectives of a
    group can't be compared, since those took numbers of theirs or since ranks contradict each other.
    """
    names = {name for seen in ranks for name in seen.groups}
    if any(contradict(name, ranks) for name in names):
        return True
    return any(
        group.mixed or any(not one.over and seen.at - _moment(seen, one) >= STANDING_S for one in group.direct)
        for seen in ranks
        for group in seen.groups.values()
    )


def _waits(seen: RankSeen) -> Waits | None:
    """What a rank has waited in for longest."""
    found = [one for name, group in seen.groups.items() if (one := _in_group(seen, name, group)) is not None]
    return min(found, key=lambda one: one.since, default=None)


def _in_group(seen: RankSeen, name: str, group: Group) -> Waits | None:
    one = next((one for one in group.direct if not one.over), None)
    others = _others(one, name, group) if one is not None else ()
    if one is None or not others:
        return None
    begun = sorted(_moment(seen, each) for each in (*group.recent, *group.direct))
    gaps = sorted(later - earlier for earlier, later in pairwise(begun))
    least = max(STANDING_S, SLOWER * gaps[-2] if len(gaps) > 2 else 0.0)
    return (
        Waits(seen.rank, name, group.about, one, others, _moment(seen, one)) if seen.at - begun[-1] >= least else None
    )


def _others(one: Collective, name: str, group: Group) -> tuple[int, ...]:
    """The other ends as ranks of the run; none where nobody knows."""
    own = [int(number) for number in _ONE.findall(one.what)]
    if not group.ranks:
        return tuple(sorted(set(own))) if is_default(name, group.about) else ()
    return tuple(sorted({group.ranks[number] for number in own})) if max(own, default=0) < len(group.ranks) else ()


def _missing(one: Waits, waits: Mapping[int, Waits], by_rank: Mapping[int, RankSeen]) -> Iterator[int]:
    """Its other ends that have not come to it, and wait in none themselves. Of several those that have gone on since
    have done their part.
    """
    for other in one.others:
        seen = by_rank.get(other)
        if seen is None or other in waits or _has_come(seen, one):
            continue
        if len(one.others) == 1 or not _has_gone_on(seen, one.since):
            yield other


def _has_come(seen: RankSeen, waits: Waits) -> bool:
    """Whether a rank is in a send or a receive with the one that waits, or was a moment ago: it takes one by one what
    the other began ahead of its GPU.
    """
    group = seen.groups.get(waits.group)
    return group is not None and any(
        waits.rank in _others(one, waits.group, group)
        for one in group.direct
        if not one.over or seen.at - _moment(seen, one) < STANDING_S
    )


def _has_gone_on(seen: RankSeen, since: float) -> bool:
    return any(
        _moment(seen, one) > since + seen.doubt
        for group in seen.groups.values()
        for one in (*group.recent[-1:], *group.direct[-1:])
    )


def _moment(seen: RankSeen, one: Collective) -> float:
    return one.began_ns / 1e9 - seen.ahead


def _closed(waits: Mapping[int, Waits]) -> dict[int, Waits]:
    """Those of them all whose other ends are among them."""
    left = dict(waits)
    while gone := [rank for rank, one in left.items() if not set(one.others) <= set(left)]:
        for rank in gone:
            del left[rank]
    return left


def _held_up(
    waits: Mapping[int, Waits],
    missing: Mapping[int, tuple[int, ...]],
    by_rank: Mapping[int, RankSeen],
    acts: Mapping[int, Doing],
) -> Direct:
    first = min((waits[rank] for rank in missing), key=lambda one: one.since)
    those = missing[first.rank]
    leader = acts[those[0]]
    inside = {rank: where for rank in those if (where := _collective(by_rank[rank]))}
    does = f": it {inside.get(those[0]) or leader.text}" if len(those) == 1 else ""
    culprits = tuple(sorted({rank for found in missing.values() for rank in found}))
    return Direct(
        f"rank {first.rank} waits in {first.words} for {named_ranks(those)}{does}",
        waits, culprits, first,
        all((acts[rank].stall or acts[rank].busy) and rank not in inside for rank in those),
        PAIRS if inside else advice(leader, stall=leader.stall),
    )  # fmt: skip


def _collective(seen: RankSeen) -> str:
    """In which collective a rank waits meanwhile; empty where in none."""
    for name, group in sorted(seen.groups.items()):
        if group.pending is not None and seen.at - _moment(seen, group.pending) >= STANDING_S:
            where = group_words(name, group.about)
            return f"waits in {group.pending.what} #{group.pending.number} in {where}"
    return ""


def _both_there(stuck: Mapping[int, Waits]) -> Direct:
    """Both ends have begun something with the other, and it does not end."""
    first = min(stuck.values(), key=lambda one: one.since)
    parts = "; ".join(f"rank {rank} in {one.words}" for rank, one in sorted(stuck.items())[:4])
    more = "; ..." if len(stuck) > 4 else ""
    return Direct(
        f"{named_ranks(stuck)} wait for each other in sends and receives: {parts}{more}",
        stuck, (), first, False, f"{PAIRS}; if they are, {NETWORK}",
    )  # fmt: skip
