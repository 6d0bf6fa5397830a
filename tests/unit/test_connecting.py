"""Connections that are opened when they are needed, and kept."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

from distui.cluster.hosts.connecting import OpenOnce
from distui.session import Connector, Session
from distui.spec.hosts.inventory import Host

HOSTS = (Host("h1"), Host("h2"))
OTHER = Host("h3", port=22)


class Recording:
    """A connector that tells which hosts were connected to, and whether it was closed."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.closed = False

    async def connect(self, host: str) -> Session:
        self.asked.append(host)
        return cast(Session, SimpleNamespace(host=host))

    async def close(self) -> None:
        self.closed = True


class Opened:
    """What was opened, for which hosts, and is open."""

    def __init__(self) -> None:
        self.hosts: list[tuple[Host, ...]] = []
        self.connectors: list[Recording] = []

    @contextlib.asynccontextmanager
    async def connect(self, hosts: Sequence[Host]) -> AsyncIterator[Connector]:
        connector = Recording()
        self.hosts.append(tuple(hosts))
        self.connectors.append(connector)
        yield connector
        await connector.close()


async def test_hosts_that_come_later_are_connected_to_besides_and_kept() -> None:
    """Each over the connections that were opened for it, once; one that is reached in another way by now again."""
    opened = Opened()
    once = OpenOnce(opened.connect, HOSTS)
    for _ in range(2):
        await once.connector()
        await once.reaching(HOSTS)
    assert opened.hosts == [HOSTS]
    for _ in range(2):
        connector = await once.reaching((*HOSTS, OTHER))
        for name in ("h1", "h3"):
            assert (await connector.connect(name)).host == name
        await connector.close()
    assert opened.hosts == [HOSTS, (OTHER,)]
    assert [one.asked for one in opened.connectors] == [["h1", "h1"], ["h3", "h3"]]
    moved = replace(OTHER, port=2222)
    await (await once.reaching((moved,))).connect("h3")
    assert opened.hosts[2:] == [(moved,)]
    assert opened.connectors[2].asked == ["h3"]
    assert not any(one.closed for one in opened.connectors)
    await once.close()
    assert all(one.closed for one in opened.connectors)


async def test_what_was_closed_is_opened_again() -> None:
    """A cluster may be entered more than once, as in cells of a notebook."""
    opened = Opened()
    once = OpenOnce(opened.connect, HOSTS)
    for _ in range(2):
        await once.connector()
        await once.close()
    assert opened.hosts == [HOSTS, HOSTS]
    assert all(one.closed for one in opened.connectors)
