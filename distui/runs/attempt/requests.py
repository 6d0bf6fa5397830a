"""What a run is asked for from outside while it goes on: a stop, or to be left alone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

from distui.errors import ExitCode
from distui.runs.lines.events import StopReason
from distui.runs.store.runs import StoredRun

T = TypeVar("T")

LOOK_SECONDS = 0.2
"""How often it is looked for a stop that another distui of this machine asks for."""


class Requests:
    """A stop or a detach, as it was asked for last. Any number may wait for the next request; all of them wake."""

    def __init__(self, grace: float, *, views: bool = False) -> None:
        """Who only `views` a run stops nothing, whatever is asked for."""
        self._views = views
        self.stop: StopReason | None = None
        self.grace = grace
        self.exit = ExitCode.INTERRUPTED
        self.detach = False
        self.count = 0
        """How many stops were asked for so far: one that is asked for again is another one."""
        self.keep_over = False
        """Whether nothing of the run is kept, since `distui stop` asked for it elsewhere on this machine."""
        self._default_grace = grace
        self._next = asyncio.Event()

    def ask_stop(
        self, reason: StopReason, *, grace: float | None = None, exit: ExitCode = ExitCode.INTERRUPTED
    ) -> None:
        """Ask for a stop: SIGTERM and the plan's grace, or SIGKILL at once with `grace=0`. May be asked again."""
        if self._views:
            return
        self.stop, self.exit = reason, exit
        self.grace = self._default_grace if grace is None else grace
        self.count += 1
        self._wake()

    def ask_detach(self) -> None:
        """Ask to leave the run alone; it lives on."""
        self.detach = True
        self._wake()

    def withdraw_stop(self) -> None:
        """The stop is over, or had nothing to stop: what ends later did not end because of it."""
        self.stop = None

    def _wake(self) -> None:
        news, self._next = self._next, asyncio.Event()
        news.set()

    def next(self) -> Coroutine[Any, Any, bool]:
        """Wait for what is asked from this call on."""
        return self._next.wait()

    async def unless(self, given_up: Callable[[], bool], work: Coroutine[Any, Any, T]) -> T | None:
        """Do `work`; None, at once, when something is asked for by which it is `given_up`."""
        task = asyncio.ensure_future(work)
        try:
            while not given_up() and not task.done():
                asked = asyncio.ensure_future(self.next())
                try:
                    await asyncio.wait((task, asked), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    asked.cancel()
            return task.result() if task.done() else None
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def watching(self, stored: StoredRun) -> AsyncIterator[None]:
        """While the block runs, a stop that another distui of this machine asks for (`StoredRun.ask_stop`) is one of
        these requests.
        """
        looking = asyncio.create_task(self._watch(stored))
        try:
            yield
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    async def _watch(self, stored: StoredRun) -> None:
        while True:
            if (asked := stored.stop_asked()) is not None:
                self.keep_over = True
                self.ask_stop("user", grace=asked.grace, exit=ExitCode.TERMINATED)
            await asyncio.sleep(LOOK_SECONDS)
