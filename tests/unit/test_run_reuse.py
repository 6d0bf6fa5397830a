"""One login per host for all steps of a command, and never a broken connection handed on."""

from __future__ import annotations

import asyncio

import pytest

from distui.errors import HostCommandError, HostUnreachable, SessionLost
from distui.runs.hosts.reuse import ReusingConnector
from distui.session import Completed
from fakehosts.hosts import FakeConnector, FakeHost

PS = ("docker", "ps", "--all", "--quiet", "--no-trunc", "--filter", "label=distui.run")


def make() -> tuple[ReusingConnector, FakeHost, FakeConnector]:
    """A host behind a reusing connector."""
    host = FakeHost("h1")
    inner = FakeConnector(host)
    return ReusingConnector(inner), host, inner


async def test_a_closed_session_serves_the_next_step() -> None:
    """Three steps, one login."""
    connector, host, _ = make()
    for _ in range(3):
        session = await connector.connect("h1")
        assert (session.host, session.connected_ms) == ("h1", 1.0)
        assert (await session.run(PS)).ok
        await session.put("/home/u/x", b"1")
        await session.close()
    assert (host.logins, host.open_sessions) == (1, 1)


async def test_two_at_once_are_two_logins_and_one_is_kept() -> None:
    """A session in use is nobody else's; of two closed ones one stays."""
    connector, host, _ = make()
    one, two = await connector.connect("h1"), await connector.connect("h1")
    assert host.logins == 2
    await one.close()
    await two.close()
    assert host.open_sessions == 1
    await connector.connect("h1")
    assert host.logins == 2


async def test_closing_twice_gives_it_back_once() -> None:
    """A second close does not put a session that another step has got back on the shelf."""
    connector, host, _ = make()
    one = await connector.connect("h1")
    await one.close()
    two = await connector.connect("h1")
    await one.close()
    three = await connector.connect("h1")
    assert host.logins == 2
    assert (await two.run(PS)).ok
    assert (await three.run(PS)).ok


@pytest.mark.parametrize(
    "error",
    [SessionLost("h1", "gone"), HostCommandError("h1", "took too long", code="command_timeout")],
)
async def test_a_broken_connection_is_not_handed_on(error: Exception) -> None:
    """After a loss or a command that hung, the next step logs in again."""
    connector, host, _ = make()
    session = await connector.connect("h1")
    host.fails["ps"] = error
    with pytest.raises(type(error)):
        await session.run(PS)
    await session.close()
    assert host.open_sessions == 0
    del host.fails["ps"]
    assert (await (await connector.connect("h1")).run(PS)).ok
    assert host.logins == 2


async def test_a_command_that_fails_breaks_nothing() -> None:
    """Exit statuses and refusals are no reason for another login."""
    connector, host, _ = make()
    host.fails["ps"] = Completed(PS, 1, b"", b"no")
    host.fails["put"] = HostCommandError("h1", "disk full")
    session = await connector.connect("h1")
    assert not (await session.run(PS)).ok
    with pytest.raises(HostCommandError):
        await session.put("/x", b"")
    await session.close()
    await connector.connect("h1")
    assert host.logins == 1


async def test_a_login_that_fails_is_tried_again() -> None:
    """Errors of the inner connector come through."""
    connector, _, inner = make()
    inner.down["h1"] = HostUnreachable("h1", "refused")
    with pytest.raises(HostUnreachable):
        await connector.connect("h1")
    del inner.down["h1"]
    assert (await connector.connect("h1")).host == "h1"


async def test_closing_the_connector_closes_everything() -> None:
    """Shelved sessions too; the inner connector hears it."""
    connector, host, inner = make()
    await (await connector.connect("h1")).close()
    assert host.open_sessions == 1
    await connector.close()
    assert host.open_sessions == 0
    assert inner.closed


async def test_a_connection_that_broke_between_two_steps_is_not_handed_on() -> None:
    """A laptop slept meanwhile: the next step logs in again, and calls no host lost."""
    connector, host, _ = make()
    await (await connector.connect("h1")).close()
    (shelved,) = connector._shelf.values()
    shelved.alive = False  # type: ignore[attr-defined]
    assert (await (await connector.connect("h1")).run(PS)).ok
    assert (host.logins, host.open_sessions) == (2, 1)


async def test_who_is_cancelled_while_it_closes_leaves_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session may take its time to close: whatever is under it is closed all the same."""
    connector, _, inner = make()
    await (await connector.connect("h1")).close()
    closing, closed = asyncio.Event(), asyncio.Event()

    async def forever() -> None:
        closing.set()
        await asyncio.Event().wait()

    async def close() -> None:
        closed.set()

    monkeypatch.setattr(connector._shelf["h1"], "close", forever)
    monkeypatch.setattr(inner, "close", close)
    work = asyncio.create_task(connector.close())
    await closing.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert closed.is_set()
