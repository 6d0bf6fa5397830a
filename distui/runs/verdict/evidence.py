"""All that is known of a run's end, as values. Every time is UTC seconds on our clock, corrected by the host's offset.

Facts only: nothing here says what caused what. The order in which facts came to be known does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Literal, NamedTuple

from distui.frozen import frozen
from distui.runs.lines.explanation import Explanation
from distui.spec.job.job import Launcher
from distui.whole import moment

EndState = Literal["exited", "never_started", "lost", "removed"]
"""`lost`: nobody saw how it ended, its supervisor or host went away. `removed`: it was gone when looked for."""

StopCause = Literal["failure", "user", "timeout", "limit", "done", "elsewhere", "hang"]
"""Why ranks were stopped. `limit`: the job's `max_duration`. `done`: nothing was left to wait for. `elsewhere`: by
somebody else who said so on the hosts. `hang`: ranks stood still (`on_hang`)."""

Verb = Literal["stop", "kill"]
"""The command with which somebody ended tasks alone."""


class Line(NamedTuple):
    """A line of a log and when it was said; None where nobody knows."""

    at: float | None
    text: str


Lines = tuple[Line, ...]


@frozen
class End:
    """What the engine says of one task's end."""

    code: int | None
    at: float | None = None
    """When it ended; None when the engine gave no time."""
    oom: bool = False
    """Whether the kernel killed something of it for lack of memory."""
    host_full: bool = False
    """Whether that was its host's memory, not a limit of its own."""
    error: str = ""
    started_at: float | None = None
    signalled: bool | None = False
    """Whether somebody had the engine send it a signal (`docker stop`, `docker kill`); None where that is not known."""
    state: EndState = "exited"
    by: str = ""
    """Who stopped this task alone (`distui stop --rank`), as they left word on its host."""
    verb: Verb = "stop"
    """With which command they did."""
    seen_at: float | None = None
    """When distui learned of it: what was known before a stop began was not caused by it, whatever the clocks say."""

    @property
    def when(self) -> float | None:
        """When it ended by the engine's word, else when it was seen to have."""
        return self.at if self.at is not None else self.seen_at


@frozen
class TaskSeen:
    """One container or process with its ranks, its end (None: not known to have ended) and the last lines of each.

    `lines` has a rank's lines under its number, and the launcher's own under None.
    """

    index: int
    host: str
    ranks: tuple[int, ...]
    name: str = ""
    """What it is called where it is more than a number: `worker/1`."""
    role: str = "worker"
    engine: str = "docker"
    end: End | None = None
    removed: bool = False
    """Whether its container or folder was gone though distui did not remove it."""
    lines: Mapping[int | None, Lines] = field(default_factory=dict)


AT_ONCE = 5.0
"""Seconds within which an end is known here, as a rule."""


class Unsteady(NamedTuple):
    """A stretch of time in which a host's clock was not known as well as it is now: it was set, went wrong, or had been
    measured over a slow line.
    """

    since: float
    until: float
    doubt: float
    """Seconds by which its corrected times may be off."""
    shift: float = 0.0
    """Seconds by which two of them may be in the wrong order though both are by this clock."""

    def is_over(self, at: float, learned: float | None) -> bool:
        """Whether a time that was `learned` then is surely later: it came here at once, by the clock as it is since."""
        return learned is not None and min(at, learned) > self.until + AT_ONCE and abs(learned - at) < AT_ONCE


DRIFT = 5e-5
"""Seconds a second by which a clock goes wrong that nobody reads: what crystals do at the most, as a rule."""


READ_EVERY = 60.0
"""Seconds within which the clock of a host that is followed is read again."""


@frozen
class HostSeen:
    """What is known of a host. `doubt` is by how many seconds its corrected clock may be off."""

    doubt: float = 0.0
    unsteady: tuple[Unsteady, ...] = ()
    """When it may have been off by more."""
    read_from: float | None = None
    """When its clock was read first, and (`read_until`) last; None where nobody noted it."""
    read_until: float | None = None
    away: tuple[tuple[float, float], ...] = ()
    """From when to when it was out of reach, each time, and is back since."""
    rebooted: bool = False
    lost_at: float | None = None
    """Since when it is out of reach; None when it answers."""
    away_at: float | None = None
    """When one that was restarted had gone out of reach; None where nobody noticed."""
    engine_lost_at: float | None = None
    """When its engine was last seen to be down."""
    engine_back_at: float | None = None
    """When it answered again after that; None while it does not."""
    set_by: float = 0.0
    """By how many seconds it was set since it is read: how long anything lasted by its times may be as far off."""

    def doubt_at(self, at: float | None, learned: float | None = None) -> float:
        """By how many seconds a time of its clock, corrected to be `at`, may be off. `learned` is when it came here."""
        if at is None:
            return self.doubt
        unread = 0.0
        if self.read_from is not None and self.read_until is not None:
            unread = max(0.0, self.read_from - at, at - self.read_until)
        return max([self.doubt, *(one.doubt for one in self._around(at, learned))]) + DRIFT * unread

    def shift_at(self, at: float) -> float:
        """By how many seconds two of its times about `at` may be in the wrong order."""
        return max((one.shift for one in self._around(at)), default=0.0)

    def is_read(self, at: float) -> bool:
        """Whether its clock was read about then, or later."""
        return self.read_until is not None and at <= self.read_until + READ_EVERY

    def _around(self, at: float, learned: float | None = None) -> list[Unsteady]:
        return [
            one
            for one in self.unsteady
            if one.since - one.doubt <= at <= one.until + one.doubt and not one.is_over(at, learned)
        ]


@frozen
class Stop:
    """Ranks were stopped from `at` on: all of the run, or only these tasks. `by` is who, where it was not distui here.

    `exit` is the exit code that whoever asked for the stop wants for the run.
    """

    at: float
    reason: StopCause
    by: str = ""
    exit: int | None = None
    tasks: frozenset[int] | None = None
    live: frozenset[int] = frozenset()
    """Tasks of which distui knew, when it sent them this stop, that they lived."""


@frozen
class Silence:
    """A rank that said nothing since `since`, when it said `last` or began to run; `until` is when it spoke again."""

    rank: int
    since: float
    host: str = ""
    last: str = ""
    name: str = ""
    until: float | None = None


@frozen
class Rules:
    """What the job says of its own end."""

    launcher: Launcher = "env"
    max_restarts: int = 0
    min_nodes: int | None = None
    """The run goes on while this many nodes are left; None where it needs all of them."""
    keeper: int | None = None
    """The task without which no other can go on, where nodes may be lost: torchrun's rendezvous is there."""
    judges: tuple[int, ...] = ()
    """Tasks whose end is the run's (`done_when`), the first one's exit code first; empty: every task's."""
    max_duration: float | None = None
    code: bool = False
    """Whether its code was sent to the hosts."""


@frozen
class Evidence:
    """Everything `judge` goes by. Tasks by any order; the same facts in another order are the same evidence."""

    tasks: Sequence[TaskSeen]
    hosts: Mapping[str, HostSeen] = field(default_factory=dict)
    stops: Sequence[Stop] = ()
    silences: Sequence[Silence] = ()
    explanation: Explanation | None = None
    """Who held the others up, as ranks answered before they were stopped, where that is why the run ended."""
    rules: Rules = Rules()
    unfound: int = 0
    """Tasks of the run that no host which answered knows of."""
    all_in: bool = True
    """Whether nothing more will come: until then nobody asks what the ranks that ended well said last."""

    def end_doubt(self, host: str, end: End, stop: Stop | None) -> float:
        """The same about the end of a task and its stop, which is by our own clock."""
        known = self.hosts.get(host)
        if known is None:
            return CLOCK_DOUBT
        about_stop = known.doubt_at(stop.at, stop.at) if stop is not None else 0.0
        return max(known.doubt_at(end.at, end.seen_at), about_stop)

    def doubt(self, host: str, *at: float | None) -> float:
        """Seconds by which these times may be off, by a host's corrected clock."""
        known = self.hosts.get(host)
        return CLOCK_DOUBT if known is None else max(map(known.doubt_at, at), default=known.doubt)

    def set_by(self, task: TaskSeen) -> float:
        """The same of the times of a task; a process has begun by the clock as it was at its end."""
        known = self.hosts.get(task.host)
        return 0.0 if known is None or task.engine == "process" else known.set_by

    def is_read(self, host: str, at: float) -> bool:
        """Whether a host's clock was read about then, or later."""
        known = self.hosts.get(host)
        return known is not None and known.is_read(at)

    def shift(self, host: str, at: float) -> float:
        """Seconds by which two times of one host about `at` may be in the wrong order."""
        known = self.hosts.get(host)
        return 0.0 if known is None else known.shift_at(at)


CLOCK_DOUBT = 0.002
"""Seconds two clocks may differ at the least, whatever the probe measured."""


def clock_doubt(rtt_ms: float | None) -> float:
    """How far a clock offset measured over a round trip of this length may be off, in seconds: half of it."""
    return CLOCK_DOUBT + (rtt_ms or 0.0) / 2000


def corrected(at: float | None, offset_ms: float | None) -> float | None:
    """A host's time on our clock: minus its offset; None where that is no time that can be said."""
    return None if at is None else moment(at - (offset_ms or 0.0) / 1000)


def lines_of(lines: Iterable[str], at: float | None = None) -> Lines:
    """Lines that all were said at one time, or at none that is known."""
    return tuple(Line(at, text) for text in lines)
