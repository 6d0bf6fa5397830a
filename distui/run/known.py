"""What is known of every task of a run that is followed, and what follows from it: over, failed, who was first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from distui.errors import ExitCode
from distui.facts.host import HostFacts
from distui.plan.model import RunPlan
from distui.run import elastic
from distui.run.events import Failure
from distui.run.track import TaskTrack
from distui.run.verdict.old import (
    CLOCK_DOUBT,
    STOP_CODES,
    Evidence,
    first_failure,
    not_told_apart,
    stopped_by_us,
)

REMOVED = "its container was removed by somebody else"

KILLED = "by `docker stop` or `docker kill` there, not by distui"

STOP_SLACK = 5.0
"""Seconds by which ranks may end before the one that told of a stop from elsewhere."""


class Known:
    """Filled in by the watch; asked by whoever decides. Times are in our clock."""

    def __init__(self, plan: RunPlan, *, facts: Mapping[str, HostFacts], clock: Callable[[], float]) -> None:
        self.plan = plan
        self.tracks: dict[int, TaskTrack] = {}
        """Every task of the plan, by index."""
        self.facts = facts
        self.clock = clock
        self.changed = asyncio.Event()
        """Set at whatever somebody may wait for."""
        self.stop_began: float | None = None
        self.stopped_by = ""
        """Who stopped the run from elsewhere, as far as known."""
        self.over_limit = False
        """Whether the job's `max_duration` ended a task, and with it the run."""
        self.lost_since: dict[str, float] = {}
        """Host -> since when it, or its engine, is out of reach."""
        self.unmet: set[str] = set()
        """Hosts of an adopted run that this distui never reached."""
        self.waited_at = float("-inf")
        """When a log last waited for room on the disk here: until a little later nobody's silence means anything."""
        self._blamed: int | None = None

    @property
    def settled(self) -> bool:
        """Whether every task has ended and its log is read to the end."""
        return all(track.over for track in self.tracks.values())

    @property
    def failed(self) -> bool:
        """Whether a task has ended badly by itself, and the run can't do without it."""
        return elastic.fails(self.plan, self.bad())

    @property
    def done_without(self) -> bool:
        """Whether all that is left are hosts out of reach, which the run could do without: its other nodes are done."""
        lost = {t.task.index for t in self.tracks.values() if not t.over and t.task.host in self.lost_since}
        over = all(t.over or t.task.index in lost for t in self.tracks.values())
        return bool(lost) and over and elastic.can_do_without(self.plan, lost | self.bad())

    def bad(self) -> frozenset[int]:
        """Tasks that have ended badly by themselves."""
        return frozenset(t.task.index for t in self.failed_tracks())

    def all_succeeded(self) -> bool:
        """Whether every task had ended with status 0 before any stop."""
        return all(t.exit is not None and not t.exit.bad and not self.ours(t) for t in self.tracks.values())

    def live_tasks(self) -> frozenset[int]:
        """Tasks that have not ended, as far as is known."""
        return frozenset(i for i, t in self.tracks.items() if t.phase in ("planned", "running"))

    def unknown_tasks(self) -> frozenset[int]:
        """Tasks whose end was never seen, and matters."""
        unseen = frozenset(i for i, t in self.tracks.items() if t.exit is None and t.phase != "removed")
        return frozenset() if elastic.can_do_without(self.plan, unseen | self.bad()) else unseen

    def unread_tasks(self) -> frozenset[int]:
        """Tasks whose log is not completely in its files here: their containers must stay."""
        return frozenset(i for i, t in self.tracks.items() if t.log.error is not None)

    def lost_longer_than(self, seconds: float) -> bool:
        """Whether a host with unsettled tasks has been out of reach for this long."""
        now = self.clock()
        waiting = {t.task.host for t in self.tracks.values() if not t.over}
        gone = {t.task.index for t in self.tracks.values() if t.task.host in self.lost_since}
        if elastic.can_do_without(self.plan, gone | self.bad()) and not self.done_without:
            return False
        return any(now - since >= seconds for host, since in self.lost_since.items() if host in waiting)

    @property
    def only_unmet(self) -> bool:
        """Whether all that is left is on hosts that this distui never reached."""
        waiting = {t.task.host for t in self.tracks.values() if not t.over}
        return bool(waiting) and waiting <= self.unmet

    @property
    def lost_hosts(self) -> frozenset[str]:
        """Hosts that are out of reach now, or whose engine is."""
        return frozenset(self.lost_since)

    @property
    def done_at(self) -> float | None:
        """When the last task ended whose end is the run's (`done_when`), in our clock; None while one lives."""
        judges = [self.tracks[index] for index in self.plan.judges]
        if self.plan.done_when is None or any(t.exit is None for t in judges):
            return None
        return max(t.exit_at for t in judges)

    @property
    def ended_at(self) -> float | None:
        """When the last task ended, in our clock; None while one lives, or when an end was not seen."""
        if not self.settled or any(t.exit is None for t in self.tracks.values()):
            return None
        return max(t.exit_at for t in self.tracks.values())

    def judged(self) -> int | None:
        """The exit code of a run that `done_when` ends: its first judge's own (the chief's, or worker 0's).

        None when the run has no such tasks, or not all of them ended by themselves.
        """
        judges = [self.tracks[index] for index in self.plan.judges]
        exits = [t.exit for t in judges if t.exit is not None and not self.ours(t)]
        if self.plan.done_when is None or len(exits) < len(judges):
            return None
        if not any(e.bad for e in exits):
            return ExitCode.OK
        return exits[0].code or ExitCode.RANK_FAILED

    def begin_stop(self, at: float) -> None:
        """From now on ends by a stop's exit statuses are our own doing."""
        if self.stop_began is None:
            self.stop_began = at

    def begin_end(self, at: float) -> None:
        """The run was over at `at`: whatever else ended later, known or not, did so because of that."""
        self.begin_stop(at)
        for track in self.tracks.values():
            track.before_stop = track.before_stop and track.exit_at <= at

    def starting(self) -> None:
        """Starts are under way, or were; what is known to be over stays so."""
        for track in self.tracks.values():
            if not track.over:
                track.phase = "running"

    def failure(self) -> Failure | None:
        """The failure that explains the run, from all that is known now."""
        found = first_failure(self.evidence(), self._blamed)
        if found is None:
            return None
        self._blamed, failure = found
        return failure

    def uncertain(self) -> str:
        """Who else may have failed first, as far as the hosts' clocks are known, in words; "" when that is clear."""
        if self._blamed is None:
            return ""
        near = not_told_apart(self.evidence(), self._blamed)
        if not near:
            return ""
        doubt = max(e.doubt for e in near) + self.doubt(self.tracks[self._blamed].task.host)
        who = ", ".join(f"{e.task.name} on {e.task.host}" for e in near[:3])
        more = f" and {len(near) - 3} more" if len(near) > 3 else ""
        clocks = f"their clocks are known to {1000 * doubt:.0f} ms"
        return f"{who}{more} failed at the same time as far as can be told ({clocks}): who was first is uncertain"

    def missed(self, tasks: Iterable[int]) -> None:
        """Tasks whose containers were gone before we removed them: that explains a kill that nobody asked for."""
        for track in (self.tracks[index] for index in tasks):
            if track.exit is not None and track.exit.code in STOP_CODES and track.exit.error in ("", KILLED):
                track.exit = replace(track.exit, error=REMOVED)

    def offset_ms(self, host: str) -> float | None:
        """By how much a host's clock is ahead of ours; None where nobody measured it."""
        facts = self.facts.get(host)
        return facts.clock_offset_ms if facts else None

    def doubt(self, host: str) -> float:
        """Seconds by which the corrected clock of a host may be off: half the probe's round trip."""
        facts = self.facts.get(host)
        return CLOCK_DOUBT + ((facts.rtt_ms or 0.0) / 2000 if facts else 0.0)

    def ours(self, track: TaskTrack) -> bool:
        """Whether a task that has ended did so because of a stop."""
        assert track.exit is not None
        if track.before_stop:
            return False
        if self.stop_began is not None and track.phase == "removed" and track.exit.code is None:
            return True
        slack = STOP_SLACK if self.stopped_by else 0.0
        return stopped_by_us(track.exit, track.exit_at, self.stop_began, self.doubt(track.task.host) + slack)

    def failed_tracks(self) -> list[TaskTrack]:
        """The tasks that ended badly by themselves."""
        return [t for t in self.tracks.values() if t.exit is not None and t.exit.bad and not self.ours(t)]

    def evidence(self) -> list[Evidence]:
        """What the tasks that ended badly by themselves give to judge by."""
        return [
            Evidence(t.task, t.exit, t.exit_at, self.doubt(t.task.host), t.tails())
            for t in self.failed_tracks()
            if t.exit is not None
        ]
