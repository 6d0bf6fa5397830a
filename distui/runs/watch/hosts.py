"""The hosts of a run that is followed: out of reach and back, restarted, and who said there that they stop the run."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping

from distui.errors import DistuiError
from distui.plan.model import Task
from distui.runs.follow.followed import Back, FollowEvent, Lost
from distui.runs.hosts.memory_kill import MemoryKill
from distui.runs.hosts.stop_word import StopWord
from distui.runs.lines.events import Event, HostChanged, Notice, RankChanged, RankPhase
from distui.runs.state import elastic
from distui.runs.task.host_run import HostRun
from distui.runs.watch.tracker import RunTracker

CLEANED_SECONDS = 15.0
"""How long a host may take to tell who removed what a run had there: meanwhile nothing else of it is taken in."""

AWAY_KEPT = 99
"""Times that a host was out of reach which are remembered, beside the last one."""


class WatchedHosts:
    """Takes in that hosts are lost and back, and knows what that explains."""

    def __init__(self, tracker: RunTracker, emit: Callable[[Event], Awaitable[None]]) -> None:
        self.runs: Mapping[str, HostRun] = {}
        """What is followed now, by host."""
        self.ranks_ended = False
        """Whether it is recorded how all ranks ended: that a host is out of reach changes none of them."""
        self._tracker = tracker
        self._emit = emit
        self._boot_unreported: set[str] = set()
        self._missing: dict[str, set[str]] = {}
        self._stop_reported = False

    async def unmet(self, host: str, reason: str, *, engine: bool = False) -> None:
        """A host of an adopted run, or only its engine, is out of reach from the start.

        Its follower's first word brings the host back, and its word that the engine answers the engine.
        """
        self._tracker.unmet.add(host)
        await self.lost(host, Lost("engine" if engine else "host", reason))

    def without_engine(self, host: str) -> bool:
        """Whether the host's engine is known not to answer."""
        return "engine" in self._missing.get(host, ())

    async def heard(self, host: str, event: FollowEvent) -> None:
        """A follower says something: its host is there."""
        if host not in self._tracker.unmet or isinstance(event, Lost):
            return
        if not self.without_engine(host):
            self._met(host)
            await self.back(host, Back("host"))
        elif isinstance(event, Back) and event.what == "engine":
            self._met(host)

    def _met(self, host: str) -> None:
        """It answers for the first time: until now nobody saw how its engine was."""
        known = self._tracker
        known.unmet.discard(host)
        known.away[host] = ((-math.inf, known.clock()),)

    async def lost(self, host: str, event: Lost) -> None:
        """Out of reach: the host, or only its engine. Its ranks may live."""
        known = self._tracker
        missing = self._missing.setdefault(host, set())
        missing.add(event.what)
        if event.what == "engine":
            known.engine_lost[host] = known.clock()
            known.engine_back.pop(host, None)
        reason = event.reason if event.what == "host" else f"its engine does not answer: {event.reason}"
        if host not in known.lost_since:
            known.lost_since[host], known.lost_from[host] = known.clock(), known.waited()
            await self._mark(host, "lost", reason)
            if known.plan.min_nodes is not None and not self.ranks_ended:
                await self._say_lost(host)
        await self._emit(HostChanged(known.clock(), host, "lost", reason))
        known.changed.set()

    async def back(self, host: str, event: Back) -> None:
        """The host or its engine answers again; both must for its ranks to run."""
        known = self._tracker
        missing = self._missing.setdefault(host, set())
        missing.discard(event.what)
        if event.what == "engine" and host in known.engine_lost:
            known.engine_back[host] = known.clock()
        if event.rebooted:  # its engine may not be back yet
            known.rebooted.add(host)
            self._boot_unreported.add(host)
        lost = host in known.lost_since
        if event.rebooted and lost:
            known.away_at.setdefault(host, known.lost_since[host])
        if missing or not (lost or host in self._boot_unreported):
            return
        reason = "it was restarted" if host in self._boot_unreported else ""
        self._boot_unreported.discard(host)
        await self._emit(HostChanged(known.clock(), host, "back", reason))
        if lost:
            del known.lost_from[host]
            known.away[host] = (*known.away.get(host, ())[-AWAY_KEPT:], (known.lost_since.pop(host), known.clock()))
            await self._mark(host, "running", "")
        known.changed.set()

    async def ask_boots(self, hosts: Iterable[str]) -> None:
        """Look whether these hosts, where they answer now, were restarted since the start."""
        unasked = set(hosts) - self._tracker.rebooted
        await asyncio.gather(*(self._ask_boot(self.runs[host]) for host in unasked))

    async def _ask_boot(self, host: HostRun) -> None:
        with contextlib.suppress(DistuiError):
            if await host.restarted():
                self._tracker.rebooted.add(host.host)

    async def cleaned_up(self, host: str, *, surely: bool = False) -> bool:
        """Whether whoever else followed the run has removed what it had here, or, but for `surely`, does so now.

        A host that was restarted may have lost it by that.
        """
        run = self.runs.get(host)
        with contextlib.suppress(DistuiError, TimeoutError):
            async with asyncio.timeout(CLEANED_SECONDS):
                if run is not None and await run.notes.cleaned_up(surely=surely):
                    await self._ask_boot(run)
                    return host not in self._tracker.rebooted
        return False

    async def stopped_elsewhere(self) -> StopWord | None:
        """Word of a stop from another machine, after asking all hosts at once; the first that was left on any."""
        found = await self.first_word(self.runs)
        if found is None:
            return None
        await self.say_who_stopped(*found)
        return found[0]

    async def first_word(self, hosts: Iterable[str]) -> tuple[StopWord, str] | None:
        """The first word of such a stop that was left on any of these hosts, and on which."""
        asked = list(hosts)
        answers = await asyncio.gather(*(self.ask_who_stopped(host) for host in asked))
        found = [(word, host) for word, host in zip(answers, asked, strict=True) if word is not None]
        return min(found, key=lambda one: math.inf if one[0].at is None else one[0].at, default=None)

    async def ask_who_stopped(self, host: str, task: int | None = None) -> StopWord | None:
        """Read on one host who else says that they stop the run, or this task alone; None when nobody does, or it does
        not answer.
        """
        with contextlib.suppress(DistuiError):
            return await self.runs[host].notes.stopped_by(self._tracker.offset_ms(host), task)
        return None

    async def ask_memory_kill(self, host: str, task: Task) -> MemoryKill:
        """Whether the host's kernel killed something of a task for lack of memory; no where it does not say."""
        with contextlib.suppress(DistuiError):
            return await self.runs[host].notes.memory_kill(await self.runs[host].ref(task))
        return ""

    async def say_who_stopped(self, word: StopWord, host: str) -> None:
        """Say once that the run was stopped from elsewhere, and by whom; who stops it at a failure is no news."""
        if not self._stop_reported and word.cause != "failure":
            self._stop_reported = True
            await self._emit(Notice(self._tracker.clock(), "info", f"stopped by {word.who}", host))

    async def _say_lost(self, host: str) -> None:
        """What it means for a run that may lose nodes that a host is out of reach, if it does not come back."""
        known = self._tracker
        gone = {t.task.index for t in known.tracks.values() if t.end is None and t.task.host in known.lost_since}
        for task in (t.task for t in known.tracks.values() if t.task.host == host and t.end is None):
            words = elastic.words_on_loss(known.plan, task.index, gone | known.bad())
            await self._emit(Notice(known.clock(), "warning", f"without {task.name}: {words}", host))

    async def _mark(self, host: str, state: RankPhase, message: str) -> None:
        """Set the state of the ranks of one host that have not ended."""
        if self.ranks_ended:
            return
        for track in self._tracker.tracks.values():
            if track.task.host == host and track.end is None:
                for rank in track.task.ranks:
                    await self._emit(RankChanged(self._tracker.clock(), rank, host, state, words=message))
