"""Waiting between tries: doubling, and cut short when the feed breaks."""

from __future__ import annotations

import asyncio

from distui.runs.follow.feed import FeedLost

SOON, FIRST, LONGEST = 0.01, 0.1, 2.0
"""Seconds; FOLLOW §4. `SOON` for what is as a rule there a moment later."""


class Pause:
    """0.1 s, doubling up to 2 s."""

    def __init__(self, lost: asyncio.Future[Exception]) -> None:
        self._lost = lost
        self._next = FIRST

    def reset(self, seconds: float = FIRST) -> None:
        """Things moved: begin with the short pause again."""
        self._next = seconds

    async def wait(self) -> None:
        """Wait once. Raises FeedLost as soon as the feed breaks."""
        seconds, self._next = self._next, min(self._next * 2, LONGEST)
        await rest(self._lost, seconds)


async def rest(lost: asyncio.Future[Exception], seconds: float) -> None:
    """Sleep. Raises FeedLost as soon as the feed breaks."""
    await asyncio.wait((lost,), timeout=seconds)
    if lost.done():
        raise FeedLost(str(lost.result())) from lost.result()
