"""Connections to hosts, over ssh. The only place where `remote/` comes in (docs/decisions/0018)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from importlib import import_module
from typing import Any

from distui.cluster.settings import ClusterSettings
from distui.runs.hosts.reuse import reusing
from distui.session import Connector
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
        self._opening = asyncio.Lock()

    async def connector(self) -> Connector:
        """The connections. A host is connected to when it is first asked for something."""
        async with self._opening:
            if self._connector is None:
                # ssh is dear to import, and whoever shows something meanwhile must not wait for it
                await asyncio.to_thread(import_module, "distui.remote.pool")
                self._connector = await self._stack.enter_async_context(self._connect(self._hosts))
        return self._connector

    async def close(self) -> None:
        """Close all that was opened."""
        await self._stack.aclose()


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
