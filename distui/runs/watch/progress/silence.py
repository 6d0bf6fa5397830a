"""Which ranks are quiet: no line for `stall_after`, no collective that it was seen to begin, and GPUs that do nothing
(UX 2.4). Pure.

A rank that never said a line counts from its start: ranks that wait for each other at the rendezvous are the usual
case. `stall_after: 0` turns the rule off; tasks that only serve others (parameter servers) are never
quiet. A rank whose GPU works is at work, however long it says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from distui.plan.model import RunPlan
from distui.runs.lines.events import RankSilent
from distui.runs.state.load import IDLE_PCT, load, placed
from distui.runs.state.reducer import RankState, RunState
from distui.runs.verdict.evidence import Silence

LOOK_EVERY_S = 1.0
"""How often all ranks are looked at, in seconds."""
TOLD_AFTER_S = 30.0
"""At a stop a rank is reported silent from this many seconds on, or from `stall_after` where that is less."""
LAST_GASP_S = 3.0
"""What a rank says so shortly before the stop is known is taken for its answer to it: hosts stop tasks, too."""


def silent_for(rank: RankState, now: float) -> float | None:
    """Seconds since its last line, or since it runs; None for a rank that does not run or whose start is not known."""
    last = rank.last_line_at if rank.last_line_at is not None else rank.since
    return max(0.0, now - last) if rank.state == "running" and last is not None else None


def still_for(rank: RankState, now: float) -> float | None:
    """Seconds since it was last known to go on: since a line, or a collective that it was asked for; None likewise."""
    silent = silent_for(rank, now)
    return silent if silent is None or rank.moved_at is None else min(silent, max(0.0, now - rank.moved_at))


def is_quiet(rank: RankState, util: float | None, *, now: float, stall_after: float) -> bool:
    """Whether a rank is still for too long; `util` is what its GPUs do in percent, None when nobody knows."""
    still = still_for(rank, now)
    return stall_after > 0 and still is not None and still > stall_after and (util is None or util < IDLE_PCT)


class Silences:
    """Tells once when a rank falls quiet, and once when it is back; remembers how long ranks are silent, so that a stop
    can say what came before it.
    """

    def __init__(self, plan: RunPlan) -> None:
        self._plan = plan
        self._placed = placed(plan)
        self._looked = float("-inf")
        self._silent: dict[int, Silence] = {}

    def news(self, state: RunState, now: float) -> Iterator[RankSilent]:
        """What changed since `state` was given to it last; looks at most every second."""
        if not self._plan.stall_after or 0 <= now - self._looked < LOOK_EVERY_S:
            return
        self._looked = now
        self.look(state, now)
        for rank, (task, gpus) in self._placed.items():
            known, host = state.ranks.get(rank), state.hosts.get(task.host)
            if known is None or not (known.quiet or known.state == "running"):
                continue
            util = load(host.sample if host is not None else None, gpus)
            quiet = is_quiet(known, util, now=now, stall_after=self._plan.stall_after_of(task))
            if quiet != known.quiet:
                yield RankSilent(now, rank, task.host, quiet, silent_for(known, now) or 0.0, util)

    def look(self, state: RunState, now: float) -> None:
        """Take note of who is silent now."""
        for rank, (task, gpus) in self._placed.items():
            known, host = state.ranks.get(rank), state.hosts.get(task.host)
            after = self._plan.stall_after_of(task)
            util = load(host.sample if host is not None else None, gpus)
            before = self._silent.get(rank)
            if known is not None and is_quiet(known, util, now=now, stall_after=min(after, TOLD_AFTER_S)):
                since = now - (silent_for(known, now) or 0.0)
                self._silent[rank] = Silence(rank, since, task.host, known.last_line, known.name)
            elif before is not None and before.until is None:
                self._silent[rank] = replace(before, until=now)

    def moved(self, at: Callable[[float], float]) -> None:
        """Our clock was set: `at` tells what a moment from before is now. Else one that spoke again long before the
        stop seems to have been silent at it.
        """
        self._silent = {
            rank: replace(one, since=at(one.since), until=at(one.until) if one.until is not None else None)
            for rank, one in self._silent.items()
        }

    def at(self, moment: float, slack: float = 0.0) -> tuple[Silence, ...]:
        """The ranks that were silent at this moment, or until `slack` seconds before it, longest first."""
        found = [s for s in self._silent.values() if s.until is None or s.until >= moment - slack]
        return tuple(sorted(found, key=lambda s: (s.since, s.rank)))
