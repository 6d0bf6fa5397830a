"""Where a run's events go: folded into its state, written to its folder, handed to its one reader."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator

from distui.plan.model import RunPlan
from distui.runs.attempt.outbox import Outbox
from distui.runs.lines.events import Event, LogLines, Notice, RunEnded
from distui.runs.series.keeper import SeriesKeeper
from distui.runs.state.reducer import RunState, apply
from distui.runs.store.journal import Journal
from distui.runs.store.masking import Mask
from distui.runs.store.runs import StoredRun, cannot_write


class Emitter:
    """Takes the events of a run. Its reader reads `batches`; who reads slowly makes logs wait for `room`."""

    def __init__(self, stored: StoredRun, mask: Mask, clock: Callable[[], float]) -> None:
        self.state = RunState()
        self._stored = stored
        self._mask = mask
        self._clock = clock
        self._outbox = Outbox()
        self._journal: Journal | None = None
        self._series: SeriesKeeper | None = None
        self._plan: RunPlan | None = None
        self._unwritten = False
        """Whether events wait for space on the disk here."""

    def batches(self) -> AsyncIterator[tuple[Event, ...]]:
        """Events as they come, some 8 ms of them at a time; ends after the batch that holds RunEnded."""
        return self._outbox.batches()

    @property
    def behind(self) -> bool:
        """Whether the reader is so far behind that logs wait for it."""
        return self._outbox.behind

    async def room(self) -> None:
        """Wait while it is."""
        await self._outbox.room()

    async def discard(self) -> None:
        """Take what nobody reads any more, until cancelled."""
        await self._outbox.discard()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """While the block runs, events are written to the run's folder, too. Raises CheckFailed where they can't be."""
        try:
            self._journal = journal = Journal(self._stored)
        except OSError as exc:
            raise cannot_write(self._stored.path, exc) from exc
        self._series = series = SeriesKeeper(self._stored.series_dir)
        if self._plan is not None:
            series.measure(self._plan)
        try:
            yield
        finally:
            self._journal = self._series = None
            journal.close()
            series.close()

    def measure(self, plan: RunPlan) -> None:
        """What comes is of this plan from now on: whose GPU it is, and which network."""
        self._plan = plan
        if self._series is not None:
            self._series.measure(plan)

    async def emit(self, event: Event) -> None:
        """Fold, store and hand on one event, without values of secrets; waits while the reader is far behind."""
        event = self._mask.event(event)
        self.state = apply(self.state, event)
        if isinstance(event, RunEnded) and self._series is not None:
            self._series.close()  # whoever reads that it has ended reads all that was measured
        news = self._write(self._journal, event) if self._journal is not None else None
        if self._series is not None:
            self._series.take(event)
        await self._outbox.put(event)
        if news is not None and not isinstance(event, RunEnded):
            await self.emit(news)

    def _write(self, journal: Journal, event: Event) -> Notice | None:
        """Write it to the journal; what is to be said when that can't be done, and when it can be again."""
        before = self._unwritten
        if isinstance(event, LogLines) and not before:
            return None  # the log files have them
        try:
            journal.write((event,))
        except OSError as exc:
            self._unwritten = True
            message = f"can't write {self._stored.path}: {exc.strerror}; the run is still running"
            return None if before else Notice(self._clock(), "error", message)
        self._unwritten = False
        missing = "events and figures" if journal.lost else "only figures"
        message = f"{self._stored.path} is written on; {missing} of that time are missing there"
        return Notice(self._clock(), "info", message) if before else None
