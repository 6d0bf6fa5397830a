"""One task of a run as its watcher sees it: its log, its end, its last lines."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from distui.codec import write
from distui.files import last_bytes
from distui.plan.command.torchrun import split_pieces
from distui.plan.model import RunPlan, Task
from distui.runs.follow.followed import is_set
from distui.runs.follow.resume import ResumePoint
from distui.runs.lines.text import last_drawn, text_of
from distui.runs.lines.times import WIDTH, read_times, times_of, unpack
from distui.runs.store.logs import Splitter, TaskLog, Written
from distui.runs.store.runs import StoredRun
from distui.runs.verdict.evidence import End, Line, Lines, TaskSeen

TAIL_LINES = 200
TAIL_BYTES = 4000
"""Kept of each line."""

TaskPhase = Literal["planned", "running", "exited", "drained", "removed"]


@dataclass(slots=True)
class TaskTrack:
    """One task as it is followed."""

    task: Task
    log: TaskLog
    phase: TaskPhase = "planned"
    end: End | None = None
    removed: bool = False
    """Whether its container or folder was gone though distui did not remove it."""
    unseen: bool = False
    """Whether it was started, and its container was gone before anybody here saw how it ended."""
    cut_off: bool = False
    """Whether nothing of it was there, and no start of it is recorded here, where the run was launched."""
    lines_missing: bool = False
    """Whether lines of it were seen to be missing here: cut, rotated or removed on its host before they were read."""
    saved_at: float = 0.0
    looked_at: float = float("-inf")
    """When it was last looked at what there is of a line without its newline."""
    unsaved: ResumePoint | None = None
    room: asyncio.Event = field(default_factory=is_set)
    """Not set while its log can't be written here, and so is not read (`room.py`)."""
    numbers: dict[int, int] = field(default_factory=dict)
    """Rank -> the number that torchrun gives it now; with c10d another one after each rendezvous."""
    reported_numbers: dict[int, int] = field(default_factory=dict)
    failures: int = 0
    """How often torchrun said that a rank of this node failed."""
    _tails: dict[int | None, deque[tuple[float | None, bytes]]] = field(default_factory=dict)
    _grown: set[int] = field(default_factory=set)
    """Ranks that said something since `news_of_ranks` was asked last."""
    _drawn: dict[int, tuple[float, bytes]] = field(default_factory=dict)
    """Of ranks that draw a progress bar: what it showed last, and when; until the rank says a line."""
    _bars: dict[int, bytes] = field(default_factory=dict)
    """Of ranks whose progress bar is an open line: what it showed last; until that line ends."""
    _seen: TaskSeen | None = None

    @property
    def over(self) -> bool:
        """Whether nothing more will come of it."""
        return self.phase in ("drained", "removed")

    def save(self) -> None:
        """Note beside its log how far that was read, when there is news and it can be written."""
        if self.unsaved is not None and self.log.checkpoint(write(self.unsaved)):
            self.unsaved = None

    @property
    def exit_at(self) -> float:
        """When it ended, in our clock; the beginning of time before."""
        return (self.end.when if self.end is not None else None) or 0.0

    @property
    def started_at(self) -> float | None:
        """When it started, in our clock; None when the engine gave no time."""
        return self.end.started_at if self.end is not None else None

    def remember(self, written: Iterable[Written]) -> None:
        """Keep the last lines of each rank, with their times, for the verdict."""
        for group in written:
            tail = self._tails.setdefault(group.rank, deque(maxlen=TAIL_LINES))
            pieces = group.lines.pieces[-TAIL_LINES:]
            tail.extend(zip(_times(group.moments, len(pieces)), [_shown(p) for p in pieces], strict=True))
            if group.rank is not None:
                self._grown.add(group.rank)
                self._drawn.pop(group.rank, None)  # any line is newer
                if group.rank in self._bars and any(map(_is_bar, pieces)):
                    del self._bars[group.rank]
            self._seen = None

    def draws(self, rank: int, now: float, shown: bytes) -> bool:
        """Keep what its progress bar shows, until it says a line. Whether that is new: a bar may stay open, and not be
        drawn any more.
        """
        shown = shown[:TAIL_BYTES]
        if self._bars.get(rank) == shown:
            return False
        self._bars[rank] = shown
        self._drawn[rank] = (now, shown)
        self._grown.add(rank)
        return True

    def recall(self, stored: StoredRun) -> None:
        """Take the last lines from the files, where an earlier distui read them."""
        for rank in (None, *self.task.ranks):
            log = stored.node_log(self.task.index) if rank is None else stored.rank_log(rank)
            if lines := lines_in(log):
                self._tails[rank] = deque([(at, _shown(line)) for at, line in lines], maxlen=TAIL_LINES)
        self._grown.update(self.task.ranks)
        self._seen = None

    def news_of_ranks(self) -> dict[int, Sequence[tuple[float | None, bytes]]]:
        """The last lines of each rank that said something since this was asked last, the newest first."""
        grown, self._grown = self._grown, set()
        return {rank: (*self._drawn_by(rank), *reversed(self._tails.get(rank, ()))) for rank in sorted(grown)}

    def _drawn_by(self, rank: int) -> Sequence[tuple[float | None, bytes]]:
        return (self._drawn[rank],) if rank in self._drawn else ()

    def ended(self, end: End) -> None:
        """Note how it ended; what was noted first stays."""
        if self.end is None:
            self.end, self._seen = end, None

    def gone(self) -> None:
        """Note that its container or folder is not there, though distui did not remove it."""
        self.removed, self._seen = True, None

    def seen(self) -> TaskSeen:
        """What is known of it, for the verdict."""
        if self._seen is None:
            task = self.task
            self._seen = TaskSeen(
                index=task.index,
                host=task.host,
                ranks=task.ranks,
                name=task.name if task.labels.get("distui.name") else "",
                role=task.role,
                engine=task.engine,
                end=self.end,
                removed=self.removed,
                lines=self._lines(),
            )
        return self._seen

    def _lines(self) -> Mapping[int | None, Lines]:
        """The last lines of each rank (None: the launcher's own words)."""
        return {rank: tuple(Line(at, text_of(piece)) for at, piece in tail) for rank, tail in self._tails.items()}


def _times(moments: bytes, pieces: int) -> Sequence[float | None]:
    """When each of the last pieces was said; parts of an endless line have the time of the line after them, or none."""
    known: Sequence[float | None] = unpack(moments[-pieces * WIDTH :]) if pieces else ()
    missing = pieces - len(known)
    return [*[known[0] if known else None] * missing, *known] if missing else known


def lines_in(log: Path) -> list[tuple[float | None, bytes]]:
    """The last lines of a log file and when each was said; none where there is no file. A progress bar is one line, of
    which the end is enough: it was drawn until the next line began, the last one until the file was written to last.
    """
    try:
        data, whole = last_bytes(log, TAIL_LINES * 320)
        said = times_of(log).stat().st_size // WIDTH if times_of(log).exists() else 0
        written = log.stat().st_mtime
    except OSError:
        return []
    lines = data.removesuffix(b"\n").split(b"\n") if data else []
    last = lines if whole or _is_bar(lines[0]) else lines[1:]
    times = read_times(times_of(log), max(0, said - len(last)), len(last))
    found = [*[None] * (len(last) - len(times)), *times]
    ends = [*found, written][1:]
    return [(end if _is_bar(line) else at, line) for at, end, line in zip(found, ends, last, strict=True)]


def _is_bar(line: bytes) -> bool:
    return b"\r" in line.rstrip(b"\r\n")


def _shown(line: bytes) -> bytes:
    """What counts of a line: its beginning, but of a progress bar what it showed last."""
    return last_drawn(line)[:TAIL_BYTES]


def splitter(plan: RunPlan, task: Task, numbers: dict[int, int]) -> Splitter | None:
    """How lines of a task are sorted by rank; None when it has one rank. `numbers` takes torchrun's own."""
    if plan.launcher != "torchrun":
        return None
    return lambda line: split_pieces(line, task.ranks, numbers)
