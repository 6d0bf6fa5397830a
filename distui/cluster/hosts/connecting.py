"""Connections to hosts, over ssh. The only place where `remote/` comes in (docs/decisions/0018)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from importlib import import_module
from typing import Any

from distui.cluster.settings import ClusterSettings
from distui.doctor.redact import SshNames
from distui.errors import DistuiError, UsageError
from distui.files import exists, is_folder
from distui.homes import config_options, home, hostname_options, is_login_s
from distui.runs.hosts.reuse import reusing
from distui.session import Connector, Session
from distui.spec.hosts.inventory import Host

Connect = Callable[[Sequence[Host]], AbstractAsyncContextManager[Connector]]
"""Opens a connector for some hosts; everything it opened is closed at the end of the block."""


def make_connector(settings: ClusterSettings, hosts: Sequence[Host]) -> Connector:
    """A connector for `hosts` over ssh."""
    from distui.remote.pool import SshConnector  # dear to import, and not needed by who only plans

    limit = settings.connect_timeout
    known = hosts if limit is None else [replace(host, connect_timeout=limit) for host in hosts]
    return SshConnector(known, parallel=settings.parallel)


def connected(settings: ClusterSettings, hosts: Sequence[Host]) -> AbstractAsyncContextManager[Connector]:
    """A connector for the block, whose sessions are reused from one step to the next."""
    return reusing(make_connector(settings, hosts))


async def ssh_greeting(host: Host, timeout: float) -> tuple[float | None, str]:
    """Milliseconds to the greeting of the host's ssh server, or through what alone it is reached. Nobody logs in.

    Raises HostUnreachable.
    """
    from distui.remote.knock import knock  # dear to import, as above

    found = await knock(host, timeout=timeout)
    return found.ms, found.through


async def load_greeting() -> None:
    """Import what `ssh_greeting` needs, which is dear, while whatever is on a screen goes on."""
    await asyncio.to_thread(import_module, "distui.remote.knock")


def ssh_options(host: Host) -> tuple[str, ...]:
    """What OpenSSH has to be given to go where distui goes: what hosts.yaml says of the host, and where HOME is not the
    login's all that was found of it. Of a config that can't be read ssh says itself what is wrong. Blocking: a
    `Match exec` may take a while.
    """
    try:
        folder = home() / ".ssh"
    except UsageError:
        return _written(host)
    if is_login_s(folder) or not is_folder(folder):
        return _written(host)
    from distui.remote.config import default_sources, resolve  # dear to import, as above
    from distui.remote.sshconfig import ConfigError

    try:
        return resolve(host, default_sources()).ssh_from_here
    except ConfigError:
        return (*config_options(folder / "config"), *_written(host))


def _written(host: Host) -> tuple[str, ...]:
    """What hosts.yaml says of it, as options."""
    options: tuple[str, ...] = ("-p", str(host.port)) if host.port else ()
    options += ("-l", host.user) if host.user else ()
    return options + hostname_options(host.addr) if host.addr else options


class OpenOnce:
    """The connections to some hosts, opened when they are first needed. Close it at the end."""

    def __init__(self, connect: Connect, hosts: Sequence[Host]) -> None:
        self._connect = connect
        self._hosts = hosts
        self._stack = AsyncExitStack()
        self._connector: Connector | None = None
        self._by_name: dict[str, tuple[Host, Connector]] = {}
        self._opening = asyncio.Lock()

    async def connector(self) -> Connector:
        """The connections. A host is connected to when it is first asked for something."""
        async with self._opening:
            return await self._first()

    async def reaching(self, hosts: Sequence[Host]) -> Connector:
        """Connections to these hosts; those to hosts that are none of the first ones are opened besides, and kept."""
        async with self._opening:
            await self._first()
            more = [host for host in hosts if self._by_name.get(host.name, (None,))[0] != host]
            if more:
                await self._open(more)
            return _Several({host.name: self._by_name[host.name][1] for host in hosts})

    async def _first(self) -> Connector:
        if self._connector is None:
            # ssh is dear to import, and whoever shows something meanwhile must not wait for it
            await asyncio.to_thread(import_module, "distui.remote.pool")
            self._connector = await self._open(self._hosts)
        return self._connector

    async def _open(self, hosts: Sequence[Host]) -> Connector:
        connector = await self._stack.enter_async_context(self._connect(hosts))
        self._by_name |= {host.name: (host, connector) for host in hosts}
        return connector

    async def close(self) -> None:
        """Close all that was opened. Who asks again opens it again."""
        self._connector, self._by_name = None, {}
        await self._stack.aclose()


class _Several:
    """Connections that were opened one after the other, as one; closed by whoever opened them."""

    def __init__(self, by_host: Mapping[str, Connector]) -> None:
        self._by_host = by_host

    async def connect(self, host: str) -> Session:
        return await self._by_host[host].connect(host)

    async def close(self) -> None:
        return


def ssh_words(settings: ClusterSettings, host: Host) -> dict[str, Any]:
    """Where ssh will connect for `host`, and with what."""
    resolve = getattr(make_connector(settings, (host,)), "resolve", None)
    if resolve is None:
        return {}
    found = resolve(host.name)
    return {
        "host": found.hostname,
        "port": found.port,
        "user": found.user,
        "jump": list(found.jumps),
        "keys": [str(p) for p in found.identity_files if exists(p)],
        "known_hosts": [str(p) for p in found.known_hosts if exists(p)],
    }


def ssh_names(settings: ClusterSettings, hosts: Sequence[Host]) -> dict[str, SshNames]:
    """The names that ssh's configuration has for these hosts and for those on the way to them: nobody is contacted."""
    resolve = getattr(make_connector(settings, hosts), "resolve", None)
    return {host.name: _names(resolve, host.name) for host in hosts} if resolve is not None else {}


def _names(resolve: Callable[[str], Any], name: str) -> SshNames:
    from distui.remote.config import DEFAULT_IDENTITIES, jump_words

    way = _way(resolve, name)
    written = [jump_words(jump) for where in way for jump in where.jumps]
    keys = [path for where in way for path in where.identity_files]
    hosts: dict[bool, list[str]] = {True: [], False: []}
    for where in way:
        names = (where.alias, where.hostname, where.host_key_alias)
        hosts[where.alias == name] += filter(None, names)
    return SshNames(
        hosts=tuple(hosts[True]),
        users=tuple(filter(None, (*(where.user for where in way), *(user for user, _, _ in written)))),
        jumps=tuple(hosts[False]),
        keys=tuple(str(path) for path in keys if path.parent.name != ".ssh" or path.name not in DEFAULT_IDENTITIES),
    )


def _way(resolve: Callable[[str], Any], name: str) -> list[Any]:
    """What ssh's configuration says of a host and of those on the way to it, as far as it can be read."""
    from distui.remote.config import jump_words  # it reads what ssh reads, and is dear to import

    found: dict[str, Any] = {}
    waiting = [name]
    while waiting:
        if (one := waiting.pop()) in found:
            continue
        with contextlib.suppress(ValueError, DistuiError):
            where = resolve(one)
            waiting += [jump for _, jump, _ in map(jump_words, where.jumps)]
            found[one] = where
    return list(found.values())
