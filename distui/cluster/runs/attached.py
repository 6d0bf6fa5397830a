"""A run that is there already, followed by a program: attached to, read beside whoever follows it here, or over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from distui.cluster.attach.beside import Beside
from distui.cluster.attach.following import LeftBehind, Leftover, Over, follow_run, open_run
from distui.cluster.attach.places import RunLocation
from distui.cluster.hosts.connecting import Connect
from distui.cluster.runs.ended_run import EndedRun
from distui.cluster.runs.run import Run
from distui.cluster.settings import ClusterSettings
from distui.copies import copy_folder
from distui.runs.control.controller import RunController

Open = Callable[[Callable[[RunLocation], Awaitable[Run]]], Awaitable[Run]]
"""Does something where the run is."""


@asynccontextmanager
async def attached(settings: ClusterSettings, connect: Connect, at: Open) -> AsyncIterator[Run]:
    """The run that `at` finds, followed for the block. Raises what `open_run` raises, and LeftBehind."""
    async with AsyncExitStack() as stack:

        async def begin(controller: RunController | Beside | EndedRun) -> Run:
            return await stack.enter_async_context(Run(controller, settings.refuse_readonly))

        async def work(place: RunLocation) -> Run:
            connector = await stack.enter_async_context(connect(place.hosts))
            found = await open_run(settings, connector, lambda words: None, place)
            match found:
                case Over():
                    return await begin(await asyncio.to_thread(EndedRun.read, settings, place.run))
                case Leftover():
                    raise LeftBehind(found)
                case _:
                    return await follow_run(
                        settings,
                        connector,
                        place,
                        found,
                        begin,
                        connect=connect,
                        folder=lambda: stack.enter_context(copy_folder()),
                    )

        yield await at(work)
