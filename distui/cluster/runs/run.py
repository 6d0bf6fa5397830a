"""A run as a program sees it: its events as they come, its state, and how it ended."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import TracebackType

from distui.cluster.attach.beside import Beside
from distui.cluster.runs.ended_run import EndedRun
from distui.cluster.runs.not_started import refuse_not_started
from distui.cluster.runs.run_events import RunEvents
from distui.errors import NotFound, UsageError
from distui.plan.model import RunPlan
from distui.runs.control.controller import RunController
from distui.runs.lines.events import Event, RunEnded
from distui.runs.lines.explanation import Explanation
from distui.runs.series.older import series_of
from distui.runs.series.reader import SeriesReader
from distui.runs.state.reducer import RunState
from distui.runs.store.why_records import kept, telling


def checked_grace(grace: float | None) -> float | None:
    """The same. Raises UsageError for what is no number of seconds."""
    given: object = grace  # of a program that nobody has checked
    if given is None or (isinstance(given, int | float) and 0 <= given < math.inf):
        return grace
    raise UsageError(f"grace is {grace!r}: expected a number of seconds, 0 or more, or None")


class Run:
    """A run that this process follows: one it has started, or is attached to.

    Use as an async context manager, and read `events` to the end.

    Leaving the block before the run has ended leaves it alone: it lives on, as after `distui run --detach`. A start
    that is not over by then is undone first: `result` is then that it was stopped, and what could not be removed.
    """

    def __init__(
        self, controller: RunController | Beside | EndedRun, refuse: Callable[[str], None] = lambda what: None
    ) -> None:
        self._controller = controller
        self._refuse = refuse
        self.result: RunEnded | None = None
        """How it ended; None until then. Its `outcome` is `"succeeded"`, `"failed"`, `"stopped"`, `"unknown"` (contact
        was lost), `"detached"` (it was left alone) or `"launch_failed"` (it was not started; `events` raises why).
        """
        self._events = RunEvents(controller.batches)

    async def __aenter__(self) -> Run:
        """Begin. Raises AlreadyFollowed when another process of this machine follows a run of that name."""
        await self._controller.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._events.close()
        finally:
            try:
                await self._controller.__aexit__(kind, error, trace)
            finally:
                if self.result is None:
                    self.result = self._controller.state.ended  # nobody has read that far

    @property
    def name(self) -> str:
        """The run's name, by which `distui attach`, `logs` and `stop` know it."""
        return self.plan.run_id

    @property
    def plan(self) -> RunPlan:
        """The plan of the newest attempt."""
        return self._controller.plan

    @property
    def state(self) -> RunState:
        """What its events add up to so far: ranks, hosts, progress."""
        return self._controller.state

    @property
    def folder(self) -> Path:
        """Its folder on this machine: logs, events, figures."""
        return self._controller.stored.path

    def log(self, rank: int) -> Path:
        """The file with what a rank has printed so far."""
        return self._controller.stored.rank_log(rank)

    async def events(self) -> AsyncIterator[Event]:
        """What happens, as it comes; ends after RunEnded, which is the `result`.

        Each event comes once: who stops reading and reads again, or waits, goes on with the next one. Who reads slowly
        slows the ranks' output down, and loses nothing.

        After the last event it raises CheckFailed, HostsUnreachable or LaunchFailed when the run was not started
        (outcome `launch_failed`): what had begun was undone, or is named. A rank that fails raises nothing.
        Raises UsageError once the run was left before its end.
        """
        while self.result is None and (event := await self._events.take()) is not None:
            if isinstance(event, RunEnded):
                self.result = event
            yield event
        if self.result is None:
            message = f"{self.name} was left before its end, and is not followed here any more"
            raise UsageError(message, hint=f"`distui attach {self.name}` follows it")
        refuse_not_started(self.result, self.state)

    async def wait(self) -> RunEnded:
        """Read the events that are left, to the end; how the run ended. At once when it has ended.

        Raises what `events` raises.
        """
        async for _ in self.events():
            pass
        assert self.result is not None
        return self.result

    def metrics(self) -> SeriesReader:
        """What it measured so far, as this machine keeps it: `series` names what there is, `rows` has the values."""
        return series_of(self._controller.stored)

    async def why(self) -> Explanation:
        """Ask its ranks why it does not go on: who holds the others up, in which collective, and where in the code.

        They go on as they are, and what they tell is kept in the run's folder. Of a run that has ended, or that another
        process of this machine follows, it is the last answer. Raises NotFound where there is none.
        """
        found = await self._controller.why() if self.result is None else None
        record = telling(kept(self._controller.stored)) if found is None else None
        if record is not None:
            found = self._controller.mask.event(record.found)
        if found is None:
            message = f"no answer of the ranks of {self.name} is kept"
            raise NotFound(message, hint=f"`distui show {self.name}` tells how it stands")
        return found

    def stop(self, *, grace: float | None = None) -> None:
        """Stop it: SIGTERM, then SIGKILL after `grace` seconds (the job's, when None; at once with 0).

        Raises UsageError with read-only settings, and for a grace that is no number of seconds.
        """
        self._refuse("a stop")
        self._controller.request_stop("user", grace=checked_grace(grace))

    def detach(self) -> None:
        """Leave it alone; it lives on."""
        self._controller.request_detach()
