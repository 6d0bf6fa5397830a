"""Figures of many hosts without any run: one long-lived channel each, reconnecting for ever."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Literal

from distui.errors import HostError
from distui.frozen import frozen
from distui.runs.follow.feed import EngineAccess
from distui.runs.follow.followed import Back, FollowEvent, Lost, Sampled
from distui.runs.follow.follower import HostFollower
from distui.runs.follow.survived import survived, unborne
from distui.runs.hosts.link import REFUSED_WAIT, HostLink, LinkState
from distui.runs.lines.events import HostSampled
from distui.runs.state.samples import host_sampled
from distui.session import Connector

AGAIN = 15.0
"""Seconds after which a host whose figures ended for another reason is tried again."""


@frozen
class HostNews:
    """News of one host from its long-lived channel: a sample, or what became of the connection."""

    host: str
    state: Literal["up", "lost", "back", "sample"]
    reason: str = ""
    sample: HostSampled | None = None


async def figures(
    connector: Connector, hosts: Sequence[str], *, clock: Callable[[], float] = time.time
) -> AsyncGenerator[HostNews, None]:
    """What the hosts tell once a second, as it comes; never ends by itself, close it to stop all channels."""
    queue: asyncio.Queue[HostNews] = asyncio.Queue(4 * max(1, len(hosts)))
    tasks = [asyncio.create_task(_for_ever(connector, host, queue, clock), name=f"figures {host}") for host in hosts]
    try:
        while True:
            yield await queue.get()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _for_ever(
    connector: Connector, host: str, queue: asyncio.Queue[HostNews], clock: Callable[[], float]
) -> None:
    """Follow one host; one that refuses the login, or says what can't be borne, is asked again after a long pause."""
    while True:
        wait = AGAIN
        try:
            await _one(connector, host, queue, clock)
        except HostError as error:
            wait = REFUSED_WAIT
            await queue.put(HostNews(host, "lost", error.message))
        except Exception as error:  # of this host, whose figures are not worth those of the others
            wait = REFUSED_WAIT
            survived(error, f"figures of {host}")
            await queue.put(HostNews(host, "lost", unborne(error)))
        await asyncio.sleep(wait)


async def _one(connector: Connector, host: str, queue: asyncio.Queue[HostNews], clock: Callable[[], float]) -> None:
    """Until the link gives up. Engines are not asked: figures come from the host's own files and nvidia-smi."""

    def changed(state: LinkState, reason: str) -> None:
        if not queue.full():
            queue.put_nowait(HostNews(host, state, reason))

    async def take(event: FollowEvent) -> None:
        match event:
            case Sampled(sample=sample):
                await queue.put(HostNews(host, "sample", "", host_sampled(clock(), host, sample)))
            case Lost(reason=reason):
                await queue.put(HostNews(host, "lost", reason))
            case Back():
                await queue.put(HostNews(host, "back"))
            case _:
                pass

    link = HostLink(connector, host, on_change=changed)
    follower = HostFollower(link, EngineAccess("process", ()), take, run_id="")
    running = asyncio.ensure_future(follower.run())
    try:
        await asyncio.shield(running)
    finally:
        await follower.close()
        await link.close()
        await asyncio.gather(running, return_exceptions=True)
