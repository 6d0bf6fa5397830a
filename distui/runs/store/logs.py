"""Per-rank log files of one task: bytes first, eyes second, each line exactly once also after a crash here.

A checkpoint pairs the lengths of the files with the point the follower resumes from. It is written only when no
line is open in memory, so that the files hold all that the checkpoint counts; after a crash the files are cut to
those lengths and reading resumes from that point (FOLLOW section 4, step 5). What a full disk does not take waits in
memory: whoever feeds a log stops while it has an `error`, and goes on after a `retry`.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any, TypeVar

from distui.codec import read, write
from distui.facts.values import loads
from distui.files import read_bytes, write_private
from distui.frozen import frozen
from distui.runs.lines.batch import STDERR, STDOUT, Batch
from distui.runs.lines.columns import LineColumn, StampColumn
from distui.runs.lines.text import LineAssembler, Stream
from distui.runs.lines.times import WIDTH, Stamps, pack, times_of
from distui.runs.store.growing import Changed, GrowingFile
from distui.runs.store.masking import NOTHING, Mask
from distui.runs.store.runs import StoredRun

T = TypeVar("T")

Splitter = Callable[[bytes], Sequence[tuple[int | None, bytes]]]
"""A line of several ranks -> its pieces, each with its rank (None: the launcher's own words)."""

Columns = tuple[list[int], list[bytes], list[bytes]]
Groups = list[tuple[int | None, Columns]]


@frozen
class Written:
    """Lines of one rank (None: the launcher's own) that were just written to its file."""

    rank: int | None
    lines: Batch
    hidden: tuple[str, ...] = ()
    """Names of the secrets whose values were in them."""
    moments: bytes = b""
    """When each line that begins in them was said, on our clock, as in a file of times."""


@frozen
class _Checkpoint:
    """How far a task's log was read, and into which files here."""

    files: Mapping[str, int]
    """Name -> length."""
    resume: Any


class TaskLog:
    """The log files of one task. With several ranks in a task, `split` tells whose a line is.

    `offset` is how far the host's clock is ahead of ours, in seconds; `clock` times lines without a stamp.
    What `mask` knows is hidden before it is written.
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
        mask: Mask = NOTHING,
    ) -> None:
        self._run = run
        self._task = task
        self._ranks = tuple(ranks)
        self._only = ranks[0] if split is None else None
        self._split = split
        self._assembler = LineAssembler(mask.cut)
        self._pieces: dict[int | None, LineAssembler] = {}
        self._files: dict[Path, GrowingFile] = {}
        self._paths: dict[int | None, tuple[Path, Path]] = {}
        self._point: bytes | None = None
        """The checkpoint that could not be stored."""
        self._stamps: dict[Stream, bytes] = {}
        self.offset = offset
        """Kept up to date by whoever reads the host's clock."""
        self._clock = clock
        self._mask = mask
        self._moments = Stamps()
        self._open_ended: set[int | None] = set()
        """Ranks whose file ends within a line: an endless one is written in parts."""
        self.error: OSError | None = None
        """Why a file can't be written now; until then what is fed waits, and nothing more is counted."""
        self.given_up = False
        """Whether what can't be written was dropped: the files are not complete and stay so."""

    def restore(self, parse: Callable[[Any], T]) -> T | None:
        """Cut the files back to the last checkpoint and return its resume value, None to read from the start.

        That is also so when a file is shorter than it was then: what is missing can only be had again from the host.
        `parse` makes the value of what was stored and raises ValueError when that is none.
        """
        lengths, resume = self._saved(parse)
        if cut := self._shorter(lengths):
            lengths, resume = {}, None
        for path in self._own_files():
            with contextlib.suppress(OSError):  # what can't be cut can't be written either, which is said then
                length = max(0, lengths.get(path.name, 0))
                cut = cut or path.stat().st_size > length
                os.truncate(path, length)
        if cut:
            with contextlib.suppress(OSError):
                write_private(self._run.cut_file, b"")  # before more is written: see `new_lines.py`
        self._open_ended = {rank for rank in self._own_ranks() if _is_torn(self._log(rank))}
        return resume

    def read_before(self) -> bool:
        """Whether an earlier distui has read it to its end into the files here."""
        resume = self._checkpoint().resume
        return isinstance(resume, dict) and bool(resume.get("done"))

    def _saved(self, parse: Callable[[Any], T]) -> tuple[Mapping[str, int], T | None]:
        """The lengths and the resume value of the last checkpoint; none when there is none that can be read."""
        kept = self._checkpoint()
        try:
            return kept.files, parse(kept.resume)
        except (ValueError, TypeError):
            return {}, None

    def _checkpoint(self) -> _Checkpoint:
        with contextlib.suppress(OSError, ValueError):
            return _read_checkpoint(self._run.follow_file(self._task))
        return _Checkpoint({}, None)

    def _shorter(self, lengths: Mapping[str, int]) -> bool:
        found = self._lengths()
        return any(found.get(path.name, 0) < lengths.get(path.name, 0) for path in self._own_files())

    def lines_before(self) -> dict[int, int]:
        """Rank -> lines in its file at the last checkpoint, by the times beside it."""
        lengths = self._checkpoint().files
        return {r: lengths.get(times_of(self._log(r)).name, 0) // WIDTH for r in self._ranks}

    def _own_ranks(self) -> Sequence[int | None]:
        return (None, *self._ranks) if self._only is None else (self._only,)

    def _own_files(self) -> Iterator[Path]:
        for rank in self._own_ranks():
            yield self._log(rank)
            yield times_of(self._log(rank))

    def _log(self, rank: int | None) -> Path:
        return self._run.node_log(self._task) if rank is None else self._run.rank_log(rank)

    def _places(self, rank: int | None) -> tuple[Path, Path]:
        """The rank's log and its times; paths are not made again for each batch."""
        known = self._paths.get(rank)
        if known is None:
            log = self._log(rank)
            known = self._paths[rank] = (log, times_of(log))
        return known

    def feed(self, batch: Batch) -> list[Written]:
        """Write what whole lines `batch` completes; returns them grouped by rank, in order."""
        if self._split is None and self._assembler.clean:
            data = batch.data
            if are_lines(batch, data):
                return [self._write(self._only, batch, data)]
        groups: Groups = []
        for number, stamp, data in zip(batch.streams, batch.stamps, batch.pieces, strict=True):
            stream: Stream = "stderr" if number == STDERR else "stdout"
            self._stamps[stream] = stamp  # all pieces of a line share one stamp (FAULTS M5)
            for line in self._assembler.feed(stream, data):
                self._sort_out(groups, stream, line)
        return self._write_all(groups)

    def drawn(self) -> Written | None:
        """What is there of a line that has no newline yet, as progress bars have for hours: of a bar, what it shows now
        (not written here). None where no line is open, or it is not known whose it is.
        """
        if self._only is None or self._assembler.clean:
            return None
        shown = self._assembler.drawn
        block = Batch((STDERR,), (b"",), (shown,)) if shown else Batch()
        return Written(self._only, self._mask.hide(block, shown)[0])

    def flush(self) -> list[Written]:
        """Write the open ends: last lines without a newline. For the end of a log only."""
        groups: Groups = []
        for stream, line in self._assembler.flush():
            self._sort_out(groups, stream, line)
        for rank, pieces in self._pieces.items():
            for stream, line in pieces.flush():
                self._add(groups, rank, stream, line)
        return self._write_all(groups)

    def _sort_out(self, groups: Groups, stream: Stream, line: bytes) -> None:
        """Give each piece of a line to its rank; a piece without newline waits for the rest of its line."""
        if self._split is None:
            self._add(groups, self._only, stream, line)
            return
        for rank, piece in self._split(line):
            for whole in self._pieces.setdefault(rank, LineAssembler(self._mask.cut)).feed(stream, piece):
                self._add(groups, rank, stream, whole)

    def _add(self, groups: Groups, rank: int | None, stream: Stream, line: bytes) -> None:
        if not groups or groups[-1][0] != rank:
            groups.append((rank, ([], [], [])))
        streams, stamps, pieces = groups[-1][1]
        streams.append(STDERR if stream == "stderr" else STDOUT)
        stamps.append(self._stamps.get(stream, b""))
        pieces.append(line)

    def _write_all(self, groups: Groups) -> list[Written]:
        blocks = [(rank, Batch(*columns)) for rank, columns in groups]
        return [self._write(rank, block, block.data) for rank, block in blocks]

    def _write(self, rank: int | None, block: Batch, data: bytes) -> Written:
        block, data, hidden = self._mask.hide(block, data)
        moments = self._said(rank, block, data)
        if not self.given_up:
            log, times = self._places(rank)
            self._append(times, moments)  # first: whoever sees a line finds its time
            self._append(log, data)
        return Written(rank, block, hidden, moments)

    def _said(self, rank: int | None, block: Batch, data: bytes) -> bytes:
        """When each line that begins in the block was said, on our clock, as in a file of times."""
        stamps = block.stamps
        if isinstance(stamps, StampColumn) and rank not in self._open_ended:
            return stamps.moments(self.offset)
        if rank in self._open_ended or data.count(b"\n") != len(block):
            stamps = [s for s, p in zip(stamps, block.pieces, strict=True) if self._begins(rank, p)]
        now, offset = self._clock(), self.offset
        return pack([now if at is None else at - offset for at in self._moments.parse_all(stamps)])

    def _begins(self, rank: int | None, piece: bytes) -> bool:
        """Whether a line of the rank begins with this piece, its next one; notes whether it ends there."""
        begins = rank not in self._open_ended
        (self._open_ended.discard if piece.endswith(b"\n") else self._open_ended.add)(rank)
        return begins

    def _append(self, path: Path, data: bytes) -> None:
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = GrowingFile(path, ours=True)
        file.hold(data)
        if self.error is None:
            try:
                file.write()
            except OSError as exc:
                self.error = exc

    def retry(self) -> bool:
        """After an error: write what waits. Whether all of it is in the files, and more may be fed."""
        try:
            for file in self._files.values():  # in the order they were begun: times before lines
                file.refuse_changed()  # also where nothing waits for it
                file.write()
            self._store()
        except OSError as exc:
            self.error = exc
            return False
        self.error = None
        return True

    @property
    def changed(self) -> bool:
        """Whether a file was emptied or removed here: only a read from the start, from its host, can mend that."""
        return isinstance(self.error, Changed)

    @property
    def lost_bytes(self) -> bool:
        """Whether a file here is shorter than the last checkpoint counts: somebody emptied, cut or removed it."""
        lengths = self._checkpoint().files
        return self._shorter(lengths)

    def give_up(self) -> None:
        """Drop what can't be written, and whatever else is fed; an `error` stays."""
        self.given_up = True
        self.close()

    def checkpoint(self, resume: Mapping[str, Any]) -> bool:
        """Store how far the log was read. False when a line is open, a write failed or a file was changed by somebody
        else: then nothing is stored.
        """
        if self.error is not None or not self._clean:
            return False
        try:
            for file in self._files.values():
                file.refuse_changed()
            self._point = json.dumps(write(_Checkpoint(self._lengths(), resume))).encode()
            self._store()
        except OSError as exc:
            self.error = exc
            return False
        return True

    def _store(self) -> None:
        if self._point is not None:
            write_private(self._run.follow_file(self._task), self._point)
            self._point = None

    @property
    def _clean(self) -> bool:
        return self._assembler.clean and all(pieces.clean for pieces in self._pieces.values())

    def _lengths(self) -> dict[str, int]:
        return {p.name: size for p in self._own_files() if (size := _size(p)) is not None}

    def close(self) -> None:
        """Close the files; never raises."""
        for file in self._files.values():
            file.close()
        self._files.clear()


def saved_lengths(stored: StoredRun) -> dict[str, int]:
    """Name of a file of logs -> how much of it an owner that goes on from the last checkpoints keeps."""
    found: dict[str, int] = {}
    for path in stored.follow_file(0).parent.glob("task-*.json"):
        with contextlib.suppress(OSError, ValueError):
            found |= _read_checkpoint(path).files
    return found


def _read_checkpoint(path: Path) -> _Checkpoint:
    """Raises OSError, and ValueError for what is none."""
    return read(_Checkpoint, loads(read_bytes(path)))


def _size(path: Path) -> int | None:
    """None for a file that is not there; somebody may remove it, and its folders, at any moment."""
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return None


def _is_torn(log: Path) -> bool:
    """Whether a file ends within a line."""
    try:
        return GrowingFile(log).torn
    except OSError:
        return False


def are_lines(block: Batch, data: bytes) -> bool:
    """Whether each piece is just one whole line, as nearly always; `data` is all of them."""
    if isinstance(block.pieces, LineColumn):
        return True
    return data.count(b"\n") == len(block) and all(map(bytes.endswith, block.pieces, repeat(b"\n")))
