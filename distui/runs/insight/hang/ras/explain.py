"""Who holds the others up, as far as NCCL's own counts tell it. Pure.

RAS counts what each rank has launched in each communicator. In one that stands still, those that launched least hold up
the others, which have launched what they did not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, pairwise

from distui.frozen import frozen
from distui.plan.labels import named_ranks
from distui.runs.insight.hang.chains import Node, cycle_of
from distui.runs.insight.hang.collectives import SAME_ORDER, STANDING_S
from distui.runs.insight.hang.ras.communicators import Counted, torch_tells
from distui.runs.insight.hang.ras.report import DEAD, SILENT, Communicator
from distui.runs.insight.seen.doing import Doing, advice
from distui.runs.insight.seen.ranks import RankSeen
from distui.runs.lines.explanation import STANDS, Explanation, RankPlace

MOST_HOSTS, MOST_LINES = 4, 8
"""Hosts or processes that are named at once; lines of evidence."""

Counts = tuple[int, ...]


@frozen
class Lag:
    """Ranks of a communicator that have not launched what others have."""

    known: Counted
    operation: str
    number: int
    """Of the first one that they have not launched."""
    behind: tuple[int, ...]
    waiting: tuple[int, ...]

    @property
    def what(self) -> str:
        """Such as `AllReduce #31`."""
        return f"{self.operation} #{self.number}"


def with_ras(
    found: Explanation, ranks: Sequence[RankSeen], acts: Mapping[int, Doing], known: Sequence[Counted]
) -> Explanation:
    """What was found without RAS, with its evidence; where torch does not tell of NCCL, what RAS tells in its place."""
    if not known:
        return found
    hosts = {seen.rank: seen.host for seen in ranks}
    by_itself = _by_ras(ranks, acts, known) if found.kind not in STANDS and not torch_tells(ranks) else None
    found = by_itself or found
    lines = (line for one in known for line in _evidence(one, hosts, counts=found.kind != "moving"))
    return replace(found, evidence=(*found.evidence, *islice(lines, MOST_LINES)))


def _by_ras(ranks: Sequence[RankSeen], acts: Mapping[int, Doing], known: Sequence[Counted]) -> Explanation | None:
    stands = [one for one in known if one.stood >= STANDING_S]
    for one in stands:
        if (differ := _different(one.one)) is not None:
            return _mismatch(ranks, acts, one, differ)
    lags = [lag for one in stands if (lag := _lag(one)) is not None]
    if lags:
        return _held_up(ranks, acts, lags, stands)
    lost = next((one for one in stands if _lost(one.one)), None)
    return _gone(ranks, acts, lost) if lost is not None else None


def _lost(one: Communicator) -> tuple[int, ...]:
    return tuple(sorted(rank for rank, why in one.absent.items() if why in (DEAD, SILENT)))


# who launched less


def _vectors(one: Communicator) -> tuple[list[str], dict[Counts, list[int]]]:
    """The operations in which ranks differ; what each rank has launched of them, the least first."""
    names = sorted(name for name, counts in one.launched.items() if len(set(counts.values())) > 1)
    ranks: dict[Counts, list[int]] = {}
    for rank in sorted({rank for name in names for rank in one.launched[name]}):
        if all(rank in one.launched[name] for name in names):
            ranks.setdefault(tuple(one.launched[name][rank] for name in names), []).append(rank)
    return names, dict(sorted(ranks.items(), key=lambda item: (sum(item[0]), item[0])))


def _different(one: Communicator) -> tuple[list[str], dict[Counts, list[int]]] | None:
    """Ranks of which each has launched something that the other one has not: they did not do the same."""
    names, ranks = _vectors(one)
    ordered = all(a <= b for row, after in pairwise(ranks) for a, b in zip(row, after, strict=True))
    return None if ordered else (names, ranks)


def _lag(known: Counted) -> Lag | None:
    names, ranks = _vectors(known.one)
    if len(ranks) < 2:
        return None
    (least, behind), (more, _), *_ = ranks.items()
    at = next(at for at, (a, b) in enumerate(zip(least, more, strict=True)) if a < b)
    waiting = tuple(sorted(rank for counts, those in ranks.items() if counts != least for rank in those))
    return Lag(known, names[at], least[at] + 1, tuple(behind), waiting)


def _held_up(
    ranks: Sequence[RankSeen], acts: Mapping[int, Doing], lags: Sequence[Lag], stands: Sequence[Counted]
) -> Explanation:
    """The ranks that hold up others and wait for nobody; where all of them wait, for each other."""
    waiting = {_id(lag.known, rank) for lag in lags for rank in lag.waiting}
    first = next((lag for lag in lags if any(_id(lag.known, rank) not in waiting for rank in lag.behind)), None)
    if first is None:
        return _deadlock(ranks, acts, lags)
    those = [rank for rank in first.behind if _id(first.known, rank) not in waiting]
    culprits = _own(first.known, those)
    verb = "has" if len(those) == 1 else "have"
    wait = "waits" if len(first.waiting) == 1 else "wait"
    does = f": it {acts[culprits[0]].text}" if len(those) == len(culprits) == 1 and acts[culprits[0]].seen else ""
    what = f"{first.what} in {_words(first.known, len(ranks))}"
    return Explanation(
        kind="hang",
        headline=f"{_who(first.known, those)} {verb} not launched {what}, for which {_who(first.known, first.waiting)} "
        f"{wait}{does}",
        certainty="certain" if _is_whole(first) and not _may_wait(first, culprits, stands) else "likely",
        ranks=_places(ranks, acts, first, set(culprits)),
        advice=advice(acts[culprits[0]], stall=False) if culprits else "",
        since=first.known.since,
        collective=what,
    )


def _is_whole(lag: Lag) -> bool:
    """Whether every rank of the communicator is counted, and known as one of the run."""
    one = lag.known.one
    return len(lag.behind) + len(lag.waiting) == one.size and all(r in lag.known.ranks for r in range(one.size))


def _may_wait(lag: Lag, culprits: Sequence[int], stands: Sequence[Counted]) -> bool:
    """Whether one of them is in another communicator that stands still: it may wait there in what all have launched."""
    return any(set(culprits) & set(one.ranks.values()) for one in stands if one is not lag.known)


def _deadlock(ranks: Sequence[RankSeen], acts: Mapping[int, Doing], lags: Sequence[Lag]) -> Explanation:
    lags = _in_cycle(lags)
    parts = [
        f"{_who(lag.known, lag.waiting)} in {lag.what} of communicator {lag.known.one.name} for "
        f"{_who(lag.known, lag.behind)}"
        for lag in lags
    ]
    culprits = {own for lag in lags for own in _own(lag.known, lag.behind)}
    return Explanation(
        kind="deadlock",
        headline="ranks wait for each other in different communicators of NCCL: " + "; ".join(parts),
        certainty="likely",
        ranks=_places(ranks, acts, lags[0], culprits),
        advice="call the collectives of these communicators in the same order on every rank",
        since=min(lag.known.since for lag in lags),
        collective=f"{lags[0].what} in {_words(lags[0].known, len(ranks))}",
    )


def _in_cycle(lags: Sequence[Lag]) -> list[Lag]:
    """Of all that wait, those that wait for each other."""
    numbers: dict[object, int] = {}
    graph: dict[Node, list[Node]] = {}
    for at, lag in enumerate(lags):
        graph[("in", at)] = [_node(lag, rank, numbers) for rank in lag.behind]
        for rank in lag.waiting:
            graph.setdefault(_node(lag, rank, numbers), []).append(("in", at))
    those = {("rank", number) for number in cycle_of(graph)}
    parts = (
        replace(
            lag,
            behind=tuple(rank for rank in lag.behind if _node(lag, rank, numbers) in those),
            waiting=tuple(rank for rank in lag.waiting if _node(lag, rank, numbers) in those),
        )
        for lag in lags
    )
    return [lag for lag in parts if lag.behind and lag.waiting]


def _node(lag: Lag, rank: int, numbers: dict[object, int]) -> Node:
    return "rank", numbers.setdefault(_id(lag.known, rank), len(numbers))


def _mismatch(
    ranks: Sequence[RankSeen],
    acts: Mapping[int, Doing],
    known: Counted,
    differ: tuple[list[str], dict[Counts, list[int]]],
) -> Explanation:
    names, launched = differ
    rows = sorted(launched.items(), key=lambda item: len(item[1]))
    parts = [
        f"{_who(known, those)} launched {' and '.join(f'{n} {name}' for n, name in zip(row, names, strict=True))}"
        for row, those in rows
    ]
    where = _words(known, len(ranks))
    return Explanation(
        kind="mismatch",
        headline=f"ranks launched different collectives in {where}: {', '.join(parts)}",
        certainty="certain",
        ranks=_places(ranks, acts, None, set(_own(known, rows[0][1]))),
        advice=SAME_ORDER,
        since=known.since,
        collective=where,
    )


def _gone(ranks: Sequence[RankSeen], acts: Mapping[int, Doing], known: Counted) -> Explanation:
    """Nobody launches anything any more, and RAS does not reach all."""
    those, where = _lost(known.one), _words(known, len(ranks))
    verb = known.one.absent[those[0]] if len(those) == 1 else "can't be reached"
    return Explanation(
        kind="hang",
        headline=f"{_who(known, those)} {verb}, says NCCL's RAS, and nothing more is launched in {where}",
        certainty="likely",
        ranks=_places(ranks, acts, None, set(_own(known, those))),
        advice="look at that process and at the network between the hosts: `distui doctor` proves who reaches whom",
        since=known.since,
        collective=where,
    )


# words


def _id(known: Counted, rank: int) -> object:
    """A rank in whichever communicator it is met."""
    return known.ranks.get(rank, (known.one.name, known.one.more, rank))


def _own(known: Counted, ranks: Sequence[int]) -> list[int]:
    """Ranks of a communicator as those of the run, where known."""
    return sorted(known.ranks[rank] for rank in ranks if rank in known.ranks)


def _who(known: Counted, ranks: Sequence[int]) -> str:
    """Ranks of a communicator in words: those of the run by their number, others by their process."""
    own, rest = _own(known, ranks), [rank for rank in ranks if rank not in known.ranks]
    parts = [named_ranks(own)] if own else []
    for rank in rest[:MOST_HOSTS]:
        process = known.one.processes.get(rank)
        parts.append(f"process {process.pid} on {process.host}" if process is not None else f"its rank {rank}")
    if len(rest) > MOST_HOSTS:
        parts.append(f"{len(rest) - MOST_HOSTS} more")
    return " and ".join(parts)


def _words(known: Counted, size: int) -> str:
    """A communicator as people know it."""
    if known.one.size == size:
        return "NCCL's communicator of all ranks"
    of = f" of {known.one.size} ranks" if known.one.size else ""
    return f"NCCL's communicator {known.one.name}{of}"


def _evidence(known: Counted, hosts: Mapping[int, str], *, counts: bool) -> Iterator[str]:
    """What RAS says of a communicator, where that is not the same of all its ranks."""
    head = f"NCCL's RAS ({known.version}), communicator {known.one.name}: "
    if counts:
        yield from (head + line for line in _counts(known, hosts))
    for why in dict.fromkeys(known.one.absent.values()):
        those = [rank for rank, found in known.one.absent.items() if found == why]
        yield f"{head}{_who(known, those)}{_on(known, those, hosts)} {why}"
    for words in dict.fromkeys(known.one.failed.values()):
        those = [rank for rank, found in known.one.failed.items() if found == words]
        yield f"{head}{_who(known, those)}{_on(known, those, hosts)} reports `{words}`"


def _counts(known: Counted, hosts: Mapping[int, str]) -> Iterator[str]:
    for name, counts in sorted(known.one.launched.items()):
        rows: dict[int, list[int]] = {}
        for rank, count in sorted(counts.items()):
            rows.setdefault(count, []).append(rank)
        if len(rows) > 1:
            parts = [
                f"{count} by {_who(known, those)}{_on(known, those, hosts)}" for count, those in sorted(rows.items())
            ]
            yield f"{name} launched: {', '.join(parts)}"


def _on(known: Counted, ranks: Sequence[int], hosts: Mapping[int, str]) -> str:
    there = list(dict.fromkeys(hosts.get(own, "") for own in _own(known, ranks)))
    return f" on {', '.join(there)}" if 0 < len(there) <= MOST_HOSTS else ""


def _places(
    ranks: Sequence[RankSeen], acts: Mapping[int, Doing], lag: Lag | None, culprits: set[int]
) -> tuple[RankPlace, ...]:
    """Every rank, those that others wait for first."""
    own = {rank: one for one, rank in lag.known.ranks.items()} if lag is not None else {}
    places = [_place(seen, acts[seen.rank], lag, own.get(seen.rank), culprit=seen.rank in culprits) for seen in ranks]
    return tuple(sorted(places, key=lambda place: (not place.culprit, place.rank)))


def _place(seen: RankSeen, act: Doing, lag: Lag | None, own: int | None, *, culprit: bool) -> RankPlace:
    if lag is None or own is None:
        return RankPlace(seen.rank, seen.host, act.text, culprit=culprit, within=seen.within)
    counts = lag.known.one.launched[lag.operation]
    count = counts.get(own)
    place = f"{lag.operation} #{count}" if count else ""
    behind = max(counts.values()) - count if count is not None else None
    does = f"waits in {lag.what}{act.at}" if own in lag.waiting and not culprit else act.text
    return RankPlace(seen.rank, seen.host, does, place, behind, culprit, within=seen.within)
