"""Waits until the app has done all it can do now.

Textual's own wait looks at the processor's time: an app that is kept from running by other programs looks done, and one
that draws all the time is waited for a second. Here the loop and the threads are asked instead, so nothing is slept.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

MOST = 1.0
"""What never comes to rest, or waits in a thread, is waited for as long, in seconds."""


class Quiet:
    """The wait for one app in the loop that runs."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.loop: Any = asyncio.get_running_loop()
        self.threads: set[asyncio.Future[Any]] = set()
        self._run = self.loop.run_in_executor

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Let everything that waits for an idle app wait here."""
        patch.setattr("textual.pilot.wait_for_idle", self.wait)
        patch.setattr("textual.app.wait_for_idle", self.wait)
        patch.setattr(self.loop, "run_in_executor", self._in_thread, raising=False)

    def _in_thread(self, *call: Any) -> asyncio.Future[Any]:
        """What runs in a thread is known until the loop has its result."""
        future: asyncio.Future[Any] = self._run(*call)
        self.threads.add(future)
        future.add_done_callback(self.threads.discard)
        return future

    async def wait(self, *_: float) -> None:
        """Until no callback is due, no thread works, and what has changed is drawn."""
        deadline = time.monotonic() + MOST
        while time.monotonic() < deadline:
            await asyncio.sleep(0)  # the selector is asked, and whoever is ready has its turn
            if self.loop._ready:
                continue
            if self.threads:
                await asyncio.wait(self.threads, timeout=deadline - time.monotonic(), return_when="FIRST_COMPLETED")
            elif not self._draws():
                return

    def _draws(self) -> bool:
        """Draw now what the screen's timer would draw a moment later; whether there was something."""
        screen = self.app._screen_stack[-1] if self.app._screen_stack else None
        if screen is None or not screen.is_running or not screen._update_timer._active.is_set():
            return False
        screen._on_timer_update()
        return True
