"""Places on connections: who gives one back, and who takes it, waits for no connection that is being made."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from distui.errors import SessionLost
from distui.remote import links as module
from distui.remote import session as sessions
from distui.remote.links import CHANNELS, Links
from distui.remote.session import SshSession


class Conn:
    """A connection that stands."""

    closed = False

    def is_closed(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close

    async def wait_closed(self) -> None:
        return


async def full(dial: Any) -> tuple[Links, list[Any]]:
    """All places are held by streams."""
    links = Links(Conn(), dial)  # type: ignore[arg-type]
    return links, [await links.take(stream=True) for _ in range(CHANNELS)]


async def test_a_place_that_is_given_back_is_taken_while_a_connection_is_made() -> None:
    """To a host that went away that takes as long as a login may; all commands there waited for it."""
    dialled: list[asyncio.Future[Any]] = []
    begun = asyncio.Event()

    def dial() -> Any:
        dialled.append(asyncio.get_running_loop().create_future())
        begun.set()
        return dialled[-1]

    links, held = await full(dial)
    async with asyncio.timeout(30):
        first, second = (asyncio.ensure_future(links.take(stream=False)) for _ in range(2))
        await begun.wait()
        async with asyncio.timeout(5):
            await links.give_back(held[0], stream=True)
            assert await second is held[0]
        assert len(dialled) == 1, "one at a time"
        dialled[0].set_result(Conn())
        assert await first not in held


async def test_a_connection_that_can_not_be_made_costs_who_wanted_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one tries again; one that comes after the session was closed is closed, too."""
    monkeypatch.setattr(module, "_PATIENCE", 0.05)
    late, tries = Conn(), []

    async def dial() -> Any:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("no answer")
        await links.close()
        return late

    links, _ = await full(dial)
    for said in ("no answer", "the connection is closed"):
        with pytest.raises(ConnectionError, match=said):
            await links.take(stream=True)
    assert late.closed


async def test_a_host_that_opens_no_channel_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though it answers keepalives: whoever followed a run there waited without an end, and without a word."""

    class Mute(Conn):
        async def create_session(self, *_: Any, **__: Any) -> None:
            await asyncio.Event().wait()

        create_unix_connection = create_session

    monkeypatch.setattr(sessions, "_OPENS", 0.05)
    session = SshSession("h1", Mute(), dial=Mute, connected_ms=1.0)  # type: ignore[arg-type]
    for opening in (session.open(["cat"]), session.open_unix("/run/docker.sock")):
        with pytest.raises(SessionLost, match=r"h1: it opens no channel within 0.05 s"):
            async with asyncio.timeout(10):
                await opening
    assert session._links._links[0].asked == 0
    await session.close()
