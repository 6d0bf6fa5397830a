"""Shells that wait for a command on hosts far away: what they save, and that nothing else comes of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from distui.errors import HostCommandError, SessionLost
from distui.remote import spares
from distui.remote.spares import AHEAD, FROM, MOST, SLOW_S, Spares

WAIT = 1 + AHEAD
"""So many wait where one command ran at a time."""


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every link counts as slow."""
    monkeypatch.setattr(spares, "SLOW_S", 0.0)


async def until(true: Callable[[], bool]) -> None:
    """Wait for it."""
    async with asyncio.timeout(20):
        while not true():  # noqa: ASYNC110 - it waits for what a server in the same loop sees
            await asyncio.sleep(0.01)


async def settled(host: Any, count: int) -> None:
    """Wait until so many channels of a host are open."""
    await until(lambda: host.open_now == count)


async def asked_often(farm: Any, host: Any) -> Any:
    """A session with shells that wait."""
    session = await farm.session()
    for _ in range(FROM):
        await session.run(["say"])
    await settled(host, WAIT)
    return session


async def test_a_session_that_asks_often_has_a_shell_that_waits(farm: Any, far: None) -> None:
    """From its second command on; each of those that follow is answered in one, and they end with the session."""
    host = await farm.start(commands={"say": farm.says(b"said", stderr=b"err", status=3)})
    session = await farm.session()
    for number in range(2 * FROM):
        done = await session.run(["say", str(number)], input=b"in")
        assert (done.stdout, done.stderr, done.status) == (b"said", b"err", 3)
        await settled(host, WAIT if number >= FROM - 1 else 0)
    assert host.calls == [("say", str(number)) for number in range(2 * FROM)]
    assert (host.logins, host.most_open) == (1, 1 + WAIT)
    await until(lambda: len(session._spares._waiting) == WAIT)
    await session.close()
    await settled(host, 0)


async def test_as_many_wait_as_were_under_way_together(farm: Any, far: None) -> None:
    """But no more than a few."""
    go = asyncio.Event()

    async def waits(argv: Any, stdin: bytes) -> Any:
        await go.wait()
        return farm.reply(argv[1].encode())

    host = await farm.start(commands={"wait": waits})
    session = await farm.session()
    running = [asyncio.create_task(session.run(["wait", str(number)])) for number in range(5)]
    await until(lambda: len(host.calls) == 5)
    go.set()
    assert [done.stdout for done in await asyncio.gather(*running)] == [b"0", b"1", b"2", b"3", b"4"]
    await session.run(["wait", "again"])
    await settled(host, MOST)


@pytest.mark.parametrize("allowed", [1, 2, 3])
async def test_they_take_nobody_s_place(farm: Any, far: None, allowed: int) -> None:
    """With a small MaxSessions commands run as without them, and over one connection."""
    host = await farm.start(commands={"say": farm.says(b"said")}, max_sessions=allowed)
    session = await farm.session()
    for _ in range(2 * FROM):
        assert (await session.run(["say"])).ok
    done = await asyncio.gather(*(session.run(["say"]) for _ in range(6)))
    assert all(one.ok for one in done) and host.logins == 1


@pytest.mark.parametrize("allowed", [1, 2, 3])
async def test_a_stream_has_their_place(farm: Any, far: None, allowed: int) -> None:
    """Where there is room for one that waits and a command, and no more."""
    host = await farm.start(commands={"say": farm.says(b"said")}, max_sessions=allowed)
    session = await farm.session()
    for _ in range(FROM):
        await session.run(["say"])
    stream = await session.open(["say"])
    await stream.write_eof()
    assert await stream.read() == b"said"
    assert host.logins == 1


async def test_one_that_the_host_has_ended_is_not_used(farm: Any, far: None) -> None:
    """As sshd's ChannelTimeout does: the next command has a shell of its own, and no other waits from then on."""
    host = await farm.start(commands={"say": farm.says(b"said")})
    session = await asked_often(farm, host)
    for channel in list(host.waiting):
        channel.exit(0)
    await settled(host, 0)
    assert [(await session.run(["say"])).stdout for _ in range(3)] == [b"said"] * 3
    await settled(host, 0)


async def test_one_that_ends_as_it_is_sent_a_command_has_not_run_it(farm: Any, far: None) -> None:
    """Then a shell of its own does, once."""
    host = await farm.start(commands={"say": farm.says(b"said")}, ends_unheard=True)
    session = await farm.session()
    for _ in range(FROM):
        with pytest.raises(HostCommandError, match="it printed nothing"):
            await session.run(["say"])  # one that was started for it
    await settled(host, WAIT)
    host.ends_unheard = False
    assert (await session.run(["say"])).stdout == b"said"
    assert len(host.calls) == 1
    await settled(host, 0)


async def test_a_connection_that_breaks_is_lost_all_the_same(farm: Any, far: None) -> None:
    """Who asked decides whether to ask again."""
    host = await farm.start(commands={"say": farm.says(b"said")})
    session = await asked_often(farm, host)
    host.drop()
    with pytest.raises(SessionLost):
        await session.run(["say"])


async def near_the_end(farm: Any) -> tuple[Any, Path]:
    """A session with a host that really runs commands, where the next one has a shell that waits; and its home."""
    demo = await farm.demo()
    session = await demo.connector().connect("demo1")
    for _ in range(FROM):
        await session.run(["true"])
    await until(lambda: bool(session._spares._waiting))
    return session, farm.home / "demos" / "demo1"


async def test_a_command_in_one_that_takes_too_long_is_ended(farm: Any, far: None) -> None:
    """Its process does not stay behind."""
    session, home = await near_the_end(farm)
    with pytest.raises(HostCommandError, match="sh did not finish within 5 s"):
        await session.run(["sh", "-c", "echo $$ >pid; exec sleep 600"], timeout=5)
    pid = int((home / "pid").read_text())
    assert (await session.run(["sh", "-c", f"while [ -d /proc/{pid} ]; do sleep 0.05; done"])).ok
    await session.close()


async def test_a_command_in_one_has_all_of_its_input_and_its_own_limits(farm: Any, far: None) -> None:
    """Of both outputs; what it is given may be larger than every buffer."""
    session, _ = await near_the_end(farm)
    data = bytes(range(256)) * 20_000
    assert (await session.run(["cat"], input=data)).stdout == data
    done = await session.run(["sh", "-c", "head -c 3000000 /dev/zero >&2; echo done"], limit=1 << 20)
    assert (done.stdout, len(done.stderr), done.truncated) == (b"done\n", 1 << 20, True)
    await session.close()


@pytest.mark.parametrize(
    ("opened", "commands", "wait"),
    [((1.0,), FROM, WAIT), ((1.0,), FROM - 1, 0), ((1.0, SLOW_S / 2, 1.0), FROM, 0), ((), FROM, 0)],
    ids=["far", "few commands", "near, and busy now", "not known yet"],
)
async def test_which_sessions_have_any(opened: tuple[float, ...], commands: int, wait: int) -> None:
    """Those over links on which a round trip is felt, that ask often."""
    asked: list[int] = []

    async def open_one() -> None:
        asked.append(1)

    of_session = Spares(open_one)
    for seconds in opened:
        of_session.opened(seconds)
    for _ in range(commands):
        of_session.begin("mark", 1)
        of_session.end()
    await of_session.top_up()
    assert len(asked) == wait


async def test_commands_that_begin_at_once_open_no_more_than_may_wait() -> None:
    """Each had counted those that wait before any other had opened one."""
    opened: list[Any] = []

    async def shell() -> Any:
        opened.append(1)
        await asyncio.sleep(0)

    shells = Spares(shell)
    shells.opened(1.0)
    for number in range(4):
        shells.begin(str(number), 1)
    await asyncio.gather(*(shells.top_up() for _ in range(4)))
    assert len(opened) == MOST
