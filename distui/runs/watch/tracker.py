"""What is known of a run that is followed, as facts: its tasks, its hosts, its stops. `judge` says what they mean."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from distui.facts.host import HostFacts
from distui.plan.model import RunPlan
from distui.runs.insight.seen.clocks import Reading
from distui.runs.lines.explanation import Explanation
from distui.runs.state import elastic
from distui.runs.verdict.ends.stops import done_at
from distui.runs.verdict.evidence import Evidence, HostSeen, Rules, Silence, Stop, clock_doubt
from distui.runs.verdict.judge import judge
from distui.runs.verdict.outcome import Verdict
from distui.runs.watch.host_clock import HostClock
from distui.runs.watch.track import TaskTrack

SLOW = 0.05
"""Seconds of CPU that judging takes from which on it is not done for every fact; on a busy machine time says less."""
AT_REST = 10
"""How many times as long as it took then, nothing is judged."""


@dataclass(eq=False, repr=False)
class RunTracker:
    """Filled in by the watch; asked by whoever decides. Times are in our clock. Facts are added, never taken back."""

    plan: RunPlan
    facts: Mapping[str, HostFacts] = field(kw_only=True)
    clock: Callable[[], float] = field(kw_only=True)
    tracks: dict[int, TaskTrack] = field(init=False, default_factory=dict)
    """Every task of the plan, by index."""
    changed: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    """Set at whatever somebody may wait for."""
    stops: list[Stop] = field(init=False, default_factory=list)
    """Every stop, as it was asked for or reported."""
    _stops_from: list[float] = field(init=False, default_factory=list)
    """When each began, by `waited`."""
    rebooted: set[str] = field(init=False, default_factory=set)
    """Hosts that were restarted since the run was planned."""
    away_at: dict[str, float] = field(init=False, default_factory=dict)
    """Host -> when it had gone out of reach before its first restart."""
    engine_lost: dict[str, float] = field(init=False, default_factory=dict)
    """Host -> when its engine was last seen to be down."""
    engine_back: dict[str, float] = field(init=False, default_factory=dict)
    """Host -> when it answered again after that."""
    silences: tuple[Silence, ...] = field(init=False, default=())
    """The ranks that had said nothing when the run was stopped."""
    explanation: Explanation | None = field(init=False, default=None)
    """Who held the others up, as ranks answered, where that is why the run ends."""
    hung: bool = field(init=False, default=False)
    """Whether it is why it is to be stopped (`on_hang`)."""
    unfound: int = field(init=False, default=0)
    """Tasks of an adopted run that no host which answered knows of."""
    lost_since: dict[str, float] = field(init=False, default_factory=dict)
    """Host -> since when it, or its engine, is out of reach."""
    waited: Callable[[], float] = field(init=False, default_factory=lambda: time.monotonic)
    """Seconds for what is waited out here, however our clock is set."""
    lost_from: dict[str, float] = field(init=False, default_factory=dict)
    """Host -> the same as `lost_since`, in those."""
    away: dict[str, tuple[tuple[float, float], ...]] = field(init=False, default_factory=dict)
    """Host -> from when to when it, or its engine, was out of reach, each time."""
    unmet: set[str] = field(init=False, default_factory=set)
    """Hosts of an adopted run that this distui never reached."""
    unfollowed: set[str] = field(init=False, default_factory=set)
    """Hosts that answer, but can't be followed any more (`Watch`): they are among the lost ones."""
    waited_at: float = field(init=False, default=float("-inf"))
    """When a log last waited for room on the disk here, or for who reads it, or our clock was set: until a little later
    nobody's silence means anything.
    """
    all_in: bool = field(init=False, default=False)
    """Whether nothing more will come: from then on every verdict is over all facts."""
    _verdict: Verdict | None = field(init=False, default=None)
    _news: bool = field(init=False, default=True)
    _not_before: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self._clocks = {host: host_clock(self.facts.get(host), self.clock()) for host in self.plan.hosts}

    @property
    def settled(self) -> bool:
        """Whether every task has ended and its log is read to the end."""
        return all(track.over for track in self.tracks.values())

    @property
    def stop_began(self) -> float | None:
        """When the first stop of the run began; None before any."""
        return min((stop.at for stop in self.stops), default=None)

    @property
    def stopping_for(self) -> float | None:
        """For how long it is being stopped, however our clock was set since; None before any stop."""
        return self.waited() - min(self._stops_from) if self._stops_from else None

    @property
    def stopped_by(self) -> str:
        """Who stopped the run from elsewhere, if known."""
        return next((stop.by for stop in self.stops if stop.by), "")

    def stopped(self, stop: Stop) -> None:
        """Note a stop."""
        if stop not in self.stops:
            self.stops.append(stop)
            self._stops_from.append(self.waited() - max(0.0, self.clock() - stop.at))
            self.news()

    def held_up(self, found: Explanation, *, hung: bool = False) -> None:
        """Note who held the others up, and whether the run is to be stopped for that."""
        self.explanation, self.hung = found, hung
        self.news()

    def news(self) -> None:
        """A fact was added: what was judged before may not hold any more."""
        self._news = True
        self.changed.set()

    def evidence(self) -> Evidence:
        """All that is known now."""
        plan = self.plan
        return Evidence(
            tasks=tuple(track.seen() for track in self.tracks.values()),
            hosts={host: self._host(host) for host in plan.hosts},
            stops=tuple(self.stops),
            silences=self.silences,
            explanation=self.explanation,
            rules=Rules(
                launcher=plan.launcher,
                max_restarts=plan.max_restarts,
                min_nodes=plan.min_nodes,
                keeper=elastic.store_task(plan),
                judges=plan.judges if plan.done_when is not None else (),
                max_duration=plan.max_duration,
                code=plan.code is not None,
            ),
            unfound=self.unfound,
            all_in=self.all_in,
        )

    def nothing_more(self, unfound: int) -> None:
        """Every fact there will be is known, and so many tasks that no host knows of."""
        self.all_in, self.unfound, self._news = True, unfound, True

    def verdict(self) -> Verdict:
        """What that means, judged again whenever a fact was added.

        In a run of hundreds of ranks that all end at once it may be a second or so old, until all is in.
        """
        late = self.all_in or time.monotonic() >= self._not_before
        if self._verdict is None or (self._news and late):
            began = time.thread_time()
            self._news, self._verdict = False, judge(self.evidence())
            took = time.thread_time() - began
            self._not_before = time.monotonic() + (AT_REST * took if took > SLOW else 0.0)
        return self._verdict

    @property
    def judged_late(self) -> bool:
        """Whether something is known that the last verdict was not made of."""
        return self._news

    def judged_alone(self, track: TaskTrack) -> Verdict:
        """How one task's ranks ended, taken by themselves."""
        return judge(replace(self.evidence(), tasks=(track.seen(),), unfound=0, rules=self._alone()))

    def _alone(self) -> Rules:
        code = self.plan.code is not None
        return Rules(launcher=self.plan.launcher, max_duration=self.plan.max_duration, code=code)

    def _host(self, host: str) -> HostSeen:
        known = self._clocks[host]
        return HostSeen(
            doubt=known.doubt,
            unsteady=known.unsteady,
            set_by=abs(known.set_by),
            read_from=known.read_from,
            read_until=known.read_until,
            away=self.away.get(host, ()),
            rebooted=host in self.rebooted,
            lost_at=self.lost_since.get(host),
            away_at=self.away_at.get(host),
            engine_lost_at=self.engine_lost.get(host),
            engine_back_at=self.engine_back.get(host),
        )

    @property
    def failed(self) -> bool:
        """Whether a task has ended badly by itself, and the run can't do without it."""
        return self.verdict().failed

    @property
    def done_without(self) -> bool:
        """Whether all that is left are hosts out of reach, which the run could do without: its other nodes are done."""
        lost = {t.task.index for t in self.tracks.values() if not t.over and t.task.host in self.lost_since}
        over = all(t.over or t.task.index in lost for t in self.tracks.values())
        return bool(lost) and over and elastic.can_do_without(self.plan, lost | self.bad())

    def bad(self) -> frozenset[int]:
        """Tasks that have ended badly by themselves."""
        return self.verdict().bad

    def live_tasks(self) -> frozenset[int]:
        """Tasks that are not known to have ended."""
        return frozenset(i for i, t in self.tracks.items() if t.phase in ("planned", "running"))

    def reached_tasks(self) -> frozenset[int]:
        """Those of them whose host answers: a stop that is sent now comes to them."""
        return frozenset(i for i in self.live_tasks() if self.tracks[i].task.host not in self.lost_since)

    def unread_tasks(self) -> frozenset[int]:
        """Tasks whose log is not completely in its files here: their containers must stay.

        What is on hosts out of reach can't be removed, and is said to be there; what is on those that are only not
        followed any more could be.
        """
        return frozenset(i for i, t in self.tracks.items() if self._is_unread(t))

    def incomplete_tasks(self) -> frozenset[int]:
        """Tasks of whose log lines may be missing here, whether or not they can still be read."""
        missing = (i for i, t in self.tracks.items() if t.lines_missing or t.removed or not t.over)
        return self.unread_tasks() | frozenset(missing)

    def _is_unread(self, track: TaskTrack) -> bool:
        away = {*self.lost_since, *self.unmet} - self.unfollowed
        open_ended = not track.over and track.task.host not in away
        return open_ended or track.log.error is not None or track.log.lost_bytes

    def lost_longer_than(self, seconds: float) -> bool:
        """Whether a host with unsettled tasks has been out of reach for this long."""
        now = self.waited()
        waiting = {t.task.host for t in self.tracks.values() if not t.over}
        gone = {t.task.index for t in self.tracks.values() if t.task.host in self.lost_since}
        if elastic.can_do_without(self.plan, gone | self.bad()) and not self.done_without:
            return False
        return any(now - since >= seconds for host, since in self.lost_from.items() if host in waiting)

    @property
    def only_unmet(self) -> bool:
        """Whether all that is left is on hosts that this distui never reached."""
        return self._all_left_on(self.unmet)

    @property
    def only_unfollowed(self) -> bool:
        """Whether all that is left is on hosts that are not followed any more: of those nothing else will come."""
        return self._all_left_on(self.unfollowed)

    def _all_left_on(self, hosts: set[str]) -> bool:
        waiting = {t.task.host for t in self.tracks.values() if not t.over}
        return bool(waiting) and waiting <= hosts

    @property
    def lost_hosts(self) -> frozenset[str]:
        """Hosts that are out of reach now, or whose engine is."""
        return frozenset(self.lost_since)

    @property
    def done_at(self) -> float | None:
        """When the last task ended whose end is the run's (`done_when`), in our clock; None while one lives."""
        return done_at(self.evidence()) if self.plan.done_when is not None else None

    @property
    def ended_at(self) -> float | None:
        """When the last task ended, in our clock; None while one lives, or when an end was not seen.

        Not later than now, whatever a host says whose clock was set meanwhile.
        """
        if not self.settled or any(t.end is None for t in self.tracks.values()):
            return None
        return min(self.clock(), max(t.exit_at for t in self.tracks.values()))

    def starting(self) -> None:
        """Starts are under way, or were; what is known to be over stays so."""
        for track in self.tracks.values():
            if not track.over:
                track.phase = "running"

    def missed(self, tasks: Iterable[int]) -> None:
        """Tasks whose containers were gone before we removed them: that explains a kill that nobody asked for."""
        for track in (self.tracks[index] for index in tasks):
            track.gone()
        self.news()

    def offset_ms(self, host: str) -> float:
        """By how much a host's clock is ahead of ours now; 0 where nobody measured it."""
        return 1000 * self._clocks[host].offset

    def clock_of(self, host: str) -> tuple[float, float] | None:
        """By how many seconds a host's clock is ahead of ours now, and by how much that may be wrong."""
        known = self._clocks.get(host)
        return (known.offset, known.doubt) if known is not None else None

    def clock_set(self, by: float) -> None:
        """Our clock was set: those of the hosts, which are compared with it, were not."""
        for known in self._clocks.values():
            known.ours_by += by

    def clock_read(self, host: str, reading: Reading) -> None:
        """Note what a host's clock said: times that come from now on are corrected by it."""
        known = self._clocks[host]
        if known.take(reading):
            for track in self.tracks.values():
                if track.task.host == host:
                    track.log.offset = known.offset
            self.news()


def host_clock(facts: HostFacts | None, at: float) -> HostClock:
    """A host's clock as the probe measured it."""
    offset = facts.clock_offset_ms if facts is not None else None
    return HostClock((offset or 0.0) / 1000, clock_doubt(facts.rtt_ms if facts is not None else None), at)
