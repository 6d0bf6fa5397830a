"""What the hosts tell beside, where something stands still: connections through which nothing gets, GPUs that wait or
compute, work that waits for CPU, disk or memory. Evidence, and where to look; nobody is blamed for it. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from distui.amounts import counted, size_words
from distui.facts.values import number
from distui.frozen import frozen
from distui.plan.labels import named_ranks
from distui.runs.insight.hang.alone import NETWORK
from distui.runs.insight.seen.answers import HostAnswer, Socket
from distui.runs.insight.seen.pressure import pressed
from distui.runs.insight.seen.ranks import RankSeen
from distui.runs.insight.seen.sick import cells_of
from distui.runs.lines.explanation import STANDS, Explanation

MOST_LINES = 4
"""Of connections, and of hosts whose work waits."""
IN_VAIN = 2
"""From so many times on that something was sent again without any answer, it is said that it does not get through."""
LEAST_AGAIN, LEAST_SHARE = 4, 0.01
"""From so many segments that were sent again, and from such a share of them, it is said how many."""
BUSY, REST, LOW_POWER = 90.0, 5.0, 0.4
"""Percent of the time in which a GPU runs a kernel, from which on it is busy, and up to which it is idle; and the part
of its power limit below which a kernel computes little: NCCL's spin while they wait for others.
"""

ONE_HOST = "look at what the GPUs of {host} were given before, and at the links between them: all ranks are there"
"""Advice where no network of hosts is between the ranks, and they have GPUs."""


def with_hosts(
    found: Explanation,
    ranks: Sequence[RankSeen],
    answers: Mapping[str, HostAnswer],
    gpus: Mapping[int, Sequence[int]],
) -> Explanation:
    """What was found of something that stands still, with what all hosts tell beside it."""
    if found.kind not in STANDS:
        return found
    stuck = tuple(_stuck(ranks, answers))
    lines = [*_connections(stuck), *_gpus(cells_of(ranks, answers, gpus)), *_pressure(answers)]
    lost = next((one for one in stuck if one.lost and one.other not in ("", one.host)), None)
    if found.advice == NETWORK and lost is not None:
        between = " and ".join(sorted((lost.host, lost.other)))
        advice = f"look at the network between {between}: what {lost.host} sends is not answered"
        found = replace(found, advice=advice)
    elif len(hosts := {seen.host for seen in ranks}) == 1:
        advice = ONE_HOST.format(host=min(hosts)) if any(gpus.values()) else f"look at what ranks do on {min(hosts)}"
        found = replace(found, advice=found.advice.replace(NETWORK, advice))
    return replace(found, evidence=(*found.evidence, *lines))


# connections


@frozen
class _Stuck:
    """A connection in which something waits."""

    socket: Socket
    host: str
    rank: int | None
    other: str
    """The host at the other end; empty where nobody knows."""
    other_rank: int | None

    @property
    def lost(self) -> bool:
        """Whether what is sent does not get through."""
        return self.socket.tries >= IN_VAIN

    @property
    def words(self) -> str:
        """`rank 0 on h1: 64 KB for rank 2 on h2 wait to be sent, sent again 6 times without an answer`."""
        one = self.socket
        whom = _end(self.other, self.other_rank) if self.other else one.peer
        why = ", for which nobody makes room there" if one.full else ""
        if self.lost:
            why = f", {'asked for room' if one.full else 'sent again'} {one.tries} times without an answer"
        return f"{_end(self.host, self.rank)}: {size_words(one.queued)} for {whom} wait to be sent{why}{_again(one)}"


def _end(host: str, rank: int | None) -> str:
    return host if rank is None else f"rank {rank} on {host}"


def _again(one: Socket) -> str:
    """What was lost on the way since it was opened, where that is much."""
    if not one.segments or one.again is None or one.again < LEAST_AGAIN or one.again / one.segments < LEAST_SHARE:
        return ""
    return f"; {one.again} of {one.segments} segments were sent again so far"


def _stuck(ranks: Sequence[RankSeen], answers: Mapping[str, HostAnswer]) -> Iterator[_Stuck]:
    """Those in which something waits that does not move, the worst first."""
    whose = {
        (seen.host, process.pid): seen.rank
        for seen in ranks
        for process in ((seen.process, *seen.helpers) if seen.process is not None else ())
    }
    ends = {(one.own, one.peer): (host, one) for host, answer in answers.items() for one in answer.connections}
    places = _places(answers)
    found = []
    for host, answer in answers.items():
        for one in answer.connections:
            other, end = ends.get((one.peer, one.own), (places.get(_place(one.peer), ""), None))
            rank = whose.get((host, one.pid))
            if _waits(one) and (rank is not None or (other and other != host)):
                other_rank = whose.get((other, end.pid)) if end is not None else None
                found.append(_Stuck(one, host, rank, other, other_rank))
    yield from sorted(found, key=lambda one: (-one.socket.tries, -one.socket.queued, one.host))


def _waits(one: Socket) -> bool:
    """Whether what waits in a connection does not get on: in a busy one there is always something."""
    return min(one.before, one.queued) > 0 and (one.full or one.tries >= IN_VAIN)


def _places(answers: Mapping[str, HostAnswer]) -> dict[str, str]:
    """Whose own an address is, of those that only one host has."""
    found: dict[str, str] = {}
    for host, answer in answers.items():
        for place in {_place(one.own) for one in answer.connections}:
            found[place] = host if place not in found else ""
    return found


def _place(address: str) -> str:
    return address.rpartition(":")[0]


def _connections(stuck: Sequence[_Stuck]) -> Iterator[str]:
    yield from (one.words for one in stuck[:MOST_LINES])
    if len(stuck) > MOST_LINES:
        yield f"something waits in {counted(len(stuck) - MOST_LINES, 'more connection')}"


# GPUs


def _gpus(cells: Mapping[int, Sequence[Mapping[str, str]]]) -> Iterator[str]:
    """Whose GPUs wait, and whose compute or do nothing meanwhile; nothing where none of them is at work."""
    does: dict[str, list[int]] = {}
    watts: dict[str, list[float]] = {}
    for rank, gpus in sorted(cells.items()):
        kinds = {kind for gpu in gpus if (kind := _does(gpu))}
        if len(kinds) == 1:
            kind = kinds.pop()
            does.setdefault(kind, []).append(rank)
            watts.setdefault(kind, []).extend(power for gpu in gpus if (power := number(gpu.get("power.draw"))))
    if set(does) <= {IDLE}:
        return
    for kind, ranks in sorted(does.items(), key=lambda item: (len(item[1]), item[0])):
        why = ", as with NCCL's kernels that wait for others" if kind == WAITING else ""
        yield f"{named_ranks(ranks)}: GPU {kind} ({_watts(watts[kind])}){why}"


IDLE, WORKING, WAITING = "idle", "at work", "busy at low power"


def _does(gpu: Mapping[str, str]) -> str:
    """What a GPU does, by its load and its power; empty where that tells nothing."""
    load, power, limit = (number(gpu.get(name)) for name in ("utilization.gpu", "power.draw", "power.limit"))
    if load is None or power is None or not limit:
        return ""
    if load <= REST:
        return IDLE
    if load < BUSY:
        return ""
    return WAITING if power < LOW_POWER * limit else WORKING


def _watts(powers: Sequence[float]) -> str:
    least, most = round(min(powers, default=0)), round(max(powers, default=0))
    return f"{least} W" if least == most else f"{least} to {most} W"


# the rest


def _pressure(answers: Mapping[str, HostAnswer]) -> Iterator[str]:
    lines = [line for host, answer in sorted(answers.items()) for line in pressed(host, answer.pressure)]
    yield from lines[:MOST_LINES]
