"""What the network between a run's hosts does: which link loses what is sent over it, which one is slow. Pure.

A host tells of its connections by addresses; whose an address is follows from whose own end it is of some connection.

How fast a link is shows only while there is something to send, and only beside others that carry as much: a link is
called slow where it takes several times as long for its bytes as another one, and each of them comes later, too. That
alone may be a peer that confirms late: so the kernel must have measured the same.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from distui.frozen import frozen
from distui.runs.insight.seen.watched import Watched

LEAST_AGAIN, LEAST_SHARE = 4, 0.01
"""From so many segments that were sent again, and from such a share of them, a link counts as one that loses."""
BUSY_SHARE, SLOW_BYTES = 0.3, 500_000
"""A slow link has had something to send in so much of the time, and has sent so much at least."""
SLOWER, LONGER, LONGER_MS, LIKE = 4.0, 3.0, 2.0, 0.25
"""From so many times as slow as the fastest other link on, with a round trip that is so many times as long, and so many
ms, it is slow; only links count that have sent such a share of its bytes.
"""
MOST = 16
"""Links that are reported."""


@frozen
class Link:
    """What one host sent to another while both were watched."""

    source: str
    target: str
    """The other host; its address where no host of the run has it."""
    sent: float
    """Bytes a second."""
    segments: int
    again: int
    """Of them sent again, since they were lost."""
    trip_ms: float
    queued: int
    """Bytes that waited to be sent or confirmed, at the end."""
    busy: float = 0.0
    """The share of the time in which it had something to send; 0 where nobody knows."""

    delivery: float = 0.0
    """Bytes a second, as the kernel of the source measured last how fast they get there; 0 likewise."""

    @property
    def rate(self) -> float:
        """Bytes a second while it had something to send; 0 where nobody knows."""
        return self.sent / self.busy if self.busy else 0.0

    @property
    def share(self) -> float:
        """The part that was sent again."""
        return self.again / self.segments if self.segments else 0.0

    @property
    def words(self) -> str:
        """What it does, in one line."""
        figures = f"{self.sent / 1e6:.3g} MB/s, round trip {self.trip_ms:.3g} ms"
        lost = f", {self.again} of {self.segments} segments sent again ({self.share:.1%})"
        busy = f", sending {self.busy:.0%} of the time" if self.busy >= BUSY_SHARE else ""
        return f"{self.source} -> {self.target}: {figures}{busy}{lost if self.again else ''}"


def links(watched: Mapping[str, Watched]) -> tuple[Link, ...]:
    """Every link between two hosts of the run, those that lose the most first."""
    owners = {_place(one.own): host for host, found in watched.items() for one in found.connections}
    found = []
    for host, seen in watched.items():
        peers: dict[str, list[int]] = {}
        for at, one in enumerate(seen.connections):
            if (peer := owners.get(_place(one.peer), "")) not in ("", host):
                peers.setdefault(peer, []).append(at)
        for peer, places in peers.items():
            those = [seen.connections[at] for at in places]
            sent = sum(one.sent for one in those) / seen.seconds if seen.seconds else 0.0
            segments, again = sum(one.segments for one in those), sum(one.again for one in those)
            trip, queued = statistics.median(one.trip_ms for one in those), sum(one.queued for one in those)
            longest = max(one.busy_ms for one in those) / 1000
            busy = min(1.0, longest / seen.seconds) if seen.seconds else 0.0
            found.append(Link(host, peer, sent, segments, again, trip, queued, busy, max(one.rate for one in those)))
    return tuple(sorted(found, key=lambda one: (-one.share, -one.busy, one.source, one.target))[:MOST])


def losing(found: Sequence[Link]) -> tuple[Link, ...]:
    """The links that lose what is sent over them, the worst first."""
    return tuple(one for one in found if one.again >= LEAST_AGAIN and one.share >= LEAST_SHARE)


def slow_ones(found: Sequence[Link], seconds: float) -> tuple[tuple[Link, Link], ...]:
    """The links that are much slower than another one that carries as much, each with that one, the slowest first.

    `seconds` is how long they were watched. Of two hosts there is nothing to compare: both ways are one cable.
    """
    pairs = [(one, other) for one in found for other in found if _is_slower(one, other, seconds)]
    fastest = {one: max((o for slow, o in pairs if slow == one), key=lambda link: link.rate) for one, _ in pairs}
    return tuple(sorted(fastest.items(), key=lambda pair: (pair[0].rate, pair[0].source, pair[0].target)))


def _is_slower(one: Link, other: Link, seconds: float) -> bool:
    """Whether `one` is slow beside `other`, which joins other hosts and does not lack data either."""
    apart = {one.source, one.target} != {other.source, other.target}
    much = one.busy >= BUSY_SHARE and one.sent * seconds >= SLOW_BYTES and other.sent >= LIKE * one.sent
    slower = one.rate * SLOWER <= other.rate and 0 < one.delivery * SLOWER <= other.delivery
    return apart and much and slower and one.trip_ms >= max(LONGER * other.trip_ms, other.trip_ms + LONGER_MS)


def _place(address: str) -> str:
    return address.rpartition(":")[0]
