"""Sessions for inventory hosts: parallel logins within sshd's limits, shared jump hosts, shared keys."""

from __future__ import annotations

import asyncio
import random
import time
import weakref
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import asyncssh

from distui.errors import HostError, HostUnreachable
from distui.remote.aside import aside
from distui.remote.config import Resolved, Sources, default_sources, jump_words, resolve
from distui.remote.login import errors
from distui.remote.login.gates import Gates
from distui.remote.login.keys import Keys
from distui.remote.login.known_hosts import KnownHosts
from distui.remote.login.login import Busy, Login
from distui.remote.session import SshSession
from distui.remote.sshconfig import ConfigError
from distui.session import Session
from distui.spec.hosts.inventory import Host

_TRIES = 8
"""Logins tried when the server hangs up before the login begins; nothing else is tried again."""

_FIRST_WAIT = 0.2
_LONGEST_WAIT = 3.0

JumpPath = tuple[tuple[str, int, str], ...]


class SshConnector:
    """`distui.session.Connector` over asyncssh.

    `home` stands for the login's home (its `.ssh/config`, keys and known_hosts), `env` for the environment
    (SSH_AUTH_SOCK). With `system=False` /etc/ssh is not read. `parallel` bounds logins in progress. What the inventory
    says of a host counts where ssh config leaves it open: `addr` without HostName, and so on.
    `accept_new` adds unknown host keys to known_hosts; changed keys are always refused.
    """

    def __init__(
        self,
        hosts: Iterable[Host],
        *,
        home: Path | None = None,
        config: Path | None = None,
        system: bool = True,
        parallel: int = 16,
        accept_new: bool = False,
        env: Mapping[str, str] | None = None,
    ) -> None:
        default = default_sources(home, env)
        self._sources = Sources(default.home, default.env, config or default.user_config, system)
        self._hosts = {host.name: host for host in hosts}
        self._accept_new = accept_new
        self._gates = Gates(parallel)
        self._keys = Keys()
        self._known_hosts = KnownHosts()
        self._jumps: dict[JumpPath, asyncio.Task[asyncssh.SSHClientConnection]] = {}
        self._sessions: weakref.WeakSet[SshSession] = weakref.WeakSet()
        self._closed = False

    def resolve(self, host: str) -> Resolved:
        """Where `host` leads and how to log in. Raises HostUnreachable (code `ssh_config`) for bad ssh config."""
        try:
            return resolve(self._hosts.get(host, Host(host)), self._sources)
        except ConfigError as exc:
            raise errors.config_problem(host, exc) from exc

    async def connect(self, host: str) -> Session:
        """See `distui.session.Connector.connect`."""
        target = await aside(self.resolve, host)  # `Match exec` may take a while
        began = time.monotonic()
        conn = await self._dial(target)
        took = (time.monotonic() - began) * 1000
        session = SshSession(host, conn, dial=lambda: self._dial(target), connected_ms=took)
        self._sessions.add(session)
        if self._closed:
            await session.close()
            raise HostUnreachable(host, f"{host}: the connector was closed meanwhile")
        return session

    async def close(self) -> None:
        """See `distui.session.Connector.close`."""
        self._closed = True
        await asyncio.gather(*(session.close() for session in list(self._sessions)))
        for task in self._jumps.values():
            task.cancel()
        for result in await asyncio.gather(*self._jumps.values(), return_exceptions=True):
            if isinstance(result, asyncssh.SSHClientConnection):
                await _shut(result)
        self._jumps.clear()
        self._keys.close()

    async def _dial(self, target: Resolved) -> asyncssh.SSHClientConnection:
        """Log in to `target`, through its jump hosts."""
        path = await aside(self._jump_path, target) if target.jumps else ()
        jump = await self._jump(target, path) if path else None
        return await self._login(target, jump, path)

    def _jump_path(self, target: Resolved) -> tuple[Resolved, ...]:
        """The jump hosts, first one first; the first of a ProxyJump list may have jump hosts of its own."""
        hops: list[Resolved] = []
        while target.jumps:
            try:
                row = [self._resolve_jump(jump) for jump in target.jumps]
            except ConfigError as exc:
                raise errors.config_problem(target.alias, exc) from exc
            if any(hop.alias == target.alias for hop in row) or len(hops) > 8:
                raise errors.config_problem(target.alias, ConfigError("its ProxyJump leads back to itself"))
            hops[:0] = row
            target = row[0]
        return tuple(hops)

    def _resolve_jump(self, jump: str) -> Resolved:
        user, name, port = jump_words(jump)
        return resolve(self._hosts.get(name, Host(name)), self._sources, user=user, port=port)

    async def _jump(self, target: Resolved, path: tuple[Resolved, ...]) -> asyncssh.SSHClientConnection:
        """The connection to the last jump host of `path`, shared by all hosts behind it."""
        key = _key(path)
        task = self._jumps.get(key)
        if task is None or _is_over(task):
            task = self._jumps[key] = asyncio.ensure_future(self._dial_jump(path))
        try:
            return await asyncio.shield(task)
        except HostError as exc:
            message = f"{target.alias}: its jump host fails: {exc.message}"
            raise type(exc)(target.alias, message, hint=exc.hint, code=exc.code) from exc

    async def _dial_jump(self, path: tuple[Resolved, ...]) -> asyncssh.SSHClientConnection:
        *before, last = path
        jump = await self._jump(last, tuple(before)) if before else None
        return await self._login(last, jump, tuple(before))

    async def _login(
        self, target: Resolved, jump: asyncssh.SSHClientConnection | None, path: tuple[Resolved, ...]
    ) -> asyncssh.SSHClientConnection:
        """Log in, again after a pause when the server hung up before the login: MaxStartups does that."""
        server = (_key(path), target.hostname, target.port)
        timeout = target.connect_timeout
        problem: Exception | None = None
        for attempt in range(_TRIES):
            async with self._gates.passing(server):
                ring = await self._keys.ring(target)
                try:
                    login = Login(target, ring, self._known_hosts, accept_new=self._accept_new, timeout=timeout)
                except OSError as exc:  # known_hosts, of another owner after `sudo ssh-keygen -R`, say
                    raise errors.unreadable(target.alias, exc) from exc
                try:
                    conn = await login.enter(jump, path[-1].alias if path else "")
                except Busy as exc:
                    problem = exc
                    self._gates.narrow(server)
                else:
                    if login.worked is not None:
                        self._keys.worked(login.worked)
                    return conn
            await asyncio.sleep(_pause(attempt))
        raise errors.hung_up(target, _TRIES, problem)


def _pause(attempt: int) -> float:
    """Doubling, with jitter so that many logins do not come back at the same moment."""
    longest = min(_LONGEST_WAIT, _FIRST_WAIT * 2**attempt)
    return random.uniform(longest / 2, longest)


def _key(path: tuple[Resolved, ...]) -> JumpPath:
    return tuple((hop.hostname, hop.port, hop.user) for hop in path)


def _is_over(task: asyncio.Task[asyncssh.SSHClientConnection]) -> bool:
    """Whether a jump connection failed, was cancelled or has been closed since."""
    if not task.done():
        return False
    return task.cancelled() or task.exception() is not None or task.result().is_closed()


async def _shut(conn: asyncssh.SSHClientConnection) -> None:
    conn.close()
    with suppress(Exception):
        async with asyncio.timeout(2):
            await conn.wait_closed()
    conn.abort()
