"""The connections of one session and how many channels each may carry.

sshd allows `MaxSessions` channels per connection (10 by default, 1 where an admin said so) and refuses the rest
(FAULTS M14). A refusal lowers what we ask of that connection; commands then wait for one another. Streams may
stay open for days, so when only streams hold the channels, a further connection is made instead of waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

import asyncssh

Dial = Callable[[], Awaitable[asyncssh.SSHClientConnection]]

CHANNELS = 8
"""Channels per connection to begin with: below sshd's default of 10."""

_REFUSALS = 6
"""How often a connection may refuse even its only channel before the command fails: sshd counts a session until it
has reaped its process, a moment after we have seen the channel closed."""

_FIRST_PAUSE = 0.02
"""Seconds before such a refusal is put to the test again, doubling: 1.2 s in all."""

_PATIENCE = 2.0
"""Seconds a command waits for another to end before a further connection is made for it."""

_LEFT_FREE = 2
"""Places that shells which wait for a command leave to others."""

_MOST_LINKS = 4
"""Connections made out of impatience; streams get as many as they need."""


@dataclass(eq=False, slots=True)
class Link:
    """One connection: how many channels it may have, has (or has asked for), and how many are streams."""

    conn: asyncssh.SSHClientConnection
    capacity: int = CHANNELS
    asked: int = 0
    streams: int = 0
    refusals: int = 0

    @property
    def free(self) -> bool:
        """Whether one more channel may be asked for."""
        return self.asked < self.capacity

    @property
    def held_by_streams(self) -> bool:
        """Whether waiting for a command to end can't free a channel."""
        return self.asked >= self.capacity and self.streams >= self.asked


class Links:
    """Hands out channels' places. The first link is the session: when it is gone, so is the session."""

    def __init__(self, first: asyncssh.SSHClientConnection, dial: Dial) -> None:
        self._links = [Link(first)]
        self._dial = dial
        self._changed = asyncio.Condition()
        self._dialling = False
        """Whether a further connection is being made: one at a time, and nobody who gives a place back waits for it."""
        self._closed = False

    @property
    def alive(self) -> bool:
        """Whether the first connection still stands."""
        return not self._closed and not self._links[0].conn.is_closed()

    @property
    def first(self) -> asyncssh.SSHClientConnection:
        """The connection the session was made with."""
        return self._links[0].conn

    async def take(self, *, stream: bool) -> Link:
        """A place on some connection; waits or dials when all are taken. Raises ConnectionError when closed."""
        impatient = False
        while True:
            async with self._changed:
                link = self._vacant()
                if link is not None:
                    link.asked += 1
                    link.streams += stream
                    return link
                if self._dialling or not self._lacks(impatient):
                    impatient = not await self._change()
                    continue
                self._dialling = True
            await self._add()

    def spare(self) -> Link | None:
        """A place that nobody needs soon, taken; None where there is little room."""
        link = next((link for link in self._links if link.capacity - link.asked > _LEFT_FREE), None)
        if link is None or not self.alive:
            return None
        link.asked += 1
        return link

    @property
    def full(self) -> bool:
        """Whether whoever wants a channel now waits for another to be closed, or for a further connection."""
        return not any(link.free for link in self._links)

    async def give_back(self, link: Link, *, stream: bool) -> None:
        """The channel is closed, or was never opened."""
        async with self._changed:
            link.asked -= 1
            link.streams -= stream
            self._changed.notify_all()

    async def refused(self, link: Link, *, stream: bool) -> bool:
        """The server refused a channel: ask for fewer from now on. False when there is no hope."""
        others = link.asked - 1
        link.capacity = max(1, min(link.capacity, others))
        link.refusals = 0 if others else link.refusals + 1
        await self.give_back(link, stream=stream)
        if link.refusals:
            await asyncio.sleep(_FIRST_PAUSE * 2.0 ** (link.refusals - 1))
        return link.refusals < _REFUSALS

    def granted(self, link: Link) -> None:
        """The server opened a channel."""
        link.refusals = 0

    def _vacant(self) -> Link | None:
        """A connection with room."""
        if not self.alive:
            raise ConnectionError("the connection is closed")
        self._links[1:] = [link for link in self._links[1:] if not link.conn.is_closed()]
        return next((link for link in self._links if link.free), None)

    def _lacks(self, impatient: bool) -> bool:
        """Whether there is good reason for a further connection, where none has room."""
        enough = len(self._links) >= _MOST_LINKS
        return all(link.held_by_streams for link in self._links) or (impatient and not enough)

    async def _add(self) -> None:
        """A further connection, made while others take and give back places. Raises what dialling raises."""
        try:
            conn = await self._dial()
            if self._closed:
                conn.abort()
            else:
                self._links.append(Link(conn))
        finally:
            self._dialling = False
            async with self._changed:
                self._changed.notify_all()

    async def _change(self) -> bool:
        """Wait until a channel was closed; False when none was for a while."""
        try:
            async with asyncio.timeout(_PATIENCE):
                return await self._changed.wait()
        except TimeoutError:
            return False

    async def close(self) -> None:
        """Close every connection; those who wait for a place get an error."""
        self._closed = True
        for link in self._links:
            link.conn.close()
        async with self._changed:
            self._changed.notify_all()
        for link in self._links:
            with suppress(Exception):
                async with asyncio.timeout(2):
                    await link.conn.wait_closed()
            link.conn.abort()
