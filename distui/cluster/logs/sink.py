"""Where lines of logs go: filtered, without secrets, the old ones held back where only the last are wanted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from distui.cluster.logs.wanted import Wanted
from distui.runs.lines.events import Level, LogLine
from distui.runs.store.masking import NOTHING, Mask

Tell = Callable[[str, Level], None]
"""Takes what could not be read, or hidden, in words."""


class LogSink(ABC):
    """Takes lines of ranks; with a tail, holds the old ones back until `go_live` or `go_live_of`."""

    def __init__(self, wanted: Wanted, *, timestamps: bool = False) -> None:
        self.wanted = wanted
        self.timestamps = timestamps
        """Whether the moment of each line is shown."""
        self.mask: Mask = NOTHING
        """Hides values of secrets, whatever the lines come from and wherever they go."""
        self._held: dict[tuple[int | None, str], deque[LogLine]] | None = None
        self._live: set[tuple[int | None, str]] = set()
        """Whose old lines are written: what they say now is new."""

    def open(self, hosts: Mapping[int, str], names: Mapping[int, str], *, hold: bool = False) -> None:
        """Begin with these ranks and their names; `hold` keeps the last `tail` lines of each instead of writing."""
        self._held = {} if hold and self.wanted.tail is not None else None

    @property
    def closed(self) -> bool:
        """Whether nothing more can be written."""
        return False

    async def lines(self, rank: int | None, host: str, lines: Iterable[LogLine]) -> None:
        """Take lines of one rank, in order."""
        if not self.wanted.rank(rank):
            return
        kept = self.wanted.kept(self.mask.lines(list(lines)))
        if self._held is not None and (rank, host) not in self._live:
            self._held.setdefault((rank, host), deque(maxlen=self.wanted.tail)).extend(kept)
        elif kept:
            await self.write(rank, host, kept)

    @abstractmethod
    async def write(self, rank: int | None, host: str, lines: Sequence[LogLine]) -> None:
        """Lines that are wanted, to where they go."""

    async def drain(self) -> None:
        """Wait until all is written, where that takes a while."""
        return

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
