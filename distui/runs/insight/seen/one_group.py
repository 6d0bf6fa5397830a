"""Which groups of several ranks are one: of one name and the same members, which no rank has made again since. Pure.

`split_group` of torch 2.5 to 2.9 numbers what it makes by a count of each rank's own, so that all parts of a split have
one name, and so have the halves of a DeviceMesh where `init_process_group` was given a `device_id`. Since 2.10 the name
is a hash of the members (`_process_group_name` in torch's distributed_c10d.py). `new_group` numbers its groups, too,
but every rank calls it for every group. NCCL's recorder tells the members.

A program that destroys its groups and makes them again has the same names again, and counts their collectives from one:
programs that try their network first do so, and those that recover from a failure. A rank that has begun nothing in the
new group shows what it did in the old one. So its place there must not be held against that of the others.

Whether it is still in the old one follows from when it began what it shows there. How many groups of a name a process
has had tells less: a rank may have been started again, or its recorder may have dropped the oldest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from distui.frozen import frozen
from distui.plan.labels import named_ranks
from distui.runs.insight.seen.answers import Group
from distui.runs.insight.seen.ranks import RankSeen

Age = Literal["newest", "older", "unclear"]


NCCL = ":nccl"
"""Behind the name of a group: what it does over NCCL, which torch counts apart (`agent/ranks/hooked.py`)."""


def groups_apart(ranks: Sequence[RankSeen]) -> Sequence[RankSeen]:
    """The ranks with groups that are one under one name, and no others. Applied again, it changes nothing."""
    return by_members(newest_of_each(ranks))


def by_members(ranks: Sequence[RankSeen]) -> Sequence[RankSeen]:
    """The ranks with the members in the names of groups that have one name and different members: `1 of ranks 0-1`.

    What tells no members belongs to the group whose members have it among them. Where ranks contradict each other, as
    no groups of one name do that are there at a time, the name stays: see `contradict` in `hang/collectives.py`.
    """
    members: dict[str, set[tuple[int, ...]]] = {}
    for seen in ranks:
        for name, group in seen.groups.items():
            if group.ranks:
                members.setdefault(name, set()).add(group.ranks)
    parts = {name: found for name, found in members.items() if len(found) > 1 and _disjoint(found)}
    return [_named(seen, parts) for seen in ranks] if parts else ranks


def _disjoint(parts: set[tuple[int, ...]]) -> bool:
    return sum(map(len, parts)) == len({rank for part in parts for rank in part})


def _named(seen: RankSeen, parts: Mapping[str, set[tuple[int, ...]]]) -> RankSeen:
    process = seen.process
    if (
        process is None
        or process.groups is None
        or not parts.keys() & {*process.groups, *process.left, *process.unclear}
    ):
        return seen

    def named(groups: Mapping[str, Group]) -> dict[str, Group]:
        each = [replace(group, name=_whole(name, group, seen.rank, parts)) for name, group in groups.items()]
        return {group.name: group for group in each}

    groups, left, unclear = map(named, (process.groups, process.left, process.unclear))
    return replace(seen, process=replace(process, groups=groups, left=left, unclear=unclear))


def _whole(name: str, group: Group, rank: int, parts: Mapping[str, set[tuple[int, ...]]]) -> str:
    """The name of a rank's group, with its members where those are in it."""
    there = parts.get(name, set())
    own = group.ranks if group.ranks in there else next((part for part in there if rank in part), ())
    mark = NCCL if name.endswith(NCCL) else ""
    return f"{name.removesuffix(NCCL)} of {named_ranks(own)}{mark}" if own else name


def newest_of_each(ranks: Sequence[RankSeen]) -> Sequence[RankSeen]:
    """The ranks without the groups that others have made again since; those are in `left`, or in `unclear`."""
    names = sorted({name for seen in ranks for name, group in seen.groups.items() if group.before_ns or group.lost})
    ages = {name: _ages([seen for seen in ranks if name in seen.groups], name) for name in names}
    older = {rank for found in ages.values() for rank, age in found.items() if age != "newest"}
    return [_without_older(seen, ages) if seen.rank in older else seen for seen in ranks] if older else ranks


def _without_older(seen: RankSeen, ages: Mapping[str, Mapping[int, Age]]) -> RankSeen:
    process = seen.process
    if process is None or process.groups is None:
        return seen
    age = {name: ages[name].get(seen.rank, "newest") if name in ages else "newest" for name in process.groups}
    kept, left, unclear = (
        {name: group for name, group in process.groups.items() if age[name] == word}
        for word in ("newest", "older", "unclear")
    )
    return replace(seen, process=replace(process, groups=kept, left=left, unclear=unclear))


def _ages(inside: Sequence[RankSeen], name: str) -> dict[int, Age]:
    """Which group of a name each of these ranks is in."""
    groups = {seen.rank: seen.groups[name] for seen in inside if seen.groups[name].recent}
    there = [seen for seen in inside if seen.rank in groups]
    most = max((group.times for group in groups.values()), default=0)
    if not most:
        return _by_numbers(there, groups)
    ended = _moments((seen, groups[seen.rank].before_ns) for seen in there if groups[seen.rank].before_ns)
    begun = _moments((seen, _first(groups[seen.rank])) for seen in there if groups[seen.rank].times == most)
    return {seen.rank: _age(seen, groups[seen.rank], most, ended, begun) for seen in there}


def _age(seen: RankSeen, group: Group, most: int, ended: _Moments, begun: _Moments) -> Age:
    """Of one rank: who began what it shows before another was done with the older group is in that one itself. Who is
    known to have had fewer groups of the name, and has begun nothing since others began something in the newest, may be
    in it, or was started again.
    """
    if ended.has_later(seen, _first(group)):
        return "older"
    fewer = group.times < most and not group.lost
    return "unclear" if fewer and not begun.has_earlier(seen, _last(group)) else "newest"


def _by_numbers(there: Sequence[RankSeen], groups: Mapping[int, Group]) -> dict[int, Age]:
    """Where no rank shows more than one group of the name: who has done higher numbers earlier than all of those whose
    recorders have dropped something may be in an older one.
    """
    lost = [seen for seen in there if groups[seen.rank].lost]
    if not lost:
        return {}
    begun = _moments((seen, _first(groups[seen.rank])) for seen in lost)
    least = min(groups[seen.rank].recent[0].number for seen in lost)

    def is_unclear(seen: RankSeen) -> bool:
        group = groups[seen.rank]
        done = not group.lost and group.pending is None and group.recent[-1].number >= least
        return done and begun.all_later(seen, _last(group))

    return {seen.rank: "unclear" if is_unclear(seen) else "newest" for seen in there}


def _first(group: Group) -> int:
    return group.recent[0].began_ns


def _last(group: Group) -> int:
    return group.recent[-1].began_ns


@frozen
class _Moments:
    """Moments of several ranks, on our clock; of ranks of one host, which have one clock, nothing is in doubt."""

    hosts: Mapping[str, tuple[float, float, float]]
    """The first and the last of each host, and by how much its clock may be wrong."""
    first: float
    """Of all: not after."""
    last: float
    """Not before."""

    def has_later(self, seen: RankSeen, ns: int) -> bool:
        """Whether one of them is later than a rank's own, beyond doubt."""
        at = ns / 1e9 - seen.ahead
        return at + seen.doubt < self.last or (seen.host in self.hosts and at < self.hosts[seen.host][1])

    def has_earlier(self, seen: RankSeen, ns: int) -> bool:
        """Whether one of them is earlier."""
        at = ns / 1e9 - seen.ahead
        return at - seen.doubt > self.first or (seen.host in self.hosts and at > self.hosts[seen.host][0])

    def all_later(self, seen: RankSeen, ns: int) -> bool:
        """Whether all of them are later."""
        at = ns / 1e9 - seen.ahead
        doubts = {host: doubt + seen.doubt if host != seen.host else 0.0 for host, (_, _, doubt) in self.hosts.items()}
        return all(at + doubts[host] < first for host, (first, _, _) in self.hosts.items())


def _moments(each: Iterable[tuple[RankSeen, int]]) -> _Moments:
    hosts: dict[str, tuple[float, float, float]] = {}
    for seen, ns in each:
        at = ns / 1e9 - seen.ahead
        first, last, doubt = hosts.get(seen.host, (at, at, seen.doubt))
        hosts[seen.host] = min(first, at), max(last, at), max(doubt, seen.doubt)
    return _Moments(
        hosts,
        min((first + doubt for first, _, doubt in hosts.values()), default=math.inf),
        max((last - doubt for _, last, doubt in hosts.values()), default=-math.inf),
    )
