"""Whether an ssh server answers, without a login: a connection, its greeting, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from distui.cluster.hosts import first_hosts
from distui.cluster.hosts.first_hosts import Answer, FirstHost, FirstHosts, ask
from distui.spec.imports.imported import ImportedHost


@contextlib.asynccontextmanager
async def server(says: bytes | None, heard: asyncio.Queue[bytes] | None = None) -> AsyncIterator[int]:
    """Something that listens on a port of loopback, says this (None: hangs up) and notes what it hears."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if says is not None:
            writer.write(says)
            with contextlib.suppress(ConnectionResetError):  # of much that was said the end is not read
                words = await reader.read()
                if heard is not None:
                    heard.put_nowait(words)
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield listening.sockets[0].getsockname()[1]


def at(name: str, port: int) -> FirstHost:
    """A host on loopback."""
    return FirstHost(ImportedHost(name, {"addr": "127.0.0.1", "port": port}), "typed")


async def answers(*hosts: FirstHost) -> dict[str, Answer]:
    """What comes of asking them."""
    found: dict[str, Answer] = {}
    await ask(hosts, lambda name, answer: found.update({name: answer}))
    return found


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with an ssh config of its own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    return tmp_path


async def test_a_greeting_is_waited_for_and_nothing_is_sent() -> None:
    """Not even a version line: no login begins."""
    heard: asyncio.Queue[bytes] = asyncio.Queue()
    async with server(b"SSH-2.0-OpenSSH_9.6\r\n", heard) as port:
        found = await answers(at("n1", port))
        assert found["n1"].state == "yes"
        async with asyncio.timeout(30):
            assert await heard.get() == b""


async def test_what_is_wrong_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program, a server that hangs up, a closed port, one that never speaks: each in its words, in time."""
    async with (
        server(b"HTTP/1.1 400\r\n\r\n" + b"x" * 5000, []) as web,
        server(None) as shy,
        server(b"") as mute,
    ):
        async with server(b"") as closed:
            pass
        found = await answers(at("web", web), at("shy", shy), at("closed", closed))
        monkeypatch.setattr(first_hosts, "SECONDS", 0.5)
        found |= await answers(at("mute", mute))
    assert {name: answer.state for name, answer in found.items()} == dict.fromkeys(
        ("web", "shy", "mute", "closed"), "no"
    )
    for name, words in (("web", "HTTP"), ("shy", "hangs up"), ("mute", "no ssh greeting"), ("closed", "refuses")):
        assert words in found[name].words


async def test_a_host_behind_a_jump_host_is_not_tried(home: Path) -> None:
    """That would log in at the jump host, which nobody asked for; nor is a proxy command started."""
    marker = home / "ran"
    (home / ".ssh" / "config").write_text(
        f"Host far\n  ProxyJump gw1\nHost odd\n  ProxyCommand touch {marker}\nHost gw1\n  HostName 127.0.0.1\n"
    )
    found = await answers(*(FirstHost(ImportedHost(name), "~/.ssh/config") for name in ("far", "odd")))
    assert {answer.state for answer in found.values()} == {"through"}
    assert "gw1" in found["far"].words
    assert not marker.exists()


async def test_only_some_are_asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are."""
    now, most = 0, 0

    async def greeting(host: Any, timeout: float) -> tuple[float, str]:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1
        return 1.0, ""

    monkeypatch.setattr(first_hosts, "ssh_greeting", greeting)
    found = await answers(*FirstHosts((), {}, ()).with_typed("n[001-200]").hosts)
    assert len(found) == 200
    assert most == first_hosts.AT_ONCE
