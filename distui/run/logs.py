"""Per-rank log files of one task: bytes first, eyes second, each line exactly once also after a crash here.

A checkpoint pairs the lengths of the files with the point the follower resumes from. It is written only when no
line is open in memory, so that the files hold all that the checkpoint counts; after a crash the files are cut to
those lengths and reading resumes from that point (FOLLOW section 4, step 5).
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from distui.run.docker_frames import STDERR, Batch
from distui.run.events import LogLine
from distui.run.lines import LineAssembler, Stream, text_of
from distui.run.store import StoredRun, open_private, write_private
from distui.run.times import Stamps, pack, times_of

Splitter = Callable[[bytes], Sequence[tuple[int | None, bytes]]]
"""A line of several ranks -> its pieces, each with its rank (None: the launcher's own words)."""

Group = tuple[int | None, list[LogLine], list[bytes]]


@dataclass(frozen=True, slots=True)
class Written:
    """Lines of one rank (None: the launcher's own) that were just written to its file."""

    rank: int | None
    lines: tuple[LogLine, ...]


class TaskLog:
    """The log files of one task. With several ranks in a task, `split` tells whose a line is.

    `offset` is how far the host's clock is ahead of ours, in seconds; `clock` times lines without a stamp.
    """

    def __init__(
        self,
        run: StoredRun,
        task: int,
        ranks: Sequence[int],
        split: Splitter | None = None,
        *,
        offset: float = 0.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._run = run
        self._task = task
        self._ranks = tuple(ranks)
        self._only = ranks[0] if split is None else None
        self._split = split
        self._assembler = LineAssembler()
        self._pieces: dict[int | None, LineAssembler] = {}
        self._files: dict[Path, IO[bytes]] = {}
        self._stamps: dict[Stream, bytes] = {}
        self._offset = offset
        self._clock = clock
        self._moments = Stamps()
        self._open_ended: set[int | None] = set()
        self.error: OSError | None = None
        """Set when a file could not be written; from then on nothing is written and nothing more is counted."""

    def restore(self) -> Any | None:
        """Cut the files back to the last checkpoint and return its resume value, None to read from the start."""
        try:
            saved = json.loads(self._run.follow_file(self._task).read_bytes())
            lengths = {str(k): int(v) for k, v in saved["files"].items()}
            resume = saved["resume"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            lengths, resume = {}, None
        for path in self._own_files():
            with contextlib.suppress(FileNotFoundError):
                os.truncate(path, min(lengths.get(path.name, 0), path.stat().st_size))
        return resume

    def _own_files(self) -> Iterator[Path]:
        ranks: Sequence[int | None] = (None, *self._ranks) if self._only is None else (self._only,)
        for rank in ranks:
            yield self._log(rank)
            yield times_of(self._log(rank))

    def _log(self, rank: int | None) -> Path:
        return self._run.node_log(self._task) if rank is None else self._run.rank_log(rank)

    def feed(self, batch: Batch) -> list[Written]:
        """Write what whole lines `batch` completes; returns them grouped by rank, in order."""
        groups: list[Group] = []
        for number, stamp, data in zip(batch.streams, batch.stamps, batch.pieces, strict=True):
            stream: Stream = "stderr" if number == STDERR else "stdout"
            self._stamps[stream] = stamp  # all pieces of a line share one stamp (FAULTS M5)
            for line in self._assembler.feed(stream, data):
                self._sort_out(groups, stream, line)
        return self._write(groups)

    def flush(self) -> list[Written]:
        """Write the open ends: last lines without a newline. For the end of a log only."""
        groups: list[Group] = []
        for stream, line in self._assembler.flush():
            self._sort_out(groups, stream, line)
        for rank, pieces in self._pieces.items():
            for stream, line in pieces.flush():
                self._add(groups, rank, stream, line)
        return self._write(groups)

    def _sort_out(self, groups: list[Group], stream: Stream, line: bytes) -> None:
        """Give each piece of a line to its rank; a piece without newline waits for the rest of its line."""
        if self._split is None:
            self._add(groups, self._only, stream, line)
            return
        for rank, piece in self._split(line):
            for whole in self._pieces.setdefault(rank, LineAssembler()).feed(stream, piece):
                self._add(groups, rank, stream, whole)

    def _add(self, groups: list[Group], rank: int | None, stream: Stream, line: bytes) -> None:
        seen = LogLine(stream, text_of(line), self._stamps.get(stream, b"").decode("ascii", "replace"))
        if groups and groups[-1][0] == rank:
            groups[-1][1].append(seen)
            groups[-1][2].append(line)
        else:
            groups.append((rank, [seen], [line]))

    def _write(self, groups: list[Group]) -> list[Written]:
        for rank, lines, pieces in groups:
            moments = self._said(rank, lines, pieces)
            if self.error is None:
                self._append(self._log(rank), b"".join(pieces))
                self._append(times_of(self._log(rank)), pack(moments))
        return [Written(rank, tuple(lines)) for rank, lines, _ in groups]

    def _said(self, rank: int | None, lines: list[LogLine], pieces: list[bytes]) -> list[float]:
        """When each line that begins among `pieces` was said, on our clock."""
        moments = []
        for line, piece in zip(lines, pieces, strict=True):
            if rank not in self._open_ended:
                at = self._moments.parse(line.stamp)
                moments.append(self._clock() if at is None else at - self._offset)
            (self._open_ended.discard if piece.endswith(b"\n") else self._open_ended.add)(rank)
        return moments

    def _append(self, path: Path, data: bytes) -> None:
        try:
            file = self._files.get(path)
            if file is None:
                file = self._files[path] = open_private(path)
            file.write(data)
            file.flush()
        except OSError as exc:
            self.error = exc

    def checkpoint(self, resume: Mapping[str, Any]) -> bool:
        """Store how far the log was read. False when a line is open or a write failed: then nothing is stored."""
        if self.error is not None or not self._clean:
            return False
        data = json.dumps({"files": self._lengths(), "resume": resume}).encode()
        try:
            write_private(self._run.follow_file(self._task), data)
        except OSError as exc:
            self.error = exc
            return False
        return True

    @property
    def _clean(self) -> bool:
        return self._assembler.clean and all(pieces.clean for pieces in self._pieces.values())

    def _lengths(self) -> dict[str, int]:
        return {p.name: p.stat().st_size for p in self._own_files() if p.exists()}

    def close(self) -> None:
        """Close the files; never raises."""
        for file in self._files.values():
            with contextlib.suppress(OSError):
                file.close()
        self._files.clear()
