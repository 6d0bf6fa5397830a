"""Reads a run that another distui of this machine has in its hands, and goes on from its hosts when that one leaves."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from types import TracebackType

from distui.errors import CheckFailed, DistuiError, ExitCode
from distui.plan.model import RunPlan
from distui.runs.control.beside import StoredReader
from distui.runs.control.controller import RunController
from distui.runs.lines.events import AttemptEnded, Event, LogLines, Notice, RunEnded, StopReason
from distui.runs.lines.explanation import Explanation
from distui.runs.state.reducer import RunState, apply
from distui.runs.store.masking import NOTHING, Mask
from distui.runs.store.runs import AlreadyFollowed
from distui.runs.watch.progress.logged_steps import LoggedSteps

Own = Callable[[], AbstractAsyncContextManager[RunController]]
"""Takes the run up, or looks on at it from a copy of its folder: the controller lives while the block runs."""

POLL_SECONDS = 0.1

HANDED_OVER_SECONDS = 3.0
"""How long another distui here may take to go on with a run whose owner has left: it asks the hosts first."""


class Beside:
    """A run as `RunController` shows one, by what its owner writes down here.

    Its reader sees every event and line once, whoever the owner is: when that one leaves, this process becomes it, or
    looks on by itself, and goes on reading what it writes itself.
    """

    def __init__(
        self,
        plan: RunPlan,
        own: Own,
        *,
        looks: bool = False,
        reader: StoredReader,
        mask: Mask = NOTHING,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Who only `looks` lets another distui here take the run over, and reads its hosts where none does."""
        self.plan = plan
        self.stored = self._begun_in = reader.stored
        self.mask = mask
        """Hides what the owner did not know the value of."""
        self.state = RunState(beside=True)
        self._own = own
        self._looks = looks
        self._alone_since: float | None = None
        self._reader = reader
        self._steps = LoggedSteps(plan)
        self._clock = clock
        self._owner: RunController | None = None
        self._owning: asyncio.Task[RunEnded | None] | None = None
        self._leaving = False
        self._stop: Callable[[RunController], None] | None = None
        """The stop that its owner was asked for last: one that dies has not done it."""
        self._news: list[Event] = []
        """What is to be said beside what the owner writes down."""

    async def __aenter__(self) -> Beside:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of the run, which lives on."""
        if self._owning is not None:
            self._owning.cancel()
            await asyncio.gather(self._owning, return_exceptions=True)

    @property
    def owner(self) -> RunController | None:
        """What follows the run, where this process owns it by now."""
        return self._owner

    async def why(self) -> Explanation | None:
        """Ask the ranks, where this process owns the run by now; None where another one does."""
        return await self._owner.why() if self._owner is not None else None

    def request_stop(
        self, reason: StopReason, *, grace: float | None = None, exit: ExitCode = ExitCode.INTERRUPTED
    ) -> None:
        """Stop it, or ask its owner to, and stop it here when that one dies; when the owner can't be asked, that is
        said, and the run goes on.
        """
        if self._owner is not None:
            self._owner.request_stop(reason, grace=grace, exit=exit)
        else:
            try:
                self.stored.ask_stop(grace)
                self._stop = lambda owner: owner.request_stop(reason, grace=grace, exit=exit)
            except CheckFailed as exc:
                message = f"{exc.message} ({exc.hint}); the run is still running"
                self._news.append(Notice(self._clock(), "error", message))

    def request_detach(self) -> None:
        """Leave the run alone; it lives on."""
        self._leaving = True

    async def batches(self) -> AsyncIterator[tuple[Event, ...]]:
        """What was there, then everything as it comes; ends after the batch that holds RunEnded."""
        before: list[Event] = self._reader.before()
        if before:
            steps = await asyncio.to_thread(self._steps.before, self.stored, self._clock())
            before += [steps] if steps is not None else []
        if batch := self._taken(before):
            yield batch
        while True:
            if not self._reader.follow_folder():
                yield self._taken([self.broken_off(f"{self.stored.run_id} was removed here: another run has its name")])
                return
            self.stored = self._reader.stored
            owned, leaving = self.stored.is_followed, self._leaving  # before reading: what came until then is read
            news, self._news = self._news, []
            if batch := self._taken([*news, *self._with_steps(self._reader.read(self._clock()))]):
                yield batch
                if isinstance(batch[-1], RunEnded):
                    return
                await asyncio.sleep(0)  # ranks may say more than can be shown: keys and signals have their turn
                if not leaving:
                    continue
            if (end := self._end(owned=owned)) is not None:
                yield self._taken([end])
                return
            await asyncio.sleep(POLL_SECONDS)

    def _with_steps(self, events: list[Event]) -> list[Event]:
        """These, and how far ranks are by what they said; an end stays the last one."""
        end = next((i for i, event in enumerate(events) if isinstance(event, AttemptEnded | RunEnded)), None)
        before, after = events[:end], events[end:] if end is not None else []
        self._steps.take(before)
        steps = self._steps.news(self._clock(), last=end is not None)
        self._steps.take(after)
        return [*before, *([steps] if steps is not None else []), *after]

    def _taken(self, events: list[Event]) -> tuple[Event, ...]:
        events = [self._masked(event) for event in events]
        for event in events:
            self.state = apply(self.state, event)
        return tuple(events)

    def _masked(self, event: Event) -> Event:
        if isinstance(event, LogLines):
            return replace(event, lines=self.mask.lines(event.lines))
        return self.mask.event(event)

    def _end(self, *, owned: bool) -> RunEnded | None:
        """An end that is not written down, or that we leave; takes the run over when nobody has it."""
        if self._leaving:
            return RunEnded(self._clock(), "detached", int(ExitCode.OK), log_dir=self._log_dir)
        if self._owning is not None and self._owning.done():
            done, self._owning = self._owning, None
            return self._result(done)
        if self._owning is None and (self._is_alone(owned=owned) if self._looks else not owned):
            self._owning = asyncio.create_task(self._take_over())
        return None

    @property
    def _log_dir(self) -> str:
        """Where the logs are here; "" where they are read into a folder that goes."""
        return str(self.stored.log_dir) if self.stored == self._begun_in else ""

    def _result(self, done: asyncio.Task[RunEnded | None]) -> RunEnded | None:
        """How following it here ended; None where somebody else has it by now, who is read on beside. A viewer is shown
        what its hosts did not say.
        """
        try:
            return done.result()
        except DistuiError as exc:
            if self.stored.is_followed:
                return None
            if not self._looks:
                raise
            return self.lost(f"its hosts don't tell: {exc.message}")

    def _is_alone(self, *, owned: bool) -> bool:
        """Whether nobody has followed the run for so long that nobody is about to."""
        now = time.monotonic()
        if owned:
            self._alone_since = None
            return False
        self._alone_since = now if self._alone_since is None else self._alone_since
        return now - self._alone_since >= HANDED_OVER_SECONDS

    def lost(self, why: str) -> RunEnded:
        """The end where nobody here writes any more what happens, and it can't be read on from its hosts either."""
        return self.broken_off(f"nobody here follows {self.stored.run_id} any more, and {why}")

    def broken_off(self, message: str) -> RunEnded:
        """The end of reading a run that may live on."""
        now = self._clock()
        return RunEnded(
            now,
            "unknown",
            int(ExitCode.CONTACT_LOST),
            log_dir=self._log_dir,
            took=max(0.0, now - (self.state.started or now)),
            warnings=(message,),
        )

    async def _take_over(self) -> RunEnded | None:
        """Follow the run to its end; None when somebody else was faster, who is then read on beside."""
        ended: RunEnded | None = None
        with contextlib.suppress(AlreadyFollowed):
            async with self._own() as controller:
                if controller.stored != self.stored:
                    if self.stored.is_followed:
                        return None
                    self._reader.move(controller.stored)
                    self.stored = controller.stored
                self._owner = controller
                if self._stop is not None:
                    self._stop(controller)
                try:
                    async for batch in controller.batches():
                        if isinstance(batch[-1], RunEnded):
                            ended = batch[-1]
                finally:
                    self._owner = None
        return ended
