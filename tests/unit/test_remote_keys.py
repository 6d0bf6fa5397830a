"""Keys to log in with: what an agent that does not answer costs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import asyncssh
import pytest

from distui.remote.config import Resolved, Sources, resolve
from distui.remote.login import keys
from distui.remote.login.keys import Keys
from distui.spec.hosts.inventory import Host
from fakehosts.runs import until

PATIENCE = 0.2
NO_KEYS = b"\0\0\0\5\x0c\0\0\0\0"
"""SSH_AGENT_IDENTITIES_ANSWER with none."""


class StandIn:
    """An agent in this process that may be silent."""

    def __init__(self) -> None:
        self.silent = True
        self.asked = 0
        self.over: list[asyncio.Event] = []

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Count what it is asked, and answer that it has no keys."""
        over = asyncio.Event()
        self.over.append(over)
        while await reader.read(1000):
            self.asked += 1
            if not self.silent:
                writer.write(NO_KEYS)
        writer.close()
        over.set()


@asynccontextmanager
async def agent(folder: Path) -> AsyncIterator[tuple[StandIn, Resolved]]:
    """One, and a host that is to be logged in to with it."""
    one, path = StandIn(), folder / "agent"
    async with await asyncio.start_unix_server(one.talk, path):
        target = resolve(Host("h1"), Sources(folder, {"SSH_AUTH_SOCK": str(path)}, folder / "config", system=False))
        yield one, replace(target, identity_files=())
        await asyncio.gather(*(over.wait() for over in one.over))


async def test_a_silent_agent_is_waited_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by each login, one after the other: of 100 hosts the last one began after eight minutes."""
    monkeypatch.setattr(keys, "_AGENT_PATIENCE", PATIENCE)
    async with agent(tmp_path) as (one, target):
        logins, began = Keys(), time.monotonic()
        rings = [*await asyncio.gather(*(logins.ring(target) for _ in range(20))), await logins.ring(target)]
        assert time.monotonic() - began < 10 * PATIENCE
        assert {ring.agent_problem for ring in rings} == {
            f"the ssh agent at {tmp_path / 'agent'} can't be used: does not answer"
        }
        assert one.asked == 1
        one.silent = False
        others = Keys()
        assert (await others.ring(target)).agent_problem == ""
        others.close()


async def test_a_silent_agent_is_asked_again_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A forwarded one is back once the laptop is awake, and a run of days has to log in again."""
    monkeypatch.setattr(keys, "_AGENT_PATIENCE", PATIENCE)
    monkeypatch.setattr(keys, "_SILENT_FOR", PATIENCE)
    async with agent(tmp_path) as (one, target):
        logins = Keys()
        assert (await logins.ring(target)).agent_problem
        one.silent = False
        assert (await logins.ring(target)).agent_problem
        await asyncio.sleep(2 * PATIENCE)
        assert (await logins.ring(target)).agent_problem == ""
        logins.close()


async def test_a_question_that_is_cancelled_leaves_no_answer_behind(tmp_path: Path) -> None:
    """The next one would get it, and each after that the one before its own: no signature would be one."""
    async with agent(tmp_path) as (one, target):
        logins = Keys()
        asking = asyncio.create_task(logins.ring(target))
        await until(lambda: one.asked == 1)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        one.silent = False
        assert (await logins.ring(target)).agent_problem == ""
        assert len(one.over) == 2
        logins.close()


async def test_a_signature_that_is_not_waited_for_any_more_is_no_other_login_s(tmp_path: Path) -> None:
    """Of a login that was given up: the next one was given it, and refused by its host."""
    over, asked, late, key = (
        list[int](),
        list[bytes](),
        asyncio.Event(),
        asyncssh.generate_private_key("ssh-ed25519").convert_to_public(),
    )

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while size := await reader.read(4):
            question = await reader.readexactly(int.from_bytes(size, "big"))
            if question[0] == 11:  # for its keys
                answer = b"\x0c" + _string(b"", count=1) + _string(key.public_data) + _string(b"mine")
            else:
                asked.append(question)
                await (late.wait() if len(asked) == 1 else asyncio.sleep(0))
                answer = b"\x0e" + _string(b"signature %d" % asked.index(question))
            writer.write(_string(answer))
        writer.close()
        over.append(1)

    path = tmp_path / "agent"
    target = resolve(Host("h1"), Sources(tmp_path, {"SSH_AUTH_SOCK": str(path)}, tmp_path / "config", system=False))
    logins = Keys()
    async with asyncio.timeout(60), await asyncio.start_unix_server(talk, path):
        (held,) = (await logins.ring(replace(target, identity_files=()))).candidates
        first = asyncio.create_task(held.pair.sign_async(b"one"))
        await until(lambda: len(asked) == 1)
        second = asyncio.create_task(held.pair.sign_async(b"two"))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        late.set()
        assert await second == b"signature 1"
        assert await held.pair.sign_async(b"three") == b"signature 2"
        logins.close()
        await until(lambda: len(over) == 2)


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_login_that_asks_for_keys_meanwhile_breaks_off_no_signature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cancelled: bool
) -> None:
    """The agent waits for a touch, or for a yes: the next login hung up on it, and the first one was refused."""
    monkeypatch.setattr(keys, "_AGENT_PATIENCE", 60 if cancelled else PATIENCE)
    key, asked, touched, over = (
        asyncssh.generate_private_key("ssh-ed25519").convert_to_public(), list[int](), asyncio.Event(), asyncio.Event()
    )  # fmt: skip

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while size := await reader.read(4):
            asked.append((await reader.readexactly(int.from_bytes(size, "big")))[0])
            if asked[-1] == 11:  # for its keys
                answer = b"\x0c" + _string(b"", count=1) + _string(key.public_data) + _string(b"mine")
            else:
                await touched.wait()
                answer = b"\x0e" + _string(b"signature")
            writer.write(_string(answer))
        writer.close()
        over.set()

    path = tmp_path / "agent"
    target = resolve(Host("h1"), Sources(tmp_path, {"SSH_AUTH_SOCK": str(path)}, tmp_path / "config", system=False))
    target, logins = replace(target, identity_files=()), Keys()
    async with asyncio.timeout(60), await asyncio.start_unix_server(talk, path):
        (held,) = (await logins.ring(target)).candidates
        first = asyncio.create_task(held.pair.sign_async(b"one"))
        await until(lambda: len(asked) == 2)
        second = asyncio.create_task(logins.ring(target))
        if cancelled:
            await asyncio.sleep(0.01)
            second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        touched.set()
        assert await first == b"signature"
        logins.close()
        await over.wait()


def _string(data: bytes, *, count: int | None = None) -> bytes:
    return (len(data) if count is None else count).to_bytes(4, "big") + data


async def test_an_agent_that_was_started_again_is_asked_at_once(tmp_path: Path) -> None:
    """The first login after that was refused, as if there were no keys, and a run waited a minute to log in again."""

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.write(NO_KEYS)
        writer.close()

    path = tmp_path / "agent"
    target = resolve(Host("h1"), Sources(tmp_path, {"SSH_AUTH_SOCK": str(path)}, tmp_path / "config", system=False))
    logins = Keys()
    async with await asyncio.start_unix_server(once, path):
        rings = [await logins.ring(replace(target, identity_files=())) for _ in range(3)]
    logins.close()
    assert [ring.agent_problem for ring in rings] == ["", "", ""]


async def test_a_key_is_read_again_once_it_has_changed(tmp_path: Path) -> None:
    """Whoever does what the message says logs in, also in an app that has been open for days; so with a new key."""
    path, first, second = tmp_path / "key", *(asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    first.write_private_key(path)
    path.chmod(0o644)
    target = replace(
        resolve(Host("h1"), Sources(tmp_path, {}, tmp_path / "config", system=False)), identity_files=(path,)
    )
    logins = Keys()
    (words,) = (await logins.ring(target)).unreadable
    assert words.endswith("chmod 600")
    path.chmod(0o600)
    ring = await logins.ring(target)
    assert (ring.unreadable, [one.pair.public_data for one in ring.candidates]) == ((), [first.public_data])
    path.unlink()
    assert (await logins.ring(target)).missing == (path,)
    second.write_private_key(path)
    path.chmod(0o600)
    assert [one.pair.public_data for one in (await logins.ring(target)).candidates] == [second.public_data]


async def test_a_key_whose_numbers_fit_no_key_is_named(tmp_path: Path) -> None:
    """Of a damaged file; each login ended with a traceback."""
    path = tmp_path / "id_rsa"
    key = asyncssh.generate_private_key("ssh-rsa", key_size=1024).export_private_key("pkcs8-der")
    path.write_bytes(key[:-40] + bytes(40))
    path.chmod(0o600)
    target = replace(
        resolve(Host("h1"), Sources(tmp_path, {}, tmp_path / "config", system=False)), identity_files=(path,)
    )
    (words,) = (await Keys().ring(target)).unreadable
    assert words.startswith(f"{path}: ")
