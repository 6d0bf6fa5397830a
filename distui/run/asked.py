"""What a run's owner is asked for while it is at something else: a stop by another distui of this machine, be it at a
launch under way, a run that is followed or the rest before the next attempt; and what is given up when it is asked.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from distui.errors import ExitCode

if TYPE_CHECKING:
    from distui.run.controller import RunController

T = TypeVar("T")

LOOK_SECONDS = 0.2


@contextlib.asynccontextmanager
async def heeding(run: RunController) -> AsyncIterator[None]:
    """While the block runs, a stop asked for by `StoredRun.ask_stop` is one of the run's own."""
    looking = asyncio.create_task(_look(run))
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


async def _look(run: RunController) -> None:
    while True:
        if (asked := run.stored.stop_asked()) is not None:
            run.keep = False  # until `distui stop`
            run.request_stop("user", grace=asked.grace, exit=ExitCode.TERMINATED)
        await asyncio.sleep(LOOK_SECONDS)


async def unless(run: RunController, given_up: Callable[[], bool], work: Coroutine[Any, Any, T]) -> T | None:
    """Do `work`; None, at once, when something is asked of the run by which it is `given_up`."""
    task = asyncio.ensure_future(work)
    try:
        while not given_up() and not task.done():
            run.requests.changed.clear()
            asked = asyncio.ensure_future(run.requests.changed.wait())
            try:
                await asyncio.wait((task, asked), return_when=asyncio.FIRST_COMPLETED)
            finally:
                asked.cancel()
        return task.result() if task.done() else None
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
