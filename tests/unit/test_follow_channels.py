"""A stream that is read more slowly than its host writes."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from distui.runs.follow.channels import ChannelStream
from distui.runs.follow.feed import HELD


class Endless:
    """A host that always has more to say."""

    def __init__(self) -> None:
        self.said = 0

    async def read(self, limit: int = 65536) -> bytes:
        await asyncio.sleep(0)
        self.said += limit
        return b"x" * limit

    async def close(self) -> None:
        """Nothing is open."""


async def rested(channel: Endless) -> int:
    """What it has said once it is no longer asked, or after so many turns of the loop that it should not be."""
    for _ in range(400):
        before = channel.said
        for _ in range(5):
            await asyncio.sleep(0)
        if channel.said == before:
            break
    return channel.said


async def test_a_host_is_asked_for_no_more_than_is_read() -> None:
    """What is held is bounded: memory here does not grow with what ranks print, their pipe fills up instead."""
    channel = Endless()
    stream = ChannelStream(cast(Any, SimpleNamespace(forget=lambda stream: None)), cast(Any, channel))
    stream.start(stream.pour(cast(Any, channel)))
    first = await rested(channel)
    taken = len(await stream.read())
    second = await rested(channel)
    await stream.close()

    assert HELD < first <= HELD + (1 << 20)
    assert (taken, second) == (first, 2 * first)
