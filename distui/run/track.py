"""One task of a run as its watcher sees it: its log, its end, its last lines."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from distui.plan.model import RunPlan, Task
from distui.plan.torchrun import split_pieces
from distui.run.lines import text_of
from distui.run.logs import Splitter, TaskLog, Written
from distui.run.resume import ResumePoint
from distui.run.verdict.old import Exit

TAIL_LINES = 200
TAIL_BYTES = 4000
"""Kept of each line."""

TaskPhase = Literal["planned", "running", "exited", "drained", "removed"]


def _is_set() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@dataclass(slots=True)
class TaskTrack:
    """One task as it is followed."""

    task: Task
    log: TaskLog
    phase: TaskPhase = "planned"
    exit: Exit | None = None
    never_started: bool = False
    exit_at: float = 0.0
    """When it ended, in our clock."""
    started_at: float | None = None
    """When it started, in our clock; None when the engine gave no time."""
    before_stop: bool = False
    """Whether its end was known here before any stop began: whatever the clocks say, no stop was its cause."""
    saved_at: float = 0.0
    unsaved: ResumePoint | None = None
    room: asyncio.Event = field(default_factory=_is_set)
    """Not set while its log can't be written here, and so is not read (`room.py`)."""
    numbers: dict[int, int] = field(default_factory=dict)
    """Rank -> the number that torchrun gives it now; with c10d another one after each rendezvous."""
    told_numbers: dict[int, int] = field(default_factory=dict)
    failures: int = 0
    """How often torchrun said that a rank of this node failed."""
    _tails: dict[int | None, deque[bytes]] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        """Whether nothing more will come of it."""
        return self.phase in ("drained", "removed")

    def save(self) -> None:
        """Note beside its log how far that was read, when there is news and it can be written."""
        if self.unsaved is not None and self.log.checkpoint(self.unsaved.to_json()):
            self.unsaved = None

    def remember(self, written: Iterable[Written]) -> None:
        """Keep the last lines of each rank for the diagnosis."""
        for group in written:
            tail = self._tails.setdefault(group.rank, deque(maxlen=TAIL_LINES))
            tail.extend(piece[:TAIL_BYTES] for piece in group.lines.pieces[-TAIL_LINES:])

    def tails(self) -> dict[int | None, tuple[str, ...]]:
        """The last lines of each rank (None: the launcher's own words)."""
        return {rank: tuple(map(text_of, tail)) for rank, tail in self._tails.items()}


def splitter(plan: RunPlan, task: Task, numbers: dict[int, int]) -> Splitter | None:
    """How lines of a task with several ranks are told apart; None when it has one. `numbers` takes torchrun's own."""
    if plan.launcher != "torchrun":
        return None
    return lambda line: split_pieces(line, task.ranks, numbers)
