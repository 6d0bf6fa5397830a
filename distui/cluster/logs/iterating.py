"""Lines of logs one batch after the other, for programs that read them in a loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from distui.cluster.logs.sink import LogSink, Tell
from distui.cluster.logs.wanted import Wanted
from distui.cluster.secret_warning import warn_of_plain
from distui.errors import ContactLost
from distui.frozen import frozen
from distui.runs.lines.events import Level, LogLine

WAITING = 64
"""Batches that may wait for who reads slowly; whoever reads the logs waits, too, beyond that."""


@frozen
class RankLines:
    """Lines of one rank, in order. Rank None: a launcher's own words on that host."""

    rank: int | None
    host: str
    lines: Sequence[LogLine]


class _Handed(LogSink):
    """Hands lines on as they are read."""

    def __init__(self, wanted: Wanted) -> None:
        super().__init__(wanted)
        self.batches: asyncio.Queue[RankLines | None] = asyncio.Queue()
        """None after the last one."""
        self.room = asyncio.Semaphore(WAITING)

    async def write(self, rank: int | None, host: str, lines: Sequence[LogLine]) -> None:
        """See LogSink."""
        await self.room.acquire()
        self.batches.put_nowait(RankLines(rank, host, lines))


TellPlain = Callable[[str], None]
"""Takes which secrets are not hidden, in words."""

Read = Callable[[LogSink, Tell, TellPlain], Awaitable[bool]]
"""Writes lines, and tells what could not be read or hidden."""


async def iterate(wanted: Wanted, read: Read) -> AsyncIterator[RankLines]:
    """What `read` writes, as it comes. Raises what that raises, and ContactLost when it could not read all of it.

    What is not hidden is a SecretWarning, before the first line.
    """
    out, messages, plain = _Handed(wanted), list[str](), list[str]()

    def tell(words: str, level: Level) -> None:
        if level != "info":
            messages.append(words)

    async def work() -> bool:
        try:
            return await read(out, tell, plain.append)
        finally:
            out.batches.put_nowait(None)

    reading = asyncio.create_task(work())
    try:
        while (batch := await out.batches.get()) is not None:
            out.room.release()
            warn_of_plain(plain)
            plain.clear()
            yield batch
        warn_of_plain(plain)
        if not await reading:
            raise ContactLost("\n".join(messages) or "not all logs could be read")
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
