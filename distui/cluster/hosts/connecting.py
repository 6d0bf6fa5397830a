"""Connections to hosts, over ssh. The only place where `remote/` comes in (docs/decisions/0018)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from importlib import import_module
from typing import Any

from distui.cluster.settings import ClusterSettings
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
        """Close all that was opened."""
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
        "keys": [str(p) for p in found.identity_files if p.exists()],
        "known_hosts": [str(p) for p in found.known_hosts if p.exists()],
    }
