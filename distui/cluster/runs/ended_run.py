"""A run that has ended, as a program sees it that comes later: from its folder on this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import reduce
from types import TracebackType

from distui.cluster.attach.places import recorded_plan
from distui.cluster.masks import mask_of
from distui.cluster.settings import ClusterSettings
from distui.errors import ExitCode, NotFound
from distui.plan.model import RunPlan
from distui.runs.lines.event_json import event_of
from distui.runs.lines.events import Event, RunEnded, StopReason
from distui.runs.report.summary import summary
from distui.runs.state.reducer import RunState, apply
from distui.runs.store.masking import Mask, stored_secrets
from distui.runs.store.recorded import stored_events
from distui.runs.store.runs import StoredRun


class EndedRun:
    """Shows it as `RunController` does: its last event, and what all of them add up to."""

    def __init__(self, plan: RunPlan, stored: StoredRun, mask: Mask, ended: RunEnded) -> None:
        self.plan = plan
        self.stored = stored
        self.mask = mask
        self._ended = mask.event(ended)
        events = (mask.event(event) for event in stored_events(stored))
        self.state = apply(reduce(apply, events, RunState()), self._ended)

    @classmethod
    def read(cls, settings: ClusterSettings, run: str) -> EndedRun:
        """The one that is recorded under this name. Raises NotFound where that can't be read."""
        plan, stored = recorded_plan(settings, run), settings.store.need(run)
        result = summary(stored).result
        ended = event_of(result) if result is not None else None
        if not isinstance(ended, RunEnded):
            raise NotFound(f"how {run} ended can't be read here", hint=f"`distui show {run}` shows what can be")
        return cls(plan, stored, mask_of(settings, stored_secrets(stored), stored), ended)

    async def __aenter__(self) -> EndedRun:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is held."""

    async def batches(self) -> AsyncIterator[tuple[Event, ...]]:
        """The last event."""
        yield (self._ended,)

    async def why(self) -> None:
        """Nobody can be asked any more."""

    def request_stop(
        self, reason: StopReason, *, grace: float | None = None, exit: ExitCode = ExitCode.INTERRUPTED
    ) -> None:
        """It has ended."""

    def request_detach(self) -> None:
        """It has ended."""
