"""One attempt of a run, with its plan, its hosts and all that is known of it.

Launching, watching, judging and cleaning up are done on an attempt; `controller.py` owns the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from distui.facts.host import HostFacts
from distui.plan.model import RunPlan
from distui.runs.attempt.limits import passed
from distui.runs.attempt.replan import NextAttempt
from distui.runs.attempt.run_context import RunContext
from distui.runs.hosts.readers import Visit
from distui.runs.insight.hang.ras.communicators import Counted
from distui.runs.insight.seen.quiet import Quiet
from distui.runs.lines.events import Event, Level, Notice
from distui.runs.lines.explanation import Explanation
from distui.runs.series.late import LateKept
from distui.runs.state.our_clock import ClockSet, OurClock, after
from distui.runs.state.reducer import RunState
from distui.runs.store.end_record import EndRecord
from distui.runs.task.host_run import HostRun
from distui.runs.verdict.network import NetworkFound
from distui.runs.watch.progress.silence import Silences
from distui.runs.watch.progress.steps import StepWatch
from distui.runs.watch.watch import Watch


class Attempt:
    """One attempt of a run."""

    def __init__(
        self, run: RunContext, plan: RunPlan, facts: Mapping[str, HostFacts], waiters: frozenset[str] = frozenset()
    ) -> None:
        """`waiters` wait elsewhere for the end of the run since before this attempt."""
        self.run = run
        self.waiters = waiters
        self.plan = plan
        self.facts = facts
        self.began = run.clock()
        self._began_from = passed()
        self.stops_before = run.requests.count - (run.requests.stop is not None)
        """How many stops were asked for before it: they are not its own, but for one that came just before it began."""
        self.silences = Silences(plan)
        self.steps = StepWatch(plan)
        self.network = NetworkFound()
        """What was found of the network when ranks were silent."""
        self.explanation: Explanation | None = None
        """Who holds the others up, when that was looked at last."""
        self.quiet = Quiet()
        """Since when nothing of ranks has moved, as far as they were looked at."""
        self.late = LateKept(self.began)
        self.ras: tuple[Counted, ...] = ()
        """What NCCL counted of its communicators by then."""
        self.watch = Watch(
            plan, emit=run.events.emit, room=run.events.room, stored=run.stored, facts=facts, clock=run.clock,
            mask=run.mask,
        )  # fmt: skip
        self.tracker = self.watch.tracker
        self.ours = OurClock(run.clock, lambda: self.tracker.waited())
        """Tells when our clock was set since the attempt began."""
        self.recorded: EndRecord | None = None
        """How the attempt ended, once that is recorded: from then on nothing changes it."""
        self.awaits = False
        """Whether whoever started the run is there to begin the next attempt, where that is not us."""
        self.cleaned_up = False
        """Whether somebody else has removed it before its end was all seen here: that one knows how it ended."""
        self.rest = False
        """Whether that is how it was ended while a host was out of reach: what is left there is only stopped now."""
        self.visits: list[Visit] = []
        """What was seen in its folder on each host a moment ago, for whoever would look next (`conclude.py`)."""
        self.token = plan.token
        self.hosts = {host: HostRun(host, plan, run.connector) for host in plan.hosts}

    @property
    def state(self) -> RunState:
        """What the run's events add up to so far."""
        return self.run.events.state

    @property
    def spent(self) -> float:
        """For how long the attempt has gone on, however our clock was set meanwhile."""
        return passed() - self._began_from

    def clock(self) -> float:
        """Now, in seconds since the epoch."""
        return self.run.clock()

    def clock_set(self, change: ClockSet) -> None:
        """Our clock was set: what was noted by it and tells how long something lasts is moved along, and the hosts'
        clocks are read again.
        """
        self.tracker.clock_set(change.by)
        self.watch.ask_clocks()
        self.run.events.state = after(self.state, change)
        self.quiet.moved(change.moved)
        self.silences.moved(change.moved)
        self.ras = tuple(replace(one, since=change.moved(one.since), at=change.moved(one.at)) for one in self.ras)
        self.tracker.waited_at = self.clock()  # until hosts' clocks are read again, their times are wrong by as much

    async def emit(self, event: Event) -> None:
        """See `Emitter.emit`."""
        await self.run.events.emit(event)

    async def notice(self, level: Level, text: str, host: str | None = None) -> None:
        """Emit words that change no state."""
        await self.emit(Notice(self.clock(), level, text, host))

    async def close(self) -> None:
        """Let go of the hosts."""
        await asyncio.gather(*(host.link.close() for host in self.hosts.values()))

    async def followed_by(self, following: NextAttempt, *, ran: bool) -> Attempt:
        """Let go of this one's hosts; another that begins now, with a plan of its own.

        Who waited for the run's end before this one, and did not come while it `ran`, is not waited for any longer.
        """
        await self.close()
        waiters = frozenset(waiter for host in self.hosts.values() for waiter in host.waiters)
        return Attempt(self.run, following.plan, following.facts, waiters if ran else waiters | self.waiters)
