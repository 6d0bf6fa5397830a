"""What the app is given: runs that are followed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from distui.plan.model import RunPlan
from distui.runs.lines.events import Event, StopReason
from distui.runs.state.reducer import RunState
from distui.runs.store.masking import Mask
from distui.runs.store.runs import StoredRun


class LiveRun(Protocol):
    """A run that is followed; `RunController` is one, a recorded run played again is another."""

    @property
    def plan(self) -> RunPlan: ...

    @property
    def state(self) -> RunState: ...

    @property
    def stored(self) -> StoredRun: ...

    @property
    def mask(self) -> Mask:
        """Hides values of its secrets in what was recorded without knowing them."""

    def batches(self) -> AsyncIterator[tuple[Event, ...]]:
        """Events in batches; ends after the batch that holds RunEnded."""

    def request_stop(self, reason: StopReason, *, grace: float | None = None) -> None:
        """SIGTERM and the grace, or SIGKILL at once with `grace=0`."""

    def request_detach(self) -> None:
        """Leave the run alone; it lives on."""
