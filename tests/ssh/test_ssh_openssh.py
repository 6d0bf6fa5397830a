"""The same promises with OpenSSH's own sshd, where it is installed: limits, forced commands, many logins."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from distui.errors import HostAuthError, HostCommandError, SessionLost
from distui.remote.pool import SshConnector
from distui.spec.hosts.inventory import Host
from fakehosts.ports import held_port

SSHD = [path for path in [shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin:/usr/bin")] if path]
pytestmark = pytest.mark.parametrize("sshd", SSHD)


@asynccontextmanager
async def serving(sshd: str, farm: Any, *settings: str) -> AsyncIterator[tuple[SshConnector, Path]]:
    """An sshd of this user on loopback with `settings`, and a connector whose hosts all lead to it."""
    with held_port() as port:
        async with serving_at(port, sshd, farm, *settings) as both:
            yield both


@asynccontextmanager
async def serving_at(port: int, sshd: str, farm: Any, *settings: str) -> AsyncIterator[tuple[SshConnector, Path]]:
    """The same on this port."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    host_key = farm.write_key("host_key", key)
    keys = farm.folder / "authorized_keys"
    keys.write_bytes(farm.client_key.export_public_key())
    lines = (
        f"Port {port}", "ListenAddress 127.0.0.1", f"HostKey {host_key}", f"AuthorizedKeysFile {keys}",
        "PidFile none", "StrictModes no", "UsePAM no", "LogLevel VERBOSE", *settings,
    )  # fmt: skip
    config = farm.home / "sshd_config"
    config.write_text("\n".join(lines) + "\n")
    (farm.folder / "known_hosts").write_bytes(f"[127.0.0.1]:{port} ".encode() + key.export_public_key())
    with contextlib.suppress(OSError):
        Path("/run/sshd").mkdir(exist_ok=True)  # noqa: ASYNC240 - where root's sshd insists on it
    log = farm.home / "sshd.log"
    process = await asyncio.create_subprocess_exec(
        sshd, "-D", "-e", "-f", config, stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    while b"Server listening" not in (line := await process.stderr.readline()):
        assert line, "sshd did not start"
    logging = asyncio.ensure_future(_log(process.stderr, log))
    hosts = [Host(f"n{n}", "127.0.0.1", getpass.getuser(), port) for n in range(40)]
    connector = SshConnector(hosts, home=farm.home, system=False, env={})
    try:
        yield connector, log
    finally:
        await connector.close()
        process.terminate()
        await process.wait()
        await logging


async def _log(stream: asyncio.StreamReader, path: Path) -> None:
    with path.open("wb") as file:
        while line := await stream.readline():
            file.write(line)


@pytest.mark.parametrize("allowed", [1, 3])
async def test_max_sessions(sshd: str, farm: Any, allowed: int) -> None:
    """Commands and two streams at once, though sshd opens no more than so many channels per connection."""
    async with serving(sshd, farm, f"MaxSessions {allowed}") as (connector, _):
        session = await connector.connect("n0")
        streams = [await session.open(["cat"]) for _ in range(2)]
        done = await asyncio.gather(*(session.run(["echo", str(n)]) for n in range(6)))
        assert [one.text for one in done] == [f"{n}\n" for n in range(6)]
        for stream in streams:
            await stream.write(b"x")
            assert await stream.read() == b"x"
            await stream.write_eof()
            assert await stream.wait() == 0


async def test_max_startups_with_forty_hosts_on_one_server(sshd: str, farm: Any) -> None:
    """sshd drops logins beyond the second; all get in in the end."""
    async with serving(sshd, farm, "MaxStartups 2:100:3", "LoginGraceTime 20") as (connector, _):
        sessions = await asyncio.gather(*(connector.connect(f"n{n}") for n in range(40)))
        assert len({session.host for session in sessions}) == 40


async def test_a_command_that_takes_too_long_is_gone_from_the_host(sshd: str, farm: Any) -> None:
    """sshd passes no signals to root's commands, so `kill` does it; the whole process group ends."""
    async with serving(sshd, farm) as (connector, _):
        session = await connector.connect("n0")
        pids = farm.home / "pids"
        script = f"sleep 300 & echo $$ $! >{pids}; wait"
        with pytest.raises(HostCommandError, match="did not finish"):
            await session.run(["sh", "-c", script], timeout=8)
        for pid in pids.read_text().split():
            gone = await session.run(["sh", "-c", f"while [ -d /proc/{pid} ]; do sleep 0.05; done"])
            assert gone.ok


async def test_a_program_in_the_background_that_keeps_the_output_open_is_said(sshd: str, farm: Any) -> None:
    """A start-up file left it there: the command has ended, and the host does not hang."""
    async with serving(sshd, farm) as (connector, _):
        session = await connector.connect("n0")
        script = f"sleep 600 & echo $! >{farm.home}/pid"
        with pytest.raises(HostCommandError, match="sh has ended, but its output stays open") as caught:
            await session.run(["sh", "-c", script], timeout=3)
        late = await session.run(["sh", "-c", "sleep 2 & echo x"])
        assert late.ok and 1 < late.lingered < 2.5
        assert (await session.run(["sh", "-c", "sleep 1"])).lingered == 0
        os.kill(int((farm.home / "pid").read_text()), signal.SIGKILL)
        await session.close()
    assert caught.value.code == "command_timeout"


async def test_an_endless_answer_is_ended(sshd: str, farm: Any) -> None:
    """Cut at the limit, with the command gone."""
    async with serving(sshd, farm) as (connector, _):
        session = await connector.connect("n0")
        done = await session.run(["sh", "-c", f"echo $$ >{farm.home}/pid; exec yes"], limit=50_000)
        assert (len(done.stdout), done.truncated) == (50_000, True)
        pid = (farm.home / "pid").read_text().strip()
        assert (await session.run(["sh", "-c", f"while [ -d /proc/{pid} ]; do sleep 0.05; done"])).ok


@pytest.mark.parametrize("command", ["/bin/echo no shells here", "/usr/sbin/nologin", "/nonexistent/shell"])
async def test_a_forced_command_is_told_as_such(sshd: str, farm: Any, command: str) -> None:
    """Code `rubbish`, with what was printed instead."""
    async with serving(sshd, farm, f"ForceCommand {command}") as (connector, _):
        session = await connector.connect("n0")
        with pytest.raises(HostCommandError, match="runs no commands: it printed") as caught:
            await session.run(["true"])
        assert caught.value.code == "rubbish"


async def test_a_server_that_wants_more_than_a_key_says_what(sshd: str, farm: Any) -> None:
    """The key is fine: installing it again, as for one that is refused, is no help."""
    methods = "AuthenticationMethods publickey,keyboard-interactive"
    async with serving(sshd, farm, methods, "KbdInteractiveAuthentication yes") as (connector, _):
        with pytest.raises(HostAuthError, match="wants keyboard-interactive besides a key") as caught:
            await connector.connect("n0")
        assert "ssh-copy-id" not in caught.value.hint


async def test_an_account_without_sessions_is_told_as_such(sshd: str, farm: Any) -> None:
    """MaxSessions 0: logins only for forwarding."""
    async with serving(sshd, farm, "MaxSessions 0") as (connector, _):
        session = await connector.connect("n0")
        with pytest.raises(HostCommandError, match="opens no session for commands"):
            await session.run(["true"])


@pytest.mark.parametrize(("setting", "reached"), [("yes", True), ("no", False)])
async def test_unix_sockets_as_sshd_allows_them(
    sshd: str, farm: Any, tmp_path: Path, setting: str, reached: bool
) -> None:
    """AllowStreamLocalForwarding no and a missing socket are both `forward_refused`."""
    path = tmp_path / "s"
    server = await asyncio.start_unix_server(lambda reader, writer: (writer.write(b"hi"), writer.close())[1], path)
    async with serving(sshd, farm, f"AllowStreamLocalForwarding {setting}") as (connector, _):
        session = await connector.connect("n0")
        if reached:
            channel = await session.open_unix(str(path))
            assert await channel.read() == b"hi"
            await channel.close()
        for missing in ("/nowhere", *([] if reached else [str(path)])):
            with pytest.raises(HostCommandError) as caught:
                await session.open_unix(missing)
            assert caught.value.code == "forward_refused"
    server.close()
    await server.wait_closed()


async def test_a_killed_sshd_session_is_a_lost_connection(sshd: str, farm: Any) -> None:
    """Not a command that ended; the pool can connect again."""
    async with serving(sshd, farm) as (connector, _):
        session = await connector.connect("n0")
        asking = ["sh", "-c", "ps -o ppid= -p $$"]
        parent = int((await session.run(asking)).text)
        pid = farm.home / "pid"
        running = asyncio.ensure_future(
            session.run(["sh", "-c", f"echo $$ >{pid}.new; mv {pid}.new {pid}; exec sleep 60"])
        )
        other = await connector.connect("n1")
        await other.run(["sh", "-c", f"while [ ! -e {pid} ]; do sleep 0.05; done"])
        await other.run(["kill", "-9", str(parent)])
        with pytest.raises(SessionLost):
            await running
        again = await connector.connect("n0")
        assert (await again.run(["kill", pid.read_text().strip()])).ok


async def test_nothing_about_a_command_or_its_input_is_in_the_log_or_the_process_list(sshd: str, farm: Any) -> None:
    """Not even at sshd's verbose level: what sshd starts is the same for every command."""
    async with serving(sshd, farm) as (connector, log):
        session = await connector.connect("n0")
        listing = "ps -eo args | grep -v grep | grep -c canary-input; cat >/dev/null"
        done = await session.run(["sh", "-c", listing, "canary-argument"], input=b"canary-input" * 9)
        assert done.text.split() == ["0"]
        await session.put(str(farm.home / "env"), b"canary-input")
    assert "canary" not in log.read_text()
