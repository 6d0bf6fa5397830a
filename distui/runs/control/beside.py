"""A run that another process of this machine follows, read from what that one writes: events, figures, logs.

What was there before is folded into the state; from then on every event and every line comes once, in order, also
when one owner leaves and another goes on: that one cuts the logs to its checkpoint and writes the same lines again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from distui.facts.values import loads
from distui.frozen import frozen
from distui.runs.lines.event_json import event_of
from distui.runs.lines.events import AttemptEnded, Event, LogLine, LogLines, RunEnded, RunOpened
from distui.runs.lines.text import text_of
from distui.runs.store.held_folder import HeldFolder
from distui.runs.store.new_figures import NewFigures
from distui.runs.store.new_lines import LogBegin, NewLines, NewLogLines, begins_of, cut_of, size_of
from distui.runs.store.recorded import tasks_of
from distui.runs.store.runs import StoredRun


@frozen
class _Log:
    """The log of one rank; rank None is a launcher's own."""

    task: int
    rank: int | None
    host: str
    file: NewLogLines

    def news(self, now: float, lines: list[bytes]) -> LogLines:
        return LogLines(now, self.task, self.rank, self.host, [LogLine("stdout", text_of(line)) for line in lines])


class StoredReader:
    """Reads on from where the files are when it is made; logs of a run that has no folder yet from their beginning."""

    def __init__(self, stored: StoredRun) -> None:
        self.stored = stored
        self._events = NewLines(stored.path / "events.ndjson")
        self._begin = size_of(self._events.path)
        self._folder = HeldFolder(stored)
        self._renamed = False
        self._figures = NewFigures(stored)
        self._cut = cut_of(stored.path)
        self._old = begins_of(stored)
        self._logs: dict[Path, _Log] = {}
        self._attempt = 0
        self._waiting: list[Event] = []

    def follow_folder(self) -> bool:
        """Read on where the run's folder is by now: it has another name once another run has its own. False where it is
        gone, and its name is another's.
        """
        found = self._folder.find()
        if found not in (None, self.stored):
            self.move(found)
            self._renamed = True
        return found is not None

    def move(self, stored: StoredRun) -> None:
        """Read on in `stored`, where the folder or a copy of it is, from where it is by now."""
        self.stored = stored
        self._folder = HeldFolder(stored)
        self._events.move(stored.path)
        self._figures.move(stored)
        for log in self._logs.values():
            log.file.move(stored.log_dir)
        self._logs = {log.file.path: log for log in self._logs.values()}

    def before(self) -> list[Event]:
        """What was there when it was made: the newest session's events, but for its end, and the newest figures."""
        found: list[Event] = []
        while self._events.at < self._begin and size_of(self._events.path) > self._events.at:
            for event in self._read_events(self._begin):
                if isinstance(event, RunOpened):
                    found.clear()
                if not isinstance(event, RunEnded):
                    found.append(event)
        for at, event in enumerate(found):
            if isinstance(event, RunOpened):
                self._open(event)
                found[at] = self._with_lines(event)
            elif isinstance(event, AttemptEnded):  # its logs are as they stay, the next one's begin again
                self._old, self._logs = {}, {}
        return [*found, *self._figures.newest()]

    def _with_lines(self, event: RunOpened) -> RunOpened:
        """With what ranks had said before: who counts from none takes a rank for silent since its start."""
        begins = ((rank, self._old.get(self.stored.rank_log(rank).name)) for rank in event.ranks)
        said = ((rank, begin.lines) for rank, begin in begins if begin is not None)
        return replace(event, lines={rank: lines for rank, lines in said if lines})

    def read(self, now: float) -> list[Event]:
        """What came since the last call; the end comes when all that was said before it has come."""
        self._waiting += self._read_events()
        lines: list[Event] = [*self._figures.read(), *self._read_lines(now)]
        if lines and any(isinstance(event, AttemptEnded | RunEnded) for event in self._waiting):
            return lines
        waiting, self._waiting = self._waiting, []
        return lines + [event for one in waiting for event in self._take(one, now)]

    def _read_events(self, until: int | None = None) -> list[Event]:
        """Stored events. That a session has left the run is no end of the run."""
        tasks = tasks_of(self.stored.read_plan()) if (lines := self._events.read(until)) else {}
        found: list[Event] = []
        for line in lines:
            with contextlib.suppress(ValueError):
                event = event_of(loads(line), tasks)
                if event is not None and not (isinstance(event, RunEnded) and event.outcome == "detached"):
                    found.append(event)
        return found

    def _take(self, event: Event, now: float) -> Iterator[Event]:
        match event:
            case RunOpened():
                if event.attempt == self._attempt:  # another owner goes on with it
                    return
                self._open(event)
            case AttemptEnded():
                yield from self._last_lines(now, self._kept(event.attempt).log_dir)
                self._old, self._logs = {}, {}
            case RunEnded():
                yield from self._last_lines(now, self.stored.log_dir)
                if self._renamed and event.log_dir:  # where the new one's are by now
                    event = replace(event, log_dir=str(self.stored.log_dir))
            case _:
                pass
        yield event

    def _open(self, event: RunOpened) -> None:
        """An attempt that is new here: its logs."""
        self._attempt = event.attempt
        stored = self._kept(event.attempt)
        for task, ranks in event.tasks.items():
            for rank in (*ranks, None):
                path = stored.node_log(task) if rank is None else stored.rank_log(rank)
                host = event.ranks.get(ranks[0], "") if ranks else ""
                file = NewLogLines(path, self._old.get(path.name, LogBegin()), self._cut)
                self._logs[path] = _Log(task, rank, host, file)

    def _kept(self, attempt: int) -> StoredRun:
        """Where the logs of an attempt are: the run's own folder is the next one's, once that begins."""
        kept = self.stored.attempt(attempt)
        return kept if kept.log_dir.exists() else self.stored

    def _read_lines(self, now: float) -> Iterator[Event]:
        folder = self._kept(self._attempt).log_dir
        for path, log in self._logs.items():
            log.file.path = folder / path.name
            if lines := log.file.read():
                yield log.news(now, lines)

    def _last_lines(self, now: float, folder: Path) -> Iterator[Event]:
        """The rest of logs that are complete, in `folder` by now, and their last lines without a newline."""
        for path, log in self._logs.items():
            log.file.path = folder / path.name
            while lines := log.file.read():
                yield log.news(now, lines)
            if lines := log.file.lines.rest():
                yield log.news(now, lines)
