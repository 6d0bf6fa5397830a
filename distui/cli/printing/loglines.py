"""Lines of logs on their way to stdout or into one file, as people read them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from distui.cli.printing.outlet import Outlet
from distui.cli.printing.printer import LineWriter, LogView
from distui.cluster.logs.sink import LogSink
from distui.cluster.logs.wanted import Wanted
from distui.config import seconds
from distui.errors import UsageError
from distui.files import writing
from distui.patterns import BadPattern, Searches, compiled
from distui.runs.lines.events import LogLine


def parse_moment(flag: str, text: str, now: datetime) -> str:
    """`5m` or a time in RFC 3339 as a stamp that compares with the engine's stamps. Raises UsageError."""
    try:
        at = _moment(text, now).astimezone(UTC)
    except (ValueError, OverflowError) as exc:  # also before the year 1 and after 9999
        raise UsageError(f"{flag} {text[:40]}: write 5m, 2h30m or 2026-01-31T12:00:00Z") from exc
    return at.replace(tzinfo=None).isoformat(timespec="microseconds") + "000Z"


def _moment(text: str, now: datetime) -> datetime:
    """Raises ValueError, OverflowError."""
    with suppress(UsageError):
        return now - timedelta(seconds=seconds(text))
    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.astimezone()


def parse_grep(text: str | None) -> Searches[str] | None:
    """The pattern of --grep. Raises UsageError with the place of the mistake."""
    if text is None:
        return None
    try:
        return compiled(text)
    except BadPattern as exc:
        raise UsageError(f"--grep {text[:60]}: {exc}") from exc


class LogOut(LogSink):
    """Writes wanted lines to stdout."""

    def __init__(self, outlet: Outlet, writer: LineWriter, wanted: Wanted) -> None:
        super().__init__(wanted, timestamps=writer.timestamps)
        self.outlet = outlet
        self.writer = writer

    def open(self, hosts: Mapping[int, str], names: Mapping[int, str], *, hold: bool = False) -> None:
        """See LogSink. Fits prefixes to the ranks and their names."""
        self.writer.open(hosts, names)
        super().open(hosts, names, hold=hold)

    @property
    def closed(self) -> bool:
        """Whether nobody reads stdout any more, or it can't be written."""
        return self.outlet.error is not None

    async def write(self, rank: int | None, host: str, lines: Sequence[LogLine]) -> None:
        """See LogSink."""
        await self.outlet.write(self.writer.bytes(rank, host, lines))

    async def drain(self) -> None:
        """See LogSink."""
        await self.outlet.drain()


def log_out(fd: int, view: LogView, wanted: Wanted, *, colour: bool) -> LogOut:
    """The way to stdout for the lines wanted."""
    return LogOut(Outlet(fd), LineWriter(view, colour=colour), wanted)


@contextmanager
def into_file(path: Path, view: LogView, wanted: Wanted) -> Iterator[LogOut]:
    """Lines into one file, which must not be there and is not left empty. Raises UsageError when that fails."""
    with writing(path):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        out = log_out(fd, view, wanted, colour=False)
        yield out
        if out.outlet.error is not None:
            with suppress(OSError):
                path.unlink()
            raise UsageError(f"{path} can't be written: {out.outlet.error.strerror}")
    finally:
        os.close(fd)
        with suppress(FileNotFoundError):  # somebody may have removed it meanwhile
            if not path.stat().st_size:
                path.unlink()
