"""A stop that another distui of this machine asks the run's owner for, at whatever it is: a launch under way, a run
that is followed, the rest before the next attempt.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from distui.errors import ExitCode

if TYPE_CHECKING:
    from distui.run.controller import RunController

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
            run.request_stop("user", grace=asked.grace, exit=ExitCode.TERMINATED)
        await asyncio.sleep(LOOK_SECONDS)
