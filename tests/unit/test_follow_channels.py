"""A stream that is read more slowly than its host writes."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from distui.runs.follow.channels import ChannelStream
from distui.runs.follow.feed import HELD, Stream


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


async def test_a_read_waits_no_longer_than_it_may() -> None:
    """From the moment it is asked; what comes in time is had, and what came before, without any time at all."""
    stream = Stream()
    with pytest.raises(TimeoutError):
        await stream.read(0.01)
    stream.take(b"late")
    assert await stream.read(0.0) == b"late"

    asyncio.get_running_loop().call_later(0.01, stream.take, b"in time")
    assert await stream.read(30.0) == b"in time"
    stream.take_end({})
    assert await stream.read(0.0) == b""
