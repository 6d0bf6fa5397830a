"""How many logins run at once: sshd drops unauthenticated connections beyond MaxStartups (10:30:100, FAULTS M15)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

AT_ONE_SERVER = 6
"""Logins in progress at one sshd; beyond 10 it begins to drop them at random."""


class Gate:
    """Lets a few through at a time; narrows when the server shows that it was too many."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._inside = 0
        self._changed = asyncio.Condition()

    def narrow(self) -> None:
        """The server dropped a login: let half as many through."""
        self._width = max(1, self._width // 2)

    @asynccontextmanager
    async def passing(self) -> AsyncIterator[None]:
        """Wait for a place, hold it for the block."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._inside < self._width)
            self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1
            async with self._changed:
                self._changed.notify_all()


class Gates:
    """One gate per server and one for all of them."""

    def __init__(self, parallel: int) -> None:
        self._all = Gate(parallel)
        self._servers: dict[Hashable, Gate] = {}

    def narrow(self, server: Hashable) -> None:
        """See `Gate.narrow`."""
        self._server(server).narrow()

    @asynccontextmanager
    async def passing(self, server: Hashable) -> AsyncIterator[None]:
        """A place at `server` and among all: first the rarer one, so that nobody waits holding the other."""
        async with self._server(server).passing(), self._all.passing():
            yield

    def _server(self, server: Hashable) -> Gate:
        return self._servers.setdefault(server, Gate(AT_ONE_SERVER))
