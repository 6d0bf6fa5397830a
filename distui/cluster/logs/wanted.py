"""Which lines of a log are asked for."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from distui.errors import UsageError
from distui.frozen import frozen
from distui.patterns import Searches, given_up, matching
from distui.runs.lines.events import LogLine


@frozen
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

    def refuse_unknown(self, known: Iterable[int | None]) -> None:
        """Raise UsageError for a rank that is not among `known`, those of the run."""
        there = {rank for rank in known if rank is not None}
        for unknown in sorted((self.ranks or frozenset()) - there):
            raise UsageError(f"there is no rank {unknown}: {has_ranks(there)}")

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


def has_ranks(there: Collection[int]) -> str:
    """Which ranks a run has, in words."""
    has = f"ranks 0 to {max(there)}" if len(there) > 1 else "rank 0 only" if there else "no ranks"
    return f"the run has {has}"
