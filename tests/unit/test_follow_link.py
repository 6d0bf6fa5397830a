"""One host's connection: made when needed, made again when lost, never in a hurry after a refusal."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from distui.errors import HostAuthError, HostError, HostUnreachable, SessionLost
from distui.runs.follow import follower as follow
from distui.runs.follow.feed import EngineAccess
from distui.runs.follow.followed import FollowEvent, Lost, Note
from distui.runs.hosts.link import HostLink
from distui.runs.lines.frames import NoHelper
from distui.session import Completed


class FakeSession:
    """Answers, or breaks at once."""

    host = "h"
    alive = True

    def __init__(self, number: int, broken: bool = False) -> None:
        self.number = number
        self.broken = broken
        self.closed = False
        self.ran: list[tuple[str, ...]] = []

    async def run(self, argv: Sequence[str], **options: Any) -> Completed:
        self.ran.append(tuple(argv))
        if self.broken:
            raise SessionLost("h", "h: gone")
        return Completed(tuple(argv), 0, b"%d" % self.number, b"")

    async def close(self) -> None:
        self.closed = True


class FakeConnector:
    """Gives what it was told, in order; an error is raised."""

    def __init__(self, *results: FakeSession | HostError) -> None:
        self.results = list(results)
        self.asked = 0

    async def connect(self, host: str) -> Any:
        self.asked += 1
        result = self.results.pop(0) if len(self.results) > 1 else self.results[0]
        if isinstance(result, HostError):
            raise result
        return result

    async def close(self) -> None:
        return None


def make(connector: FakeConnector, messages: list[tuple[str, str]] | None = None, **options: Any) -> HostLink:
    return HostLink(
        connector,
        "h",
        on_change=(lambda state, reason: messages.append((state, reason))) if messages is not None else None,
        jitter=lambda: 0.0,
        **options,
    )


async def test_waits_double_up_to_fifteen_seconds(naps: list[float]) -> None:
    """A host that is down is not hammered, and found again soon enough."""
    down = HostUnreachable("h", "h: refused", code="refused")
    link = make(FakeConnector(*[down] * 7, FakeSession(1)))
    assert (await link.session()).number == 1  # type: ignore[attr-defined]
    assert naps == [0.5, 1, 2, 4, 8, 15, 15]
    await link.close()


async def test_who_is_cancelled_while_closing_is_cancelled() -> None:
    """Also while a login that was begun is waited for, whose own cancellation is none of theirs."""

    class Slow(FakeConnector):
        async def connect(self, host: str) -> Any:
            try:
                await asyncio.sleep(600)
            finally:
                await asyncio.sleep(0.1)

    link = make(Slow())
    asking = asyncio.ensure_future(link.session())
    await asyncio.sleep(0.01)
    closing = asyncio.ensure_future(link.close())
    await asyncio.sleep(0.01)
    closing.cancel()
    await asyncio.wait([closing], timeout=15)
    assert closing.cancelled()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await link.close()


async def test_everybody_shares_one_login(naps: list[float]) -> None:
    """Ten commands at once make one connection."""
    connector = FakeConnector(FakeSession(1))
    link = make(connector)
    sessions = await asyncio.gather(*(link.session() for _ in range(10)))
    assert connector.asked == 1
    assert len({id(s) for s in sessions}) == 1
    await link.close()


async def test_a_refused_first_login_is_reported_at_once(naps: list[float]) -> None:
    """Waiting will not heal it, and trying again fast locks the address out."""
    link = make(FakeConnector(HostAuthError("h", "h: no key fits")))
    with pytest.raises(HostAuthError):
        await link.session()
    await link.close()


@pytest.mark.parametrize(
    "refusal",
    [HostAuthError("h", "h: no key fits"), HostUnreachable("h", "h: refuses us for a while", code="penalty")],
    ids=["login", "penalty"],
)
async def test_after_a_refusal_in_mid_run_it_waits_a_minute(naps: list[float], refusal: HostError) -> None:
    """The run's connection was good once: go on, slowly."""
    first = FakeSession(1)
    link = make(FakeConnector(first, refusal, FakeSession(2)))
    link.lost(await link.session(), SessionLost("h", "h: cut"))
    assert (await link.session()).number == 2  # type: ignore[attr-defined]
    assert naps == [0, 60]
    await link.close()


async def test_give_up_raises_the_last_error(naps: list[float]) -> None:
    """With a limit of nothing there is one try."""
    link = make(FakeConnector(HostUnreachable("h", "h: refused")))
    with pytest.raises(HostUnreachable):
        await link.session(give_up=0)
    await link.close()


async def test_changes_are_reported_once_with_the_reason(naps: list[float]) -> None:
    """up, lost, back; news of an old session changes nothing."""
    messages: list[tuple[str, str]] = []
    first = FakeSession(1)
    link = make(FakeConnector(first, FakeSession(2)), messages)
    old = await link.session()
    link.lost(old, SessionLost("h", "h: cut"))
    link.lost(old, SessionLost("h", "h: cut again"))
    await link.session()
    link.lost(old, SessionLost("h", "h: late"))
    assert messages == [("up", ""), ("lost", "h: cut"), ("back", "")]
    await link.close()
    assert first.closed


async def test_only_idempotent_commands_are_sent_again(naps: list[float]) -> None:
    """Nobody knows whether the other ones ran."""
    link = make(FakeConnector(FakeSession(1, broken=True), FakeSession(2)))
    assert (await link.run(("true",), idempotent=True)).text == "2"
    await link.close()
    link = make(FakeConnector(FakeSession(1, broken=True), FakeSession(2)))
    with pytest.raises(SessionLost):
        await link.run(("docker", "run"))
    assert (await link.run(("true",))).text == "2"
    await link.close()


async def test_a_command_that_always_breaks_the_connection_is_not_sent_for_ever(naps: list[float]) -> None:
    """Five times, then the error."""
    session = FakeSession(1, broken=True)
    link = make(FakeConnector(session))
    with pytest.raises(SessionLost):
        await link.run(("kill-ssh",), idempotent=True)
    assert len(session.ran) == 5
    await link.close()


async def test_close_ends_those_who_wait(naps: list[float]) -> None:
    """Nobody hangs on a link that is closed."""
    link = make(FakeConnector(HostUnreachable("h", "h: refused")))
    waiting = asyncio.ensure_future(link.session())
    await asyncio.sleep(0)
    await link.close()
    with pytest.raises(SessionLost):
        await waiting


async def test_a_connection_lost_before_following_began_is_reported(
    naps: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ranks would pass for running for ever: nobody else says that the host is out of reach."""
    monkeypatch.setattr(follow, "_TELL_AFTER", 0.01)
    session: Any = FakeSession(1)
    link = make(FakeConnector(HostUnreachable("h", "h: no route", code="route")), session=session)
    link.lost(session, SessionLost("h", "h: gone"))
    output: asyncio.Queue[FollowEvent] = asyncio.Queue()
    follower = follow.HostFollower(link, EngineAccess("process"), output.put, run_id="r")
    running = asyncio.create_task(follower.run())

    lost = await asyncio.wait_for(output.get(), 10)
    await follower.close()
    await running
    await link.close()

    assert isinstance(lost, Lost)
    assert lost.what == "host"
    assert output.empty()


class OpenedFeed:
    """A feed that nothing comes from, until it is closed."""

    kind, why = "helper", ""

    def __init__(self) -> None:
        self.lost: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()

    async def close(self) -> None:
        if not self.lost.done():
            self.lost.set_result(SessionLost("h", "h: closed"))


async def test_a_follower_that_is_closed_in_the_moment_it_has_its_feed_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that is closed just then: who leaves the run waits for the follower's end."""
    link, opened = make(FakeConnector(FakeSession(1))), asyncio.Event()
    feeds: list[OpenedFeed] = []

    async def open_helper(*_: Any, **__: Any) -> OpenedFeed:
        await follower.close()
        feeds.append(OpenedFeed())
        opened.set()
        return feeds[-1]

    async def take(_: FollowEvent) -> None:
        return None

    monkeypatch.setattr(follow, "open_helper", open_helper)
    follower = follow.HostFollower(link, EngineAccess("process"), take, run_id="r")
    async with asyncio.timeout(60):
        await follower.run()
    assert opened.is_set() and all(feed.lost.done() for feed in feeds)
    await link.close()


async def test_a_host_that_had_no_helper_may_have_one_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was too busy for a greeting when it was started had no figures for as long as its connection stood."""
    monkeypatch.setattr(follow, "_HELPER_AFTER", 0.01)
    session = FakeSession(1)
    link, tries, feeds = make(FakeConnector(session)), [0], list[Any]()
    helped = asyncio.Event()

    async def open_helper(*_: Any, **__: Any) -> OpenedFeed:
        tries[0] += 1
        if tries[0] < 3:
            raise NoHelper("no greeting within 20 s")
        feeds.append(OpenedFeed())
        helped.set()
        return feeds[-1]

    class Channels(OpenedFeed):
        kind, why = "dial", "no greeting within 20 s"

        async def close(self) -> None:
            if not self.lost.done():
                self.lost.set_result(ConnectionError("closed"))

    async def open_channels(*_: Any) -> Channels:
        feeds.append(Channels())
        return feeds[-1]

    said: list[FollowEvent] = []

    async def take(event: FollowEvent) -> None:
        said.append(event)

    monkeypatch.setattr(follow, "open_helper", open_helper)
    monkeypatch.setattr(follow, "open_channels", open_channels)
    follower = follow.HostFollower(link, EngineAccess("process"), take, run_id="r")
    running = asyncio.ensure_future(follower.run())
    async with asyncio.timeout(20):
        await helped.wait()
    await follower.close()
    await running
    await link.close()
    assert [feed.kind for feed in feeds] == ["dial", "dial", "helper"]
    assert [type(event) for event in said] == [Note], "and nothing of it is called lost"


async def test_a_connection_that_broke_unused_is_made_again_before_the_next_command() -> None:
    """Also for one that may not be sent twice: a start after a push of half an hour had failed for it."""
    dead, messages = FakeSession(1, broken=True), list[tuple[str, str]]()
    dead.alive = False
    link = make(FakeConnector(FakeSession(2)), messages, session=cast("Any", dead))
    assert (await link.run(("docker", "run"))).stdout == b"2"
    assert dead.closed and not dead.ran
    assert [state for state, _ in messages] == ["lost", "back"]
    await link.close()


async def test_what_nobody_expected_of_a_login_is_raised() -> None:
    """Whoever waited for the connection waited for ever."""

    class Broken(FakeConnector):
        async def connect(self, host: str) -> Any:
            raise ZeroDivisionError

    link = make(Broken())
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            async with asyncio.timeout(5):
                await link.session()
    await link.close()


async def test_a_command_of_hours_outlives_more_breaks_than_a_short_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Data is fetched for hours, and goes on where it was: with the fifth break of a night the start had failed."""
    now = [0.0]
    monkeypatch.setattr("distui.runs.hosts.link.time.monotonic", lambda: now[0])

    class Hours(FakeSession):
        async def run(self, argv: Sequence[str], **options: Any) -> Completed:
            now[0] += 3600.0
            return await super().run(argv, **options)

    broken = [Hours(number, broken=True) for number in range(7)]
    link = make(FakeConnector(*broken, Hours(7)))
    assert (await link.run(("fetch",), idempotent=True)).stdout == b"7"
    await link.close()
