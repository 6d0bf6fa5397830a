"""The communicators of a run as NCCL's RAS counts them: what all its hosts answered, taken together. Pure.

One answer is of all ranks that RAS reaches from where it was asked; several make up for what one of them lacks. The
port may be another job's: a communicator is the run's when one of its processes is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from distui.frozen import frozen
from distui.runs.insight.hang.collectives import STANDING_S
from distui.runs.insight.hang.ras.report import Communicator, RasProcess, RasReport, read_report
from distui.runs.insight.seen.answers import HostAnswer
from distui.runs.insight.seen.ranks import RankSeen

NCCL_NAMED = "nccl:"
"""How torch's recorder begins the names of collectives over NCCL."""

Key = tuple[str, str, int]


@frozen
class Counted:
    """A communicator, and since when its counts are what they are."""

    one: Communicator
    version: str
    """NCCL's."""
    ranks: Mapping[int, int]
    """Its ranks -> those of the run, where known."""
    since: float
    at: float
    """When it was looked at last. Both on our clock."""
    goes_on: bool
    """Whether its counts grew while it was looked at."""

    @property
    def stood(self) -> float:
        """For how many seconds it is known to stand still."""
        return self.at - self.since


def counted(
    seen: Sequence[RankSeen], answers: Mapping[str, HostAnswer], before: Sequence[Counted] = ()
) -> tuple[Counted, ...]:
    """The run's communicators; `before` are those of an earlier look, since when they may not have gone on."""
    places = _Places(seen, answers)
    found: dict[Key, Counted] = {}
    for key, now in _sampled(answers):
        if not places.is_ours(now.one):
            continue
        found[key] = _together(found[key], now) if key in found else now
    earlier = {_key(one.one): one for one in before}
    known = (replace(_since(one, earlier.get(key)), ranks=places.ranks(one.one)) for key, one in found.items())
    return tuple(sorted(known, key=lambda one: (one.since, one.one.name)))


def _key(one: Communicator) -> Key:
    return one.name, one.more, one.size


def _sampled(answers: Mapping[str, HostAnswer]) -> Iterator[tuple[Key, Counted]]:
    """What each RAS that was asked says of each communicator."""
    for _, answer in sorted(answers.items()):
        for network in answer.networks:
            for texts in network.ras:
                reports = [(at - answer.ahead, report) for at, text in texts if (report := read_report(text))]
                yield from _of_one(reports)


def _of_one(reports: Sequence[tuple[float, RasReport]]) -> Iterator[tuple[Key, Counted]]:
    """The communicators of a RAS that was asked once or twice."""
    if not reports:
        return
    (first_at, first), (at, last) = reports[0], reports[-1]
    counts = {_key(one): one.launched for one in first.communicators}
    for one in last.communicators:
        still = counts.get(_key(one)) == one.launched
        since = first_at if still else at
        yield _key(one), Counted(one, last.version, {}, since, at, goes_on=_key(one) in counts and not still)


def _together(one: Counted, other: Counted) -> Counted:
    """What two say of a communicator. Of ranks that one of them does not reach, the other one's word counts."""
    a, b = one.one, other.one
    launched = {name: {**b.launched.get(name, {}), **a.launched.get(name, {})} for name in {**a.launched, **b.launched}}
    there = {rank for counts in launched.values() for rank in counts}
    absent = {rank: why for rank, why in {**b.absent, **a.absent}.items() if rank not in there}
    both = replace(
        a, launched=launched, processes={**b.processes, **a.processes}, absent=absent, failed={**b.failed, **a.failed}
    )
    goes_on = one.goes_on or other.goes_on
    return replace(one, one=both, since=max(one.since, other.since), at=max(one.at, other.at), goes_on=goes_on)


def _since(now: Counted, before: Counted | None) -> Counted:
    """Counts only grow: those of an earlier look that are the same have been so ever since."""
    if before is None or now.goes_on or before.one.launched != now.one.launched:
        return now
    return replace(now, since=min(before.since, now.since))


class _Places:
    """Which process is which rank, by its host's addresses and its own number."""

    def __init__(self, seen: Sequence[RankSeen], answers: Mapping[str, HostAnswer]) -> None:
        own = {(one.host, one.process.pid): one.rank for one in seen if one.process is not None}
        self._size = len(seen)
        self._networks: dict[str, list[dict[int, set[int | None]]]] = {}
        for host, answer in answers.items():
            for network in answer.networks:
                numbers: dict[int, set[int | None]] = {}
                for process in (one for task in network.tasks for one in answer.tasks.get(task, ())):
                    numbers.setdefault(process.inner, set()).add(own.get((host, process.pid)))
                for address in network.addresses:
                    self._networks.setdefault(address, []).append(numbers)

    def _of(self, process: RasProcess) -> set[int | None]:
        """Whose it may be; None for a process of the run of which no rank is known. Empty: a stranger's."""
        found = [numbers.get(process.pid, set()) for numbers in self._networks.get(process.host, ())]
        return {rank for each in found for rank in each}

    def is_ours(self, one: Communicator) -> bool:
        """Whether it is the run's: no larger than that with one of its processes, or of its processes alone."""
        known = [bool(self._of(process)) for process in one.processes.values()]
        return any(known) and (one.size <= self._size or all(known))

    def ranks(self, one: Communicator) -> dict[int, int]:
        """Its ranks as those of the run: one of all ranks numbers them as the run does, unless processes differ."""
        surest = {rank: next(iter(own)) for rank, p in one.processes.items() if len(own := self._of(p)) == 1}
        often = Counter(surest.values())
        known = {rank: own for rank, own in surest.items() if own is not None and often[own] == 1}
        if one.size == self._size and all(own == rank for rank, own in known.items()):
            return {rank: rank for rank in range(one.size)}
        return known


def torch_tells(seen: Sequence[RankSeen]) -> bool:
    """Whether torch's own recorder tells of collectives over NCCL, and for how long they stand."""
    groups = [group for one in seen for group in one.groups.values()]
    return any(one.name.startswith(NCCL_NAMED) for group in groups for one in group.recent)


def to_be_sure(known: Sequence[Counted]) -> float:
    """Seconds after which another look tells whether what seems to stand still does; 0 where nothing seems to."""
    left = [STANDING_S - one.stood for one in known if not one.goes_on and one.stood < STANDING_S and _uneven(one.one)]
    return max(left, default=0.0)


def _uneven(one: Communicator) -> bool:
    return bool(one.absent) or any(len(set(counts.values())) > 1 for counts in one.launched.values())
