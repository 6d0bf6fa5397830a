"""Where ranks stand in the collectives of their process groups, and which of them do not go on. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import prod

from distui.frozen import frozen
from distui.plan.labels import named_ranks
from distui.regex import regex
from distui.runs.insight.seen.answers import Collective, Group
from distui.runs.insight.seen.one_group import NCCL, groups_apart
from distui.runs.insight.seen.ranks import RankSeen

STANDING_S = 5.0
"""Seconds after which a collective that is not over counts as one that stands still."""
SLOWER = 5.0
"""Or so many times as long as a step usually takes, where that is more."""
LONG_S = 1.0
"""Seconds, or a usual step where that is more, from which on it may become one that stands still."""

SAME_SIZE = ("all_reduce", "allreduce", "broadcast", "reduce", "all_gather", "allgather", "gather", "barrier")
"""Collectives whose input must be of one size on all ranks, and what begins like them; others may differ: in scatter
and all_to_all (`Op.match` in torch's flight_recorder/components/types.py).
"""

_SIZES = regex(r"\d{1,9}(x\d{1,9}){0,9}(,\d{1,9}(x\d{1,9}){0,9}){0,99}")
"""Of tensors: `10x3,5`."""

SAME_ORDER = "every rank must call the same collectives in the same order, with tensors of the same size and type"
"""What to do about ranks that don't."""


@frozen
class Standing:
    """A collective that some ranks have begun and that does not end."""

    group: str
    about: str
    collective: Collective
    waiting: tuple[int, ...]
    """Ranks that are in it."""
    missing: tuple[int, ...]
    """Ranks of the group that have not begun it."""
    unknown: tuple[int, ...]
    """Known ranks of the group of which nobody knows where they are."""
    since: float
    """When the first one began to wait, on our clock."""
    sure: bool = True
    """Whether all that have begun something under this name are known to be of one group: see `contradict`."""

    @property
    def words(self) -> str:
        """Which collective it is: `all_reduce #31 of 1000 floats`."""
        return collective_words(self.collective, self.group, self.about)


@frozen
class Mismatch:
    """Ranks that have begun different collectives under the same number of one group."""

    group: str
    about: str
    number: int
    kinds: Mapping[str, tuple[int, ...]]
    """What was begun, in words -> by which ranks; what most ranks began comes last."""

    @property
    def odd(self) -> tuple[int, ...]:
        """The ranks that did something else than most."""
        return odd_ones(tuple(self.kinds.values()))


def odd_ones(parts: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The ranks of all parts but the largest; of every part where none is the largest: then nobody knows who is odd."""
    most = max(map(len, parts), default=0)
    largest = [part for part in parts if len(part) == most]
    return tuple(rank for part in parts for rank in part if len(largest) > 1 or part is not largest[0])


def is_default(name: str, about: str) -> bool:
    """Whether it is the group of all ranks."""
    return about == "default_pg" or name.removesuffix(NCCL) in ("", "0")


def group_words(name: str, about: str) -> str:
    """A process group as people know it."""
    name = name.removesuffix(NCCL)
    if is_default(name, about):
        return "the default group" + "".join(name.partition(" of ")[1:])
    return f"group {name}" + (f" ({about})" if about and about != "undefined" else "")


def collective_words(one: Collective, group: str, about: str) -> str:
    """Which collective it is: `all_reduce #31 of 1000 Float in the default group`."""
    size = f" of {one.sizes} {one.kinds}".rstrip() if one.sizes else ""
    return f"{one.what} #{one.number}{size} in {group_words(group, about)}"


def standing(ranks: Sequence[RankSeen]) -> tuple[Standing, ...]:
    """Every collective that stands still, the oldest first."""
    found = [one for name in _names(ranks) if (one := _standing(name, ranks)) is not None]
    return tuple(sorted(found, key=lambda one: one.since))


def short_waits(ranks: Sequence[RankSeen]) -> tuple[Standing, ...]:
    """Collectives in which ranks have waited for a moment, too short to count as standing still: a group with long
    steps, beside one with short ones that waits for the same rank.
    """
    waits = [wait for name in _names(ranks) if (wait := _wait(name, ranks)) is not None]
    return tuple(wait.stand for wait in waits if not wait.stands and wait.waited >= LONG_S)


def may_stand_from(ranks: Sequence[RankSeen]) -> float | None:
    """When the first of the collectives that now take longer than usual will count as one that stands still, on our
    clock; None where none does.
    """
    ranks = groups_apart(ranks)
    waits = [wait for name in _names(ranks) if (wait := _wait(name, ranks)) is not None]
    return min((wait.stand.since + wait.least for wait in waits if wait.is_long), default=None)


def mismatches(ranks: Sequence[RankSeen], *, ended: bool = False) -> tuple[Mismatch, ...]:
    """The first number of each group under which ranks began different things, where one of them stands still.

    Of ranks that have `ended` it counts in any case.
    """
    least = 0.0 if ended else STANDING_S
    found = [one for name in _names(ranks) if (one := _mismatch(name, ranks, least)) is not None]
    return tuple(one for one in found if not contradict(one.group, ranks))


def _names(ranks: Sequence[RankSeen]) -> list[str]:
    """The groups whose collectives have the same numbers on all ranks."""
    mixed = {name for seen in ranks for name, group in seen.groups.items() if group.mixed}
    return sorted({name for seen in ranks for name in seen.groups} - mixed)


@frozen
class _Wait:
    """A collective that some ranks have begun and that is not over, whether it stands still or not."""

    stand: Standing
    waited: float
    """For how many seconds it has been waited in, beyond doubt."""
    least: float
    """From how many on it counts as one that stands still."""
    held: bool
    """Whether it can't go on by itself, however short that is."""

    @property
    def stands(self) -> bool:
        """Whether it counts as one that stands still."""
        return self.held or self.waited >= self.least

    @property
    def is_long(self) -> bool:
        """Whether it takes longer than usual, and does not count as one that stands still."""
        return not self.held and max(LONG_S, self.least / SLOWER) <= self.waited < self.least


def _standing(name: str, ranks: Sequence[RankSeen]) -> Standing | None:
    wait = _wait(name, ranks)
    return wait.stand if wait is not None and wait.stands else None


def _wait(name: str, ranks: Sequence[RankSeen]) -> _Wait | None:
    inside = {seen.rank: seen.groups[name] for seen in ranks if name in seen.groups}
    pending = {rank: group.pending for rank, group in inside.items() if group.pending is not None}
    if not pending:
        return None
    by_rank = {seen.rank: seen for seen in ranks}
    collective = min(pending.values(), key=lambda one: one.number)
    waiting = tuple(rank for rank, one in sorted(pending.items()) if one.number == collective.number)
    members = _members(name, inside, ranks)
    missing = tuple(r for r in members if r in inside and r not in pending and newest_of(inside[r]) < collective.number)
    absent = [r for r in members if r not in inside]
    in_vain = tuple(r for r in absent if by_rank[r].in_vain and not _may_be_elsewhere(r, name, ranks))
    absent = [r for r in absent if r not in in_vain]
    here = [r for r in absent if _is_seen(by_rank[r]) and not _may_be_in(by_rank[r], name, inside.values())]
    missing += tuple(r for r in here if not by_rank[r].in_vain)
    unknown = tuple(r for r in absent if r not in missing)
    waits = [_waited(by_rank[rank], pending[rank]) for rank in waiting]
    waited = max(waits) if missing or unknown else min(waits)  # the last to enter has all of them go on
    last, still = _went_on(inside, by_rank, collective.number)
    usual = max(STANDING_S, SLOWER * _usual(inside.values()))
    held = bool(in_vain) or any(by_rank[rank].stopped for rank in (*missing, *unknown))
    since = max(last, min(_moment(by_rank[rank], pending[rank]) for rank in waiting))
    about = next(iter(inside.values())).about
    waiting = tuple(sorted((*waiting, *in_vain)))
    sure = not contradict(name, ranks)
    stand = Standing(name, about, collective, waiting, tuple(sorted(missing)), unknown, since, sure)
    return _Wait(stand, min(waited, still) - _apart(inside, by_rank), usual, held)


def _may_be_elsewhere(rank: int, name: str, ranks: Sequence[RankSeen]) -> bool:
    """Whether a rank may be in another group, too, as far as torch tells: it may have waited there in vain."""
    base = name.removesuffix(NCCL)
    return any(
        other.removesuffix(NCCL) != base and (not group.ranks or rank in group.ranks)
        for seen in ranks
        for other, group in seen.groups.items()
    )


def _went_on(inside: Mapping[int, Group], by_rank: Mapping[int, RankSeen], number: int) -> tuple[float, float]:
    """When a rank last entered or ended a collective of the group before this one, on our clock; and seconds since, by
    that rank's own. Nobody waits in this one for longer: programs begin collectives of NCCL long before their turn.
    """
    moments = {rank: _newest(by_rank[rank], group, number) for rank, group in inside.items()}
    return max(moments.values()), min(by_rank[rank].at - moment for rank, moment in moments.items())


def _newest(seen: RankSeen, group: Group, number: int) -> float:
    """When a rank last entered or ended a collective before this one, on our clock. What lies in its future tells
    nothing: its host's clock was set back.
    """
    known = (group.ended_ns, *(one.began_ns for one in group.recent if one.number < number))
    return max((at for ns in known if (at := ns / 1e9 - seen.ahead) <= seen.at), default=-math.inf)


def _apart(ranks: Iterable[int], by_rank: Mapping[int, RankSeen]) -> float:
    """Seconds that may lie between the first and the last answer: what a rank does after its own is not known of it.

    No more than asking took; clocks that are further apart are wrong.
    """
    asked = [by_rank[rank] for rank in ranks]
    moments = [seen.at for seen in asked]
    return min(max(moments) - min(moments), max(seen.doubt for seen in asked))


def newest_of(group: Group) -> int:
    """The number of the newest collective of a rank: torch counts one a moment after it was recorded."""
    return max(group.enqueued, *(one.number for one in group.recent), 0)


def _is_seen(seen: RankSeen) -> bool:
    """Whether it is known that the rank has begun nothing in a group: by its recorder, or since it has ended."""
    return bool(seen.ended) or (seen.process is not None and seen.process.groups is not None)


def _may_be_in(seen: RankSeen, name: str, inside: Iterable[Group]) -> bool:
    """Whether a rank that shows nothing in a group may all the same have begun something in it; or, where its members
    are not known, have no part in it: it was in one that had this name before.
    """
    process = seen.process
    if process is None or name in process.unclear:
        return process is not None
    return name in process.left and not any(group.ranks or is_default(name, group.about) for group in inside)


def _members(name: str, inside: Mapping[int, Group], ranks: Sequence[RankSeen]) -> tuple[int, ...]:
    """The ranks of a group: as torch tells them; else those that have been in it, or in one of its name before."""
    said = {rank for group in inside.values() for rank in group.ranks} & {seen.rank for seen in ranks}
    before = {seen.rank for seen in ranks if seen.process and name in (*seen.process.left, *seen.process.unclear)}
    known = said | set(inside) | (before if not said else set())
    if any(group.about == "default_pg" for group in inside.values()) or name.removesuffix(NCCL) == "0":
        known = _of_default(known, ranks)
    return tuple(sorted(known))


def made_again(ranks: Sequence[RankSeen]) -> Iterator[str]:
    """Who has begun nothing in a group that others have made again, and where it was in the one before."""
    found: dict[tuple[str, str, str], list[int]] = {}
    for seen in ranks:
        process = seen.process
        for was, groups in (("was", process.left), ("may have been", process.unclear)) if process is not None else ():
            for name, group in groups.items():
                newest = group.recent[-1]
                place = f"{newest.what} #{newest.number}" + (" (it waits there)" if group.pending is not None else "")
                found.setdefault((group_words(name, group.about), was, place), []).append(seen.rank)
    for (where, was, place), those in sorted(found.items()):
        yield f"{where} was made again: {place} of {named_ranks(those)} {was} in the one before"


def _of_default(known: set[int], ranks: Sequence[RankSeen]) -> set[int]:
    """The ranks of the default group: those that torch tells, or that have a number in it, where these are all of it; a
    logger or an evaluator has none. Else every rank.
    """
    own = {seen.rank: seen.process for seen in ranks if seen.process is not None}
    world = max((process.world or 0 for process in own.values()), default=0)
    numbered = {rank for rank, process in own.items() if process.torch_rank is not None}
    whole = (those for those in (known, numbered) if 0 < world <= len(those))
    return next(whole, {seen.rank for seen in ranks})


def _moment(seen: RankSeen, one: Collective) -> float:
    """When a rank began a collective, on our clock."""
    return one.began_ns / 1e9 - seen.ahead


def _waited(seen: RankSeen, one: Collective) -> float:
    """For how long a rank has been in a collective, by the clock of its own host alone."""
    return seen.at - _moment(seen, one)


def _usual(groups: Iterable[Group]) -> float:
    """Seconds that a step of a group usually takes; 0 where there are too few collectives.

    A step may have many collectives at once and then none for long, so that its length is the longest time from one to
    the next; the very longest is left out, as the first step's or a checkpoint's.
    """
    each = [
        sorted((later.began_ns - earlier.began_ns) / 1e9 for earlier, later in pairwise(group.recent))
        for group in groups
    ]
    longest = [gaps[-2] for gaps in each if len(gaps) > 2]
    return statistics.median(longest) if longest else 0.0


def unlike(ranks: Sequence[RankSeen]) -> tuple[Mismatch, ...]:
    """The first number of each group under which ranks did the same with tensors of different types, and it went
    through: gloo looks at bytes only, so that what they get is no sum of anything.

    Only where it is known that all of them are in that group: gloo's names of others are each rank's own.
    """
    return tuple(one for name in _names(ranks) if (one := _unlike(name, ranks)) is not None)


def contradict(name: str, ranks: Sequence[RankSeen]) -> bool:
    """Whether what ranks answer of a group can't be all of one group: they name other members, or, where none are
    named, different collectives are over under one number.

    Of the default group there is but one.
    """
    groups = {seen.rank: seen.groups[name] for seen in ranks if name in seen.groups}
    if any(is_default(name, group.about) for group in groups.values()):
        return False
    if members := {group.ranks for group in groups.values() if group.ranks}:
        return len(members) > 1
    over = ({rank: one for rank, one in begun.items() if one.over} for begun in _rows(name, ranks).values())
    odd = (begun for begun in over if len({(one.name, one.sizes, one.kinds) for one in begun.values()}) > 1)
    return any(len(_kinds(begun)) > 1 for begun in odd)


def _unlike(name: str, ranks: Sequence[RankSeen]) -> Mismatch | None:
    about = _about(name, ranks)
    known = is_default(name, about) or all(seen.groups[name].ranks for seen in ranks if name in seen.groups)
    known = known and not contradict(name, ranks)
    for number, begun in sorted(_rows(name, ranks).items()) if known else ():
        alike = len({one.what for one in begun.values()}) == 1 and all(one.over and one.kinds for one in begun.values())
        if alike and len({one.kinds for one in begun.values()}) > 1 and len(kinds := _kinds(begun)) > 1:
            return Mismatch(name, about, number, kinds)
    return None


def _rows(name: str, ranks: Sequence[RankSeen]) -> dict[int, dict[int, Collective]]:
    """What ranks began under each number of a group."""
    rows: dict[int, dict[int, Collective]] = {}
    for seen in ranks:
        for one in seen.groups[name].recent if name in seen.groups else ():
            rows.setdefault(one.number, {})[seen.rank] = one
    return rows


def _about(name: str, ranks: Sequence[RankSeen]) -> str:
    return next((seen.groups[name].about for seen in ranks if name in seen.groups), "")


def _mismatch(name: str, ranks: Sequence[RankSeen], least: float) -> Mismatch | None:
    by_rank = {seen.rank: seen for seen in ranks}
    about = _about(name, ranks)
    for number, begun in sorted(_rows(name, ranks).items()):
        waits = [_waited(by_rank[rank], one) for rank, one in begun.items() if not one.over]
        if max(waits, default=0.0) >= least and len(kinds := _kinds(begun)) > 1:
            return Mismatch(name, about, number, kinds)
    return None


def _kinds(begun: Mapping[int, Collective]) -> dict[str, tuple[int, ...]]:
    """What ranks began under one number, as far as it must be the same."""
    alike: dict[tuple[str, str, str], list[int]] = {}  # ranks mostly do the same: it is looked at once
    for rank, one in sorted(begun.items()):
        alike.setdefault((one.name, one.sizes, one.kinds), []).append(rank)
    whats = {begun[those[0]].what for those in alike.values()}
    sized = len(whats) > 1 or any(what.strip("_").startswith(SAME_SIZE) for what in whats)
    found: dict[tuple[str, ...], list[int]] = {}
    words: dict[tuple[str, ...], str] = {}
    for those in alike.values():
        one = begun[those[0]]
        kind = (one.what, *((_elements(one.sizes), one.kinds) if sized else ()))
        words.setdefault(kind, f"{one.what} of {one.sizes or 'nothing'} {one.kinds}".rstrip() if sized else one.what)
        found.setdefault(kind, []).extend(those)
    return {words[kind]: tuple(sorted(there)) for kind, there in sorted(found.items(), key=lambda item: len(item[1]))}


def _elements(sizes: str) -> str:
    """How many elements each tensor has, by its sizes: of as many, the shape is no matter."""
    if not _SIZES.fullmatch(sizes):
        return sizes
    return ",".join(str(prod(map(int, one.split("x")))) for one in sizes.split(","))
