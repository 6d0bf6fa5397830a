"""For how long nothing of a rank has moved, over all the looks of whoever follows its run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from distui.runs.insight.seen.ranks import RankSeen
from distui.runs.insight.seen.stalls import moves


class Quiet:
    """Since when each rank has shown no progress and was at one place of its collectives."""

    def __init__(self) -> None:
        self._since: dict[int, tuple[object, float]] = {}

    def noted(self, ranks: Sequence[RankSeen]) -> tuple[RankSeen, ...]:
        """The ranks of one look, with for how long nothing of each has moved in any look."""
        return tuple(replace(seen, quiet=self._for(seen)) for seen in ranks)

    def moved(self, moment: Callable[[float], float]) -> None:
        """Our clock was set: `moment` tells what one from before is now."""
        self._since = {rank: (place, moment(since)) for rank, (place, since) in self._since.items()}

    def _for(self, seen: RankSeen) -> float:
        if seen.process is None or moves(seen):
            self._since.pop(seen.rank, None)
            return 0.0
        place = (seen.process.pid, tuple((n, g.enqueued, g.pending is None) for n, g in sorted(seen.groups.items())))
        known, since = self._since.get(seen.rank, (None, 0.0))
        if known != place:
            since = seen.at
            self._since[seen.rank] = (place, since)
        return max(0.0, seen.at - since)
