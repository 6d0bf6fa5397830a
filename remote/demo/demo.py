"""Hosts to try distui on without a cluster: ssh servers in this process, on loopback, that run real commands.

They write an ssh config, a client key and a known_hosts file into a folder, so that they are reached through the
very path that real hosts are reached by. Only that key is let in, and only from this machine.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import asyncssh

from distui.remote.demo.demo_session import DemoSession
from distui.remote.pool import SshConnector
from distui.spec.hosts.inventory import Host

_USER = "demo"
_KEPT_ENV = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR")
"""Variables a command gets from this process; sshd passes on hardly more."""

_PATIENCE = 5.0


class HasName(Protocol):
    """A host of the inventory, as far as it matters here."""

    @property
    def name(self) -> str: ...


class DemoServer(asyncssh.SSHServer):
    """One login: the one key, commands, and (if allowed) unix sockets."""

    def __init__(self, host: DemoHost) -> None:
        self._host = host

    def begin_auth(self, username: str) -> bool:
        """Nobody gets in without a key."""
        return True

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        """Remembered, to be dropped when the host stops."""
        self._conn = conn
        self._host.connections.add(conn)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._host.connections.discard(self._conn)

    def public_key_auth_supported(self) -> bool:
        """Keys are the only way."""
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        """The one key made for this demo."""
        return key.public_data == self._host.client_public

    def session_requested(self) -> DemoSession:
        """A channel for a command."""
        return DemoSession(self._host.home, self._host.env, self._host.env["SHELL"], self._host.running)

    def unix_connection_requested(self, dest_path: str) -> bool:
        """direct-streamlocal, as sshd allows it by default."""
        return self._host.unix_sockets


class DemoHost:
    """One server: its name, its home folder and what it runs."""

    def __init__(
        self, name: str, home: Path, env: Mapping[str, str], client_public: bytes, *, unix_sockets: bool
    ) -> None:
        self.name = name
        self.home = home
        self.env = dict(env)
        self.client_public = client_public
        self.unix_sockets = unix_sockets
        self.running: set[asyncio.Task[None]] = set()
        self.connections: set[asyncssh.SSHServerConnection] = set()
        self.key = asyncssh.generate_private_key("ssh-ed25519")
        self.port = 0
        self._acceptor: asyncssh.SSHAcceptor | None = None

    async def start(self) -> None:
        """Listen on a free port of 127.0.0.1, or on the last one after a stop."""
        self._acceptor = await asyncssh.listen(
            "127.0.0.1",
            self.port,
            config=None,
            server_factory=lambda: DemoServer(self),
            server_host_keys=[self.key],
            encoding=None,
            allow_pty=False,
            agent_forwarding=False,
            keepalive_interval=30,
        )
        self.port = self._acceptor.get_port()

    def drop(self) -> None:
        """Cut every connection, as a pulled cable does in the end."""
        for conn in list(self.connections):
            conn.abort()

    async def stop(self) -> None:
        """Drop every connection, end every command that did not detach itself, stop listening."""
        if self._acceptor is None:
            return
        self._acceptor.close()
        self.drop()
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                await self._acceptor.wait_closed()
        self._acceptor = None
        if self.running:
            _, late = await asyncio.wait(self.running, timeout=_PATIENCE)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)


class DemoHosts:
    """`async with DemoHosts(count=2, root=folder) as demo:` - hosts demo1, demo2 ... with homes in `root/demoN`.

    `env` is added to every command's environment; its SHELL, if any, is the login shell. `demo.connector()`
    reaches the hosts; so does an SshConnector with `home=demo.root, system=False`, or `ssh -F demo.config demo1`.
    """

    def __init__(
        self,
        count: int = 2,
        *,
        root: Path,
        prefix: str = "demo",
        env: Mapping[str, str] | None = None,
        unix_sockets: bool = True,
    ) -> None:
        self.root = root.absolute()
        self._key = asyncssh.generate_private_key("ssh-ed25519", comment="distui demo")
        names = [f"{prefix}{number}" for number in range(1, count + 1)]
        self.hosts = {name: self._host(name, dict(env or {}), unix_sockets) for name in names}

    def _host(self, name: str, env: Mapping[str, str], unix_sockets: bool) -> DemoHost:
        home = self.root / name
        own = {"HOME": str(home), "USER": _USER, "LOGNAME": _USER, "SHELL": "/bin/sh"}
        kept = {key: os.environ[key] for key in _KEPT_ENV if key in os.environ}
        return DemoHost(name, home, {**kept, **own, **env}, self._key.public_data, unix_sockets=unix_sockets)

    @property
    def inventory(self) -> tuple[Host, ...]:
        """The hosts as an inventory would name them."""
        return tuple(Host(host.name, "127.0.0.1", _USER, host.port) for host in self.hosts.values())

    @property
    def config(self) -> Path:
        """An ssh config file that reaches all of them."""
        return self.root / ".ssh" / "config"

    @property
    def known_hosts(self) -> Path:
        """The file with their host keys."""
        return self.root / ".ssh" / "known_hosts"

    @property
    def client_key(self) -> Path:
        """The only key they let in."""
        return self.root / ".ssh" / "id_ed25519"

    def connector(self) -> SshConnector:
        """A connector that reaches these hosts and does not look at the user's own ssh files."""
        return SshConnector(self.inventory, home=self.root, system=False, env={})

    def shell_argv(self, host: HasName, command: tuple[str, ...] = ()) -> tuple[str, ...]:
        """A shell as on a host, or a command: their ssh serves no terminals, but they are this machine anyway."""
        found = self.hosts[host.name]
        env = [f"{key}={value}" for key, value in found.env.items()]
        if "TERM" in os.environ:
            env.append(f"TERM={os.environ['TERM']}")
        words = command or (found.env["SHELL"], "-i")
        return ("env", "-i", *env, f"PS1={host.name}$ ", "sh", "-c", 'cd "$0" && exec "$@"', str(found.home), *words)

    async def __aenter__(self) -> Self:
        """Start the hosts. Raises OSError when the folder can't be written."""
        self.config.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            for host in self.hosts.values():
                host.home.mkdir(mode=0o700, exist_ok=True)
                await host.start()
            self._write_files()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the hosts."""
        await self.close()

    async def close(self) -> None:
        """Stop the hosts; idempotent."""
        await asyncio.gather(*(host.stop() for host in self.hosts.values()))

    def _write_files(self) -> None:
        _write(self.client_key, self._key.export_private_key())
        _write(self.client_key.with_suffix(".pub"), self._key.export_public_key())
        _write(self.known_hosts, b"".join(_known_hosts_line(host) for host in self.hosts.values()))
        _write(self.config, "".join(self._stanza(host) for host in self.hosts.values()).encode())

    def _stanza(self, host: DemoHost) -> str:
        return (
            f"Host {host.name}\n  HostName 127.0.0.1\n  Port {host.port}\n  User {_USER}\n"
            f'  IdentityFile "{self.client_key}"\n  IdentitiesOnly yes\n  IdentityAgent none\n'
            f'  UserKnownHostsFile "{self.known_hosts}"\n'
        )


def _known_hosts_line(host: DemoHost) -> bytes:
    return f"[127.0.0.1]:{host.port} ".encode() + host.key.export_public_key()


def _write(path: Path, data: bytes) -> None:
    """Write a file only this user can read; an older one is replaced."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
