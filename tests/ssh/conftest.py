"""A farm of ssh servers in the test's own loop, reached through the same connector as real hosts.

`farm.start("node01", commands)` starts a scripted host: `commands` maps a program's name to a coroutine that gets
its argv and stdin and gives a Reply; every other command is refused with status 127 and remembered. A `Fake` may
also be told to misbehave. `farm.demo(...)` starts hosts that really run commands (remote.demo).
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from distui.remote.demo.demo import DemoHosts
from distui.remote.pool import SshConnector
from distui.spec.hosts.inventory import Host
from fakehosts.ports import own_ports


@pytest.fixture(autouse=True)
def ports_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts of these tests are this machine."""
    own_ports(monkeypatch)


SCRIPT = "sh-script"
"""The name under which `Session.run_script` is looked up; the script is argv[1]."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a scripted command answers."""

    stdout: bytes = b""
    stderr: bytes = b""
    status: int = 0
    signal: str = ""


Command = Callable[[Sequence[str], bytes], Awaitable[Reply]]


def says(stdout: bytes = b"", *, stderr: bytes = b"", status: int = 0) -> Command:
    """A command that always answers the same."""

    async def command(argv: Sequence[str], stdin: bytes) -> Reply:
        return Reply(stdout, stderr, status)

    return command


@dataclass(slots=True)
class Fake:
    """How a scripted host behaves, and what it has seen."""

    name: str
    commands: Mapping[str, Command] = field(default_factory=dict)
    key: asyncssh.SSHKey = field(default_factory=lambda: asyncssh.generate_private_key("ssh-ed25519"))
    certificate: asyncssh.SSHCertificate | None = None
    more_keys: Sequence[asyncssh.SSHKey] = ()
    max_sessions: int = 10
    noise: bytes = b""
    """Printed on stdout and stderr before the login shell gets to the command."""
    shell: bool = True
    """False: the login shell prints the noise and ends, like nologin."""
    password_only: bool = False
    forwards: bool = False
    """Whether it is a jump host."""
    port: int = 0
    calls: list[tuple[str, ...]] = field(default_factory=list)
    refused: list[tuple[str, ...]] = field(default_factory=list)
    open_now: int = 0
    most_open: int = 0
    ends_unheard: bool = False
    """Whether its login shells end once they are sent something."""
    waiting: set[Any] = field(default_factory=set)
    """The channels whose login shell waits for a command."""
    logins: int = 0
    entering: int = 0
    """Connections whose login is not finished."""
    most_entering: int = 0
    keys_shown: list[bytes] = field(default_factory=list)
    connections: set[asyncssh.SSHServerConnection] = field(default_factory=set)

    def drop(self) -> None:
        """Cut every connection."""
        for conn in list(self.connections):
            conn.abort()


class Server(asyncssh.SSHServer):
    """One connection to a Fake."""

    def __init__(self, fake: Fake, accepted: bytes) -> None:
        self._fake = fake
        self._accepted = accepted
        self._open = 0

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._conn = conn
        self._fake.connections.add(conn)
        self._entering = True
        self._fake.entering += 1
        self._fake.most_entering = max(self._fake.most_entering, self._fake.entering)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fake.connections.discard(self._conn)
        self._entered()

    def _entered(self) -> None:
        self._fake.entering -= self._entering
        self._entering = False

    def begin_auth(self, username: str) -> bool:
        return True

    def auth_completed(self) -> None:
        self._fake.logins += 1
        self._entered()

    def public_key_auth_supported(self) -> bool:
        return not self._fake.password_only

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        self._fake.keys_shown.append(key.public_data)
        return key.public_data == self._accepted

    def password_auth_supported(self) -> bool:
        return self._fake.password_only

    def validate_password(self, username: str, password: str) -> bool:
        raise AssertionError("distui sent a password")

    def session_requested(self) -> Any:
        """At most max_sessions at once, as sshd counts them: per connection."""
        if self._open >= self._fake.max_sessions:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, "open failed")
        self._open += 1
        fake = self._fake
        fake.open_now += 1
        fake.most_open = max(fake.most_open, fake.open_now)
        return self._serve

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        """As sshd with AllowTcpForwarding no."""
        if not self._fake.forwards:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, "open failed")
        return True

    async def _serve(self, stdin: Any, stdout: Any, stderr: Any) -> None:
        try:
            with suppress(OSError, asyncssh.Error):
                await _one_command(self._fake, stdin, stdout, stderr)
        finally:
            self._open -= 1
            self._fake.open_now -= 1


async def _one_command(fake: Fake, stdin: Any, stdout: Any, stderr: Any) -> None:
    stdout.write(fake.noise)
    stderr.write(fake.noise)
    if not fake.shell:
        stdout.channel.exit(1)
        return
    if fake.ends_unheard:
        await stdin.read(1)
        stdout.channel.exit(1)
        return
    fake.waiting.add(stdout.channel)
    line = await stdin.readline()
    fake.waiting.discard(stdout.channel)
    if not line:  # it waited for a command, and none came
        stdout.channel.exit(1)
        return
    mark, argv = _understood(line.decode("utf-8", "surrogateescape"))
    for stream in (stdout, stderr):
        stream.write(f"{mark} 4242\n".encode())
    data = await stdin.read()
    if not argv:
        argv, data = (SCRIPT, data.decode()), b""
    reply = await _answer(fake, argv, data)
    stdout.write(reply.stdout)
    stderr.write(reply.stderr)
    if reply.signal:
        stdout.channel.exit_with_signal(reply.signal)
    else:
        stdout.channel.exit(reply.status)


async def _answer(fake: Fake, argv: tuple[str, ...], stdin: bytes) -> Reply:
    """Known commands answer, unknown ones are refused: a test says all that may run."""
    fake.calls.append(argv)
    command = fake.commands.get(argv[0])
    if command is None:
        fake.refused.append(argv)
        return Reply(stderr=f"sh: 1: exec: {argv[0]}: not found\n".encode(), status=127)
    return await command(argv, stdin)


def _understood(line: str) -> tuple[str, tuple[str, ...]]:
    """The mark and argv of a line made by remote.framing; no argv for a script."""
    found = re.match(r"printf '%s %s\\n' (\S+) \$\$; .*?; export PATH; (.*)\n$", line)
    assert found, f"not what remote.framing sends: {line!r}"
    mark, rest = found.groups()
    if rest == 'eval "$(cat)"':
        return mark, ()
    prefix, words = rest.split("exec ", 1)
    if prefix:
        words = words.replace('"$nl"', "'\n'")
    return mark, tuple(shlex.split(words))


class Farm:
    """Starts hosts and makes connectors; all files (config, known_hosts, keys) are in `home`/.ssh."""

    reply = Reply
    says = staticmethod(says)

    def __init__(self, home: Path, stack: AsyncExitStack) -> None:
        self.home = home
        self.folder = home / ".ssh"
        self.folder.mkdir(mode=0o700)
        self.client_key = asyncssh.generate_private_key("ssh-ed25519")
        self.write_key("id_ed25519", self.client_key)
        self.hosts: dict[str, Fake] = {}
        self._stack = stack

    async def start(
        self, name: str = "node01", commands: Mapping[str, Command] | None = None, *, known: bool = True, **how: Any
    ) -> Fake:
        """Start a scripted host, reachable as `name`; with `known=False` its key is not in known_hosts."""
        fake = Fake(name, commands or {}, **how)
        host_key: Any = (fake.key, fake.certificate) if fake.certificate else fake.key
        acceptor = await asyncssh.listen(
            "127.0.0.1",
            0,
            config=None,
            server_factory=lambda: Server(fake, self.client_key.public_data),
            server_host_keys=[host_key, *fake.more_keys],
            encoding=None,
            allow_pty=False,
        )
        fake.port = acceptor.get_port()
        self._stack.push_async_callback(_stop, acceptor, fake)
        self.hosts[name] = fake
        if known:
            self.trust(fake)
        return fake

    async def demo(self, count: int = 1, **how: Any) -> DemoHosts:
        """Hosts that really run commands, as /bin/sh or `env={"SHELL": ...}` would."""
        return await self._stack.enter_async_context(DemoHosts(count, root=self.home / "demos", **how))

    async def listen(self, name: str, serve: Callable[[asyncio.StreamWriter], Awaitable[None]]) -> None:
        """A TCP server that is no ssh server, or a strange one, reachable as `name`."""

        async def on_connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await serve(writer)
                await reader.read()
            except (ConnectionError, asyncio.CancelledError):
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(on_connect, "127.0.0.1", 0)
        self._stack.push_async_callback(_stop_tcp, server)
        self.hosts[name] = Fake(name, port=server.sockets[0].getsockname()[1])

    def connector(self, connect_timeout: float = 10.0, **how: Any) -> SshConnector:
        """A connector for all hosts started so far; closed at the end of the test."""
        hosts = [
            Host(name, "127.0.0.1", "tester", fake.port, connect_timeout=connect_timeout)
            for name, fake in self.hosts.items()
        ]
        options = {"home": self.home, "system": False, "env": {}, **how}
        connector = SshConnector(hosts, **options)
        self._stack.push_async_callback(connector.close)
        return connector

    async def session(self, name: str = "node01", **how: Any) -> Any:
        """A session with `name`, by a connector of its own."""
        return await self.connector(**how).connect(name)

    def trust(self, fake: Fake, key: asyncssh.SSHKey | None = None) -> None:
        """Add a line for `fake` to known_hosts, with its own key or another."""
        with (self.folder / "known_hosts").open("ab") as file:
            file.write(f"[127.0.0.1]:{fake.port} ".encode() + (key or fake.key).export_public_key())

    def configure(self, text: str) -> None:
        """Write ~/.ssh/config."""
        (self.folder / "config").write_text(text)

    def write_key(self, name: str, key: asyncssh.SSHKey, passphrase: str | None = None, mode: int = 0o600) -> Path:
        """Write a key pair into ~/.ssh."""
        path = self.folder / name
        style = "pkcs8-pem" if passphrase else "openssh"
        key.write_private_key(path, style, passphrase=passphrase)
        key.write_public_key(path.with_name(name + ".pub"))
        path.chmod(mode)
        return path


async def _stop(acceptor: asyncssh.SSHAcceptor, fake: Fake) -> None:
    acceptor.close()
    fake.drop()
    await acceptor.wait_closed()


async def _stop_tcp(server: asyncio.Server) -> None:
    server.close()
    await server.wait_closed()


@pytest.fixture
async def farm(tmp_path: Path) -> AsyncIterator[Farm]:
    """Ssh servers for one test, and a home folder with an accepted key."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    async with AsyncExitStack() as stack:
        yield Farm(home, stack)
