"""Lines of logs on their way to stdout: which are wanted, and how they are written."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from distui.cli.outlet import Outlet
from distui.cli.printer import LineWriter, LogView
from distui.config import seconds
from distui.errors import UsageError
from distui.patterns import BadPattern, Searches, compiled, given_up, matching
from distui.runs.lines.events import LogLine
from distui.runs.store.masking import NOTHING, Mask


def parse_moment(flag: str, text: str, now: datetime) -> str:
    """`5m` or a time in RFC 3339 as a stamp that compares with the engine's stamps. Raises UsageError."""
    try:
        at = now - timedelta(seconds=seconds(text))
    except UsageError:
        try:
            at = datetime.fromisoformat(text)
        except ValueError as exc:
            raise UsageError(f"{flag} {text[:40]}: write 5m, 2h30m or 2026-01-31T12:00:00Z") from exc
        at = at if at.tzinfo else at.astimezone()
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + "000Z"


def parse_grep(text: str | None) -> Searches[str] | None:
    """The pattern of --grep. Raises UsageError with the place of the mistake."""
    if text is None:
        return None
    try:
        return compiled(text)
    except BadPattern as exc:
        raise UsageError(f"--grep {text[:60]}: {exc}") from exc


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which lines of a log are shown."""

    ranks: frozenset[int] | None = None
    since: str = ""
    until: str = ""
    grep: Searches[str] | None = None
    stderr_only: bool = False
    tail: int | None = None

    def rank(self, rank: int | None) -> bool:
        """Whether lines of this rank are; a launcher's own words only when all ranks are."""
        return self.ranks is None or rank in self.ranks

    def kept(self, lines: Iterable[LogLine]) -> list[LogLine]:
        """Those of these lines that are. Raises UsageError when the pattern of --grep takes too long."""
        kept = [line for line in lines if self._in_time(line)]
        if self.grep is None:
            return kept
        kept = [kept[index] for index in matching(self.grep, [line.text for line in kept])]
        if words := given_up(self.grep):
            raise UsageError(f"--grep {words}", hint="write it so that it can match in one way only")
        return kept

    def _in_time(self, line: LogLine) -> bool:
        """Whether it is of this time and stream. One without a stamp counts as new for `since`, as old for `until`."""
        if self.stderr_only and line.stream != "stderr":
            return False
        if self.since and line.stamp and line.stamp < self.since:
            return False
        return not (self.until and line.stamp > self.until)

    @property
    def counts_after(self) -> bool:
        """Whether `tail` can only be counted among the lines that are wanted, which need not be the log's last."""
        return self.tail is not None and bool(self.until or self.grep)

    @property
    def needs_times(self) -> bool:
        """Whether the moment of each line decides."""
        return bool(self.since or self.until)

    @property
    def needs_engine(self) -> bool:
        """Whether only an engine can tell, when it is asked for the log: processes keep neither stamps nor streams."""
        return self.stderr_only or self.needs_times


@dataclass(slots=True)
class LogOut:
    """Writes wanted lines to stdout; with a tail, holds the old ones back until `go_live` or `go_live_of`."""

    outlet: Outlet
    writer: LineWriter
    wanted: Wanted
    mask: Mask = NOTHING
    """Hides values of secrets, whatever the lines come from and wherever they go."""
    _held: dict[tuple[int | None, str], deque[LogLine]] | None = field(default=None)
    _live: set[tuple[int | None, str]] = field(default_factory=set)
    """Whose old lines are written: what they say now is new."""

    def open(self, hosts: Mapping[int, str], names: Mapping[int, str], *, hold: bool = False) -> None:
        """Fit prefixes to the ranks and their names; `hold` keeps the last `tail` lines of each instead of writing."""
        self.writer.open(hosts, names)
        self._held = {} if hold and self.wanted.tail is not None else None

    @property
    def closed(self) -> bool:
        """Whether nobody reads stdout any more, or it can't be written."""
        return self.outlet.error is not None

    async def lines(self, rank: int | None, host: str, lines: Iterable[LogLine]) -> None:
        """Take lines of one rank, in order."""
        if not self.wanted.rank(rank):
            return
        kept = self.wanted.kept(self.mask.lines(list(lines)))
        if self._held is not None and (rank, host) not in self._live:
            self._held.setdefault((rank, host), deque(maxlen=self.wanted.tail)).extend(kept)
        elif kept:
            await self.write(rank, host, kept)

    async def write(self, rank: int | None, host: str, lines: Sequence[LogLine]) -> None:
        """Lines that are wanted, to where they go."""
        await self.outlet.write(self.writer.bytes(rank, host, lines))

    async def drain(self) -> None:
        """Wait until all is written."""
        await self.outlet.drain()

    async def go_live_of(self, ranks: Iterable[int | None], host: str) -> None:
        """Write what was held back of these ranks; what they say from now on is written as it comes."""
        for key in ((rank, host) for rank in ranks):
            self._live.add(key)
            if kept := (self._held or {}).pop(key, None):
                await self.write(*key, list(kept))

    async def go_live(self) -> None:
        """Write what was held back; from now on lines are written as they come."""
        held, self._held = self._held, None
        for (rank, host), kept in sorted((held or {}).items(), key=lambda item: (item[0][0] is None, item[0])):
            await self.write(rank, host, list(kept))


def log_out(fd: int, view: LogView, wanted: Wanted, *, colour: bool) -> LogOut:
    """The way to stdout for the lines wanted."""
    return LogOut(Outlet(fd), LineWriter(view, colour=colour), wanted)


def last(lines: Sequence[LogLine], tail: int | None) -> Sequence[LogLine]:
    """The last `tail` lines; all without."""
    return lines if tail is None else lines[max(0, len(lines) - tail) :]
