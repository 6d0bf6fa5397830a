"""Which ranks enter collectives late, step after step, on corrected clocks. Pure.

Steps take equally long on all ranks, since all wait for the last one: what tells is who enters last. Only collectives
count in which ranks really waited: nobody had begun the next one before all were in this one. What is compared is one
rank with the others' median, in the same place of each step; what is claimed is more than the clocks may be wrong,
more than a tenth of a step, and holds in nearly all of the steps.
"""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from distui.frozen import frozen
from distui.runs.insight.hang.collectives import contradict
from distui.runs.insight.seen.answers import Collective
from distui.runs.insight.seen.one_group import groups_apart
from distui.runs.insight.seen.ranks import RankSeen

STEPS = 60
"""The newest steps that are looked at."""
FEWEST = 10
"""Steps without which nothing is claimed."""
FEW, IN_FEW, IN_MANY = 20, 0.9, 0.7
"""In what share of the steps a rank must have been late: of up to so many, and of more."""
LEAST_S, LEAST_SHARE = 0.01, 0.1
"""What counts as late: seconds, and part of a step's length."""
DRIFT = 1e-4
"""Seconds by which two clocks may go apart in a second."""
PAUSE_S, PAUSE_STEPS = 1.0, 5.0
"""A single wait that is reported: seconds, and steps."""
WARM_UP = 5
"""The first collectives of a group, which tell nothing of the later ones."""

_ALL_WAIT = ("all", "_all", "reduce_scatter", "_reduce_scatter", "barrier")
"""Collectives that end on no rank before all have entered them: others only wait for their root."""


@frozen
class Late:
    """A rank that enters collectives late."""

    rank: int
    group: str
    about: str
    collective: Collective
    """The newest of those."""
    seconds: float
    """By how much later than the others, usually."""
    doubt: float
    """By how much that may be wrong, for the clocks."""
    every: float
    """How long a step takes."""
    late: int
    """In how many of the last steps."""
    steps: int


@frozen
class Pause:
    """That the others waited long for a rank which is not late as a rule: a checkpoint, a compile."""

    rank: int
    group: str
    about: str
    collective: Collective
    seconds: float
    """The longest."""
    times: int


@frozen
class Lateness:
    """How late ranks usually are, and what is claimed of it."""

    late: tuple[Late, ...] = ()
    """The ones that hold the others up, the latest first."""
    usual: Mapping[int, float] | None = None
    """Each rank's lateness in the place of the step where ranks are late most, in seconds; None where nobody knows."""
    pauses: tuple[Pause, ...] = ()
    every: float = 0.0
    """How long a step takes."""
    steps: int = 0
    doubt: float = 0.0
    """By how much the clocks of two hosts may be wrong."""
    uneven: float = 0.0
    """The share of steps that took long after every rank had entered: longer by a fifth of a second than is usual."""
    newest: float = 0.0
    """When the newest of these steps began: when its last rank entered it."""


@frozen
class _Round:
    """A collective that every rank entered, when each did, and when the first one went on to the next."""

    collective: Collective
    entered: Mapping[int, float]
    left: float
    late: Mapping[int, float]
    """By how much each rank was later than the others."""

    @property
    def early(self) -> float:
        """By how much the first one went on before the last one had entered."""
        return max(self.entered.values()) - self.left


UNEVEN_S = 0.15
"""TCP waits for a fifth of a second before it sends again what nobody has confirmed."""


def lateness(ranks: Sequence[RankSeen], *, since: float = 0.0) -> Lateness:
    """What the recorders of all ranks tell of who is late, in steps that began after a moment."""
    ranks = groups_apart(ranks)
    names = sorted({name for seen in ranks for name in seen.groups})
    each = [found for name in names if (found := _of_group(name, ranks, since)) is not None]
    if not each:
        return Lateness()
    late = _without_victims([one for found in each for one in found.late], each)
    claimed = {one.rank for one in late}
    worst = max(each, key=lambda found: (max((one.seconds for one in found.late), default=0.0), found.steps))
    pauses = _longest(one for found in each for one in found.pauses if one.rank not in claimed)
    return Lateness(late, worst.usual, pauses, worst.every, worst.steps, worst.doubt, worst.uneven, worst.newest)


def _without_victims(late: Sequence[Late], each: Sequence[Lateness]) -> tuple[Late, ...]:
    """Those who are not late only because they themselves wait, in another group, for one that is."""
    members = {one.group: set(found.usual or {}) for found in each for one in found.late}

    def is_victim(one: Late) -> bool:
        others = [other for other in late if other.group != one.group and other.rank != one.rank]
        return any(one.rank in members[other.group] and other.seconds >= one.seconds / 2 for other in others)

    kept = [one for one in late if not is_victim(one)] or late
    best = {one.rank: one for one in sorted(kept, key=lambda one: one.seconds)}
    return tuple(sorted(best.values(), key=lambda one: -one.seconds))


def _of_group(name: str, ranks: Sequence[RankSeen], since: float) -> Lateness | None:
    inside = [seen for seen in ranks if name in seen.groups]
    if len(inside) < 2 or any(seen.groups[name].mixed for seen in inside) or contradict(name, ranks):
        return None
    about = inside[0].groups[name].about
    rounds = [one for one in _rounds(name, inside) if max(one.entered.values()) > since]
    places: dict[tuple[object, ...], list[_Round]] = {}
    for before, one in pairwise(rounds):
        places.setdefault((*_kind(before.collective), *_kind(one.collective)), []).append(one)
    waited = [_waited(place, inside) for place in places.values() if place[0].collective.what.startswith(_ALL_WAIT)]
    resets = frozenset(number for place in places.values() for number in _resets(place))
    found = [_of_place(name, about, place, inside, resets) for place in waited if len(place) >= FEWEST]
    if not found:
        return None
    worst = max(found, key=lambda one: max((one.usual or {}).values(), default=0.0))
    late = [one for place in found for one in place.late]
    best = {one.rank: one for one in sorted(late, key=lambda one: one.seconds)}
    pauses = _longest(one for place in found for one in place.pauses)
    return Lateness(
        tuple(best.values()), worst.usual, pauses, worst.every, worst.steps, worst.doubt,
        max(place.uneven for place in found), worst.newest,
    )  # fmt: skip


def _rounds(name: str, inside: Sequence[RankSeen]) -> Iterator[_Round]:
    """Collectives that all ranks have entered, in their order, on our clock."""
    entered: dict[int, dict[int, float]] = {}
    collectives: dict[int, Collective] = {}
    for seen in inside:
        for one in seen.groups[name].recent:
            if one.number > WARM_UP:
                entered.setdefault(one.number, {})[seen.rank] = one.began_ns / 1e9 - seen.ahead
                collectives[one.number] = one
    whole = [number for number in sorted(entered) if len(entered[number]) == len(inside)]
    for number, following in pairwise(whole):
        if following == number + 1:
            left = min(entered[following].values())
            yield _Round(collectives[number], entered[number], left, _lags(entered[number]))


def _lags(entered: Mapping[int, float]) -> dict[int, float]:
    """How much later than the median of all others each rank entered: of what is sorted once, without itself."""
    order = sorted(entered.values())
    others = len(order) - 1
    middle = {(others - 1) // 2, others // 2}

    def lag(own: float) -> float:
        place = bisect_left(order, own)
        found = [order[at + (at >= place)] for at in middle]
        return own - sum(found) / len(found)

    return {rank: lag(own) for rank, own in entered.items()}


def _kind(one: Collective) -> tuple[str, str, str]:
    return one.name, one.sizes, one.kinds


def _waited(place: Sequence[_Round], inside: Sequence[RankSeen]) -> list[_Round]:
    """The rounds in which ranks really waited for the last one, as far as the clocks can tell."""
    wrong = _doubt(inside)
    return [one for one in place if one.early <= wrong]


def _resets(place: Sequence[_Round]) -> Iterator[int]:
    """Collectives at which a host's clock was set: in the same place of the step before ranks went on, by the clocks as
    they are now, long before all had entered.
    """
    return (one.collective.number for before, one in pairwise(place) if before.early >= PAUSE_S)


def _doubt(inside: Sequence[RankSeen]) -> float:
    """By how much the clocks of two ranks may be wrong against each other: those of one host are the same."""
    by_host = {seen.host: seen.doubt for seen in inside}
    return sum(sorted(by_host.values())[-2:]) if len(by_host) > 1 else 0.0


def _of_place(
    name: str, about: str, known: Sequence[_Round], inside: Sequence[RankSeen], resets: frozenset[int]
) -> Lateness:
    """Who is late in one place of the steps, in the newest of them; pauses are reported of all."""
    place = known[-STEPS:]
    moments = [statistics.median(one.entered.values()) for one in place]
    every = statistics.median(later - earlier for earlier, later in pairwise(moments))
    doubt = _doubt(inside) + (DRIFT * (moments[-1] - moments[0]) if len({seen.host for seen in inside}) > 1 else 0.0)
    floor = max(LEAST_S, LEAST_SHARE * every)
    by_rank = {seen.rank: [one.late[seen.rank] for one in place] for seen in inside}
    usual = {rank: statistics.median(each) for rank, each in by_rank.items()}
    late = tuple(
        Late(rank, name, about, place[-1].collective, usual[rank], doubt, every, count, len(place))
        for rank, each in by_rank.items()
        if usual[rank] - doubt >= floor
        and (count := sum(one - doubt >= floor / 2 and one >= usual[rank] / 3 for one in each)) >= _enough(len(place))
    )
    after = [-one.early for one in place]
    long = statistics.median(after) + UNEVEN_S
    uneven = sum(one > long for one in after) / len(after)
    least = max(PAUSE_S, PAUSE_STEPS * every)
    sound = [one for one in known if one.collective.number not in resets]
    pauses = tuple(_pauses(name, about, sound, least + doubt))
    newest = max(place[-1].entered.values())
    return Lateness(late, usual, pauses, every, len(place), doubt, uneven, newest)


def _pauses(name: str, about: str, known: Sequence[_Round], least: float) -> Iterator[Pause]:
    """Each rank that the others have waited for so long at least."""
    for rank in known[0].entered if known else ():
        found = [(seconds, one.collective) for one in known if (seconds := one.late[rank]) >= least]
        if found:
            seconds, collective = max(found)
            yield Pause(rank, name, about, collective, seconds, len(found))


def _longest(pauses: Iterable[Pause]) -> tuple[Pause, ...]:
    """The longest of each rank: a step may have many collectives that wait for the same."""
    best = {one.rank: one for one in sorted(pauses, key=lambda one: one.seconds)}
    return tuple(sorted(best.values(), key=lambda one: -one.seconds))


def _enough(steps: int) -> float:
    return steps * (IN_FEW if steps <= FEW else IN_MANY)
