"""The wait that every test of a screen stands on: it ends when the app is at rest, and not before."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

from quiet import MOST


async def test_what_is_left_to_a_thread_is_waited_for(open_app: Any) -> None:
    """Though this process does nothing meanwhile, which looks like rest by its time on the processor."""
    async with open_app() as (app, pilot):
        begun, done = threading.Event(), []

        def work() -> None:
            begun.set()
            time.sleep(0.2)

        async def ask() -> None:
            await asyncio.to_thread(work)
            done.append(True)

        app.run_worker(ask())
        await pilot.pause()
        assert begun.is_set() and done


async def test_chains_of_callbacks_are_followed_to_their_end(open_app: Any) -> None:
    """Each turn of the loop asks for the next."""
    async with open_app() as (app, pilot):
        turns = 0

        async def step() -> None:
            nonlocal turns
            while turns < 100:
                turns += 1
                await asyncio.sleep(0)

        app.run_worker(step())
        await pilot.pause()
        assert turns == 100


async def test_what_has_changed_is_drawn(open_app: Any) -> None:
    """Without waiting for the timer that draws."""
    async with open_app() as (app, pilot):
        app.screen.refresh(layout=True)
        await pilot.pause()
        assert not app.screen._update_timer._active.is_set()
        assert not app.screen._layout_required and not app.screen._dirty_widgets


async def test_what_never_rests_is_left_after_a_while(open_app: Any) -> None:
    """A thread that hangs does not hang the test."""
    async with open_app() as (app, pilot):
        release = threading.Event()
        worker = app.run_worker(asyncio.to_thread(release.wait))
        began = time.monotonic()
        try:
            await pilot.pause()
            assert time.monotonic() - began >= MOST * 0.9
        finally:
            release.set()
            await worker.wait()
