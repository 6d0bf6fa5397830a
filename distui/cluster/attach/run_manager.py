"""Keeps runs alive for the terminal UI: controllers are owned here, outside the app, and drained whoever looks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import TypeVar

from distui.amounts import counted
from distui.cluster.attach.beside import Beside
from distui.copies import copy_folder
from distui.errors import DistuiError
from distui.plan.model import RunPlan
from distui.runs.control.controller import RunController
from distui.runs.follow.fanout import Fanout
from distui.runs.follow.survived import survived
from distui.runs.lines.events import Event, RunEnded, StopReason
from distui.runs.state.reducer import RunState
from distui.runs.store.masking import NOTHING, Mask
from distui.runs.store.recorded import stored_events, stored_samples
from distui.runs.store.runs import StoredRun
from distui.runs.watch.progress.logged_steps import last_steps

T = TypeVar("T")


class FollowedRun:
    """A run that is read to its end whoever looks: its events are there for many readers."""

    def __init__(self, controller: RunController | Beside) -> None:
        self.controller = controller
        self.fan = Fanout(beside=isinstance(controller, Beside))

    @property
    def plan(self) -> RunPlan:
        """The plan of the newest attempt."""
        return self.controller.plan

    @property
    def stored(self) -> StoredRun:
        """The run's folder on this machine."""
        return self.controller.stored

    @property
    def mask(self) -> Mask:
        """Hides values of the run's secrets."""
        return self.controller.mask

    @property
    def state(self) -> RunState:
        """What its events add up to so far."""
        return self.fan.state

    def batches(self) -> AsyncIterator[tuple[Event, ...]]:
        """See `Fanout.batches`."""
        return self.fan.batches()

    def request_stop(self, reason: StopReason, *, grace: float | None = None) -> None:
        """SIGTERM and the grace, or SIGKILL at once with `grace=0`."""
        self.controller.request_stop(reason, grace=grace)

    def request_detach(self) -> None:
        """Leave it alone; it lives on."""
        self.controller.request_detach()


class RecordedRun:
    """An ended run, played again from its folder."""

    def __init__(self, plan: RunPlan, stored: StoredRun, mask: Mask = NOTHING) -> None:
        self.mask = mask
        self.plan = plan
        self.stored = stored
        self.fan = Fanout()
        self.fan.put([*stored_samples(stored), *self._events(stored)])
        self.fan.close()

    def _events(self, stored: StoredRun) -> list[Event]:
        """Those that were stored, and before the end how far each rank was: that stands in its log."""
        events: list[Event] = [self.mask.event(event) for event in stored_events(stored)]
        steps = last_steps(stored, self.plan, events[-1].at) if events else None
        end = events[-1:] if events and isinstance(events[-1], RunEnded) else []
        return [*events[: len(events) - len(end)], *([steps] if steps is not None else []), *end]

    @property
    def state(self) -> RunState:
        """What its events add up to."""
        return self.fan.state

    async def batches(self) -> AsyncIterator[tuple[Event, ...]]:
        """The stored samples, then the stored events."""
        samples = stored_samples(self.stored)
        if samples:
            yield samples
        async for batch in self.fan.batches():
            yield batch

    def request_stop(self, reason: StopReason, *, grace: float | None = None) -> None:
        """It has ended."""

    def request_detach(self) -> None:
        """It has ended."""


class RunManager:
    """Owns the controllers of the runs that are followed; leaving it detaches from those that live,
    or stops them first (`stop_on_exit`) when their hosts go away with it."""

    def __init__(self, *, stop_on_exit: bool = False, say: Callable[[str], None] = lambda words: None) -> None:
        self.stop_on_exit = stop_on_exit
        self.say = say
        """Tells what leaving waits for, when that is not done in a moment."""
        self.runs: dict[str, FollowedRun] = {}
        self._stack = AsyncExitStack()
        self._pumps: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> RunManager:
        await self._stack.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        for run in self.runs.values():
            if run.state.ended is None:
                if self.stop_on_exit or run.state.begins:
                    self.say(_waited_for(run, stop_on_exit=self.stop_on_exit))
                run.request_stop("user") if self.stop_on_exit else run.request_detach()
        try:
            await asyncio.gather(*self._pumps, return_exceptions=True)
        finally:  # also where somebody does not wait
            await self._stack.aclose()

    async def keep(
        self,
        connected: AbstractAsyncContextManager[T],
        make: Callable[[T], RunController | Beside],
    ) -> FollowedRun:
        """Start or adopt a run: `make` gets a connector that lives as long as the run is followed.

        Raises AlreadyFollowed when another process of this machine owns it.
        """
        stack = AsyncExitStack()
        try:
            connector = await stack.enter_async_context(connected)
            controller = make(connector)
            await stack.enter_async_context(controller)
        except BaseException:
            await stack.aclose()
            raise
        run = FollowedRun(controller)
        self.runs[controller.plan.run_id] = run
        pump = asyncio.create_task(self._pump(run, stack), name=f"pump {controller.plan.run_id}")
        self._pumps.add(pump)
        pump.add_done_callback(self._pumps.discard)
        return run

    async def _pump(self, run: FollowedRun, stack: AsyncExitStack) -> None:
        """Drain the run for ever, so that it never waits for a screen; then let go of its hosts."""
        try:
            async for batch in run.controller.batches():
                run.fan.put(batch)
                if isinstance(batch[-1], RunEnded):
                    break
        except Exception as exc:
            if not isinstance(run.controller, Beside):
                raise
            run.fan.put([_lost(run.controller, exc)])
        finally:
            run.fan.close()
            with contextlib.suppress(Exception):  # a bug in the controller was reported by its last event
                await stack.aclose()

    def folder(self) -> Path:
        """A private folder for what is only looked on at; it goes when the manager does."""
        return self._stack.enter_context(copy_folder())

    @property
    def living(self) -> Mapping[str, FollowedRun]:
        """Runs that have not ended."""
        return {name: run for name, run in self.runs.items() if run.state.ended is None}


def _lost(run: Beside, error: Exception) -> RunEnded:
    """The end of a run whose owner has left and that can't be taken over: whoever looks sees why, and may open it
    again. An error that nobody expected is also handed to whoever keeps such errors.
    """
    if isinstance(error, DistuiError):
        return run.lost(f"it could not be taken over: {error.message}")
    survived(error, f"reading {run.stored.run_id}")
    return run.broken_off(f"{run.stored.run_id} is read no more: an error in distui ({type(error).__name__})")


def _waited_for(run: FollowedRun, *, stop_on_exit: bool) -> str:
    name, hosts = run.plan.run_id, counted(len(run.plan.hosts), "host")
    if stop_on_exit:
        return f"distui: stopping {name} on {hosts}, which go away with distui"
    return f"distui: {name} is being started on {hosts}: leaving when that is done; Ctrl-C undoes it"
