"""What the network between a run's hosts does: which link loses what is sent over it. Pure.

A host tells of its connections by addresses; whose an address is follows from whose own end it is of some connection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from distui.frozen import frozen
from distui.runs.insight.seen.watched import Watched

LEAST_AGAIN, LEAST_SHARE = 4, 0.01
"""From so many segments that were sent again, and from such a share of them, a link counts as one that loses."""
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

    @property
    def share(self) -> float:
        """The part that was sent again."""
        return self.again / self.segments if self.segments else 0.0

    @property
    def words(self) -> str:
        """What it does, in one line."""
        figures = f"{self.sent / 1e6:.3g} MB/s, round trip {self.trip_ms:.3g} ms"
        lost = f", {self.again} of {self.segments} segments sent again ({self.share:.1%})"
        return f"{self.source} -> {self.target}: {figures}{lost if self.again else ''}"


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
            trip, queued = median(one.trip_ms for one in those), sum(one.queued for one in those)
            found.append(Link(host, peer, sent, segments, again, trip, queued))
    return tuple(sorted(found, key=lambda one: (-one.share, one.source, one.target))[:MOST])


def losing(found: Sequence[Link]) -> tuple[Link, ...]:
    """The links that lose what is sent over them, the worst first."""
    return tuple(one for one in found if one.again >= LEAST_AGAIN and one.share >= LEAST_SHARE)


def _place(address: str) -> str:
    return address.rpartition(":")[0]
