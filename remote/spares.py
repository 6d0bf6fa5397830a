"""Shells on a host far away that wait for a command: opened while others run, they save those that follow two round
trips of three.

A channel takes one round trip to be opened and one to be given `sh`, since sshd takes no input before that; only with
the third comes the answer. Over a link where that is felt, a session that asks often has some channels of which two are
behind it. They end with the connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from distui.remote.pipes import CommandPipe

SLOW_S = 0.02
"""Where opening a channel and starting `sh` in it never took less, a link is slow: that is two round trips of 10 ms."""

FROM = 2
"""The command of a session with which it begins: a probe has one, and whoever asks twice asks more."""

MOST = 5
"""Shells that wait at once, and no more."""

AHEAD = 2
"""So many more than commands were under way together: a shell is opened in the time that two commands take in one."""

Open = Callable[[], Awaitable[CommandPipe | None]]
"""Opens one where there is room; None where there is not, or the host allows no more."""


class Spares:
    """Those of one session."""

    def __init__(self, open_one: Open) -> None:
        self._open = open_one
        self._waiting: list[CommandPipe] = []
        self._opening = 0
        self._begun = self._running = self._most = 0
        self._quickest = float("inf")
        self._off = False

    def opened(self, seconds: float) -> None:
        """So long it took to open a channel and to start a shell in it."""
        self._quickest = min(self._quickest, seconds)

    def begin(self, mark: str, stderr_limit: int) -> CommandPipe | None:
        """A command begins that says this `mark` first; a shell that waits for it, if there is one."""
        self._begun += 1
        self._running += 1
        self._most = max(self._most, self._running)
        while self._waiting:
            pipe = self._waiting.pop(0)
            if pipe.waits:
                pipe.expect(mark, stderr_limit)
                return pipe
            self.stop()  # what ends one that waits would end the next one, too
        return None

    def end(self) -> None:
        """A command has ended."""
        self._running -= 1

    def stop(self) -> None:
        """End those that wait, and open no more: the host has no room for them, or does not let them wait."""
        self._off = True
        for pipe in self._waiting:
            pipe.close()
        self._waiting.clear()

    async def top_up(self) -> None:
        """Open as many as are wanted, side by side."""
        if self._off or self._begun < FROM or not SLOW_S <= self._quickest < float("inf"):
            return
        missing = max(0, min(MOST, self._most + AHEAD) - len(self._waiting) - self._opening)
        self._opening += missing
        await asyncio.gather(*(self._one_more() for _ in range(missing)))

    async def _one_more(self) -> None:
        try:
            pipe = await self._open()
        finally:
            self._opening -= 1
        if pipe is not None and self._off:
            pipe.close()
        elif pipe is not None:
            self._waiting.append(pipe)
