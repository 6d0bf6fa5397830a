"""Our clock is set while a run is followed, or stood still while a laptop slept: what that does to a run's state.

For how long a rank is silent, or no step comes, is counted from moments of our clock. Those from before are moved to
where the clock that is set now would have had them, so that nobody seems to be silent for an hour, or speaks in
the future.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from distui.frozen import frozen
from distui.runs.lines.events import RunStalled
from distui.runs.state.pages import Pages
from distui.runs.state.reducer import HostState, RankState, RunState

LEAST_S = 1.0
"""Seconds by which it has to be off: less is no matter, and a busy machine may rest between the two readings."""


@frozen
class ClockSet:
    """Our clock was set by `by` seconds, between `since` and `until`, both as it tells the time now."""

    by: float
    since: float
    until: float

    def moved(self, at: float) -> float:
        """A moment that was noted before, as the clock tells it now; one since then is right already."""
        return at if self.since < at <= self.until else at + self.by


class OurClock:
    """Tells when our clock was set, by one that nobody sets."""

    def __init__(self, clock: Callable[[], float], waited: Callable[[], float]) -> None:
        self._clock, self._waited = clock, waited
        self._read = clock(), waited()

    def news(self) -> ClockSet | None:
        """By how much it was set since this was asked last; None where it was not."""
        (at, since), now, waited = self._read, self._clock(), self._waited()
        by = now - at - (waited - since)
        if abs(by) < LEAST_S:
            # Where it was set by little again and again, that adds up: only the times are taken on.
            self._read = now - by, waited
            return None
        self._read = now, waited
        return ClockSet(by, now - (waited - since), now)


def after(state: RunState, change: ClockSet) -> RunState:
    """The state with what tells silence and standing still moved to the clock as it is now."""
    why, stalled = state.why, state.stalled
    return replace(
        state,
        ranks=Pages({number: _rank(rank, change) for number, rank in state.ranks.items()}),
        hosts={name: _host(host, change) for name, host in state.hosts.items()},
        steps=Pages(
            {
                number: replace(pace, last=replace(pace.last, at=change.moved(pace.last.at)))
                for number, pace in state.steps.items()
            }
        ),
        why=replace(why, at=change.moved(why.at)) if why is not None else None,
        stalled=_stalled(stalled, change) if stalled is not None else None,
    )


def _stalled(event: RunStalled, change: ClockSet) -> RunStalled:
    """Steps that are newer than it refute it, so both are moved."""
    return replace(event, at=change.moved(event.at), since=change.moved(event.since))


def _rank(rank: RankState, change: ClockSet) -> RankState:
    """One that has ended did so when that was said."""
    if not rank.live:
        return rank
    said, moved, since = rank.last_line_at, rank.moved_at, rank.since
    return replace(
        rank,
        last_line_at=change.moved(said) if said is not None else None,
        moved_at=change.moved(moved) if moved is not None else None,
        since=change.moved(since) if since is not None else None,
    )


def _host(host: HostState, change: ClockSet) -> HostState:
    sample = host.sample
    return replace(
        host,
        sample=replace(sample, at=change.moved(sample.at)) if sample is not None else None,
        worked={gpu: change.moved(at) for gpu, at in host.worked.items()},
    )
