"""Logs into files of their own: one for each rank, or all in one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from distui.cli.logfiles import RankFile
from distui.cli.loglines import LogOut, Wanted, log_out
from distui.cli.printer import LogView
from distui.errors import UsageError
from distui.runs.lines.events import LogLine
from distui.runs.lines.times import Stamps, pack, times_of


@dataclass(slots=True)
class FolderOut(LogOut):
    """Writes the lines of each rank into a file of a folder, as the rank said them.

    With `clocks` (host -> how far its clock is ahead of ours, in seconds) the moment of each line, on our clock, is
    kept beside it.
    """

    folder: Path = Path()
    clocks: Mapping[str, float] | None = None
    files: dict[tuple[int | None, str], RankFile] = field(default_factory=dict)
    """What was written, in the order of the first lines."""
    _open: dict[Path, BinaryIO] = field(default_factory=dict)
    _stamps: Stamps = field(default_factory=Stamps)

    async def write(self, rank: int | None, host: str, lines: Sequence[LogLine]) -> None:
        """See LogOut. Raises UsageError when a file is there already or can't be written."""
        file = self.files.get((rank, host)) or self._begin(rank, host)
        stamped = self.writer.timestamps
        text = "".join(f"{line.stamp or '-'} {line.text}\n" if stamped else f"{line.text}\n" for line in lines)
        with _told(file.path):
            self._open[file.path].write(text.encode("utf-8", "replace"))
            if self.clocks is not None:
                ahead = self.clocks.get(host, 0.0)
                moments = self._stamps.parse_all([line.stamp.encode() for line in lines])
                self._open[times_of(file.path)].write(pack([(at or 0.0) - ahead for at in moments]))

    def _begin(self, rank: int | None, host: str) -> RankFile:
        path = self.folder / (f"rank-{rank:05d}.log" if rank is not None else f"launcher-{host}.log")
        self.files[rank, host] = RankFile(rank, host, path)
        for each in (path, *([times_of(path)] if self.clocks is not None else [])):
            with _told(each):
                self._open[each] = each.open("xb")
        return self.files[rank, host]

    def close(self) -> None:
        """Write out what is buffered. Raises UsageError when that fails."""
        for path, file in self._open.items():
            with _told(path):
                file.close()

    def remove(self) -> None:
        """Take back the files that were made here: they are not whole."""
        for path, file in self._open.items():
            with suppress(OSError):
                file.close()
            with suppress(OSError):
                path.unlink()


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Errors of files in words."""
    try:
        yield
    except FileExistsError as exc:
        raise UsageError(f"{path} exists", hint="give another name") from exc
    except OSError as exc:
        raise UsageError(f"can't write {path}: {exc.strerror}") from exc


@contextmanager
def into_folder(
    folder: Path, view: LogView, wanted: Wanted, *, clocks: Mapping[str, float] | None = None
) -> Iterator[FolderOut]:
    """Lines into files of a folder, which is made, and not left behind empty. Raises UsageError when it can't be."""
    with _told(folder):
        folder.mkdir(parents=True, exist_ok=True)
    plain = log_out(-1, view, wanted, colour=False)
    out = FolderOut(plain.outlet, plain.writer, wanted, folder=folder, clocks=clocks)
    try:
        yield out
        out.close()
    except UsageError:
        out.remove()
        raise
    finally:
        with suppress(UsageError):
            out.close()
        with suppress(OSError):
            folder.rmdir()


@contextmanager
def into_file(path: Path, view: LogView, wanted: Wanted) -> Iterator[LogOut]:
    """Lines into one file, which must not be there and is not left empty. Raises UsageError when that fails."""
    with _told(path):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        out = log_out(fd, view, wanted, colour=False)
        yield out
        if out.outlet.error is not None:
            with suppress(OSError):
                path.unlink()
            raise UsageError(f"can't write {path}: {out.outlet.error.strerror}")
    finally:
        os.close(fd)
        with suppress(FileNotFoundError):  # somebody may have removed it meanwhile
            if not path.stat().st_size:
                path.unlink()
