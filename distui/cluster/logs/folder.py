"""Logs into files of a folder, one for each rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from distui.cluster.logs.from_files import RankFile
from distui.cluster.logs.sink import LogSink
from distui.cluster.logs.wanted import Wanted
from distui.errors import UsageError
from distui.files import writing
from distui.runs.lines.events import LogLine
from distui.runs.lines.times import Stamps, pack, times_of


class FolderOut(LogSink):
    """Writes the lines of each rank into a file of a folder, as the rank said them.

    With `clocks` (host -> how far its clock is ahead of ours, in seconds) the moment of each line, on our clock, is
    kept beside it.
    """

    def __init__(
        self, wanted: Wanted, folder: Path, *, timestamps: bool = False, clocks: Mapping[str, float] | None = None
    ) -> None:
        super().__init__(wanted, timestamps=timestamps)
        self.files: dict[tuple[int | None, str], RankFile] = {}
        """What was written, in the order of the first lines."""
        self._folder = folder
        self._clocks = clocks
        self._open: dict[Path, BinaryIO] = {}
        self._stamps = Stamps()

    async def write(self, rank: int | None, host: str, lines: Sequence[LogLine]) -> None:
        """See LogSink. Raises UsageError when a file is there already or can't be written."""
        file = self.files.get((rank, host)) or self._begin(rank, host)
        stamped = self.timestamps
        text = "".join(f"{line.stamp or '-'} {line.text}\n" if stamped else f"{line.text}\n" for line in lines)
        with writing(file.path):
            self._open[file.path].write(text.encode("utf-8", "replace"))
            if self._clocks is not None:
                ahead = self._clocks.get(host, 0.0)
                moments = self._stamps.parse_all([line.stamp.encode() for line in lines])
                self._open[times_of(file.path)].write(pack([(at or 0.0) - ahead for at in moments]))

    def _begin(self, rank: int | None, host: str) -> RankFile:
        path = self._folder / (f"rank-{rank:05d}.log" if rank is not None else f"launcher-{host}.log")
        self.files[rank, host] = RankFile(rank, host, path)
        for each in (path, *([times_of(path)] if self._clocks is not None else [])):
            with writing(each):
                self._open[each] = each.open("xb")
        return self.files[rank, host]

    def close(self) -> None:
        """Write out what is buffered. Raises UsageError when that fails."""
        for path, file in self._open.items():
            with writing(path):
                file.close()

    def remove(self) -> None:
        """Take back the files that were made here: they are not whole."""
        for path, file in self._open.items():
            with suppress(OSError):
                file.close()
            with suppress(OSError):
                path.unlink()


@contextmanager
def into_folder(
    folder: Path, wanted: Wanted, *, timestamps: bool = False, clocks: Mapping[str, float] | None = None
) -> Iterator[FolderOut]:
    """Lines into files of a folder, which is made, and not left behind empty. Raises UsageError when it can't be."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    out = FolderOut(wanted, folder, timestamps=timestamps, clocks=clocks)
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
