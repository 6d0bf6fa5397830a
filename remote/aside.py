"""Reading ssh's configuration beside the event loop, in threads of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 8
"""A `Match exec` may take 20 s, and is asked for each of many hosts: in the threads that all else shares, opening a run
or making a plan would wait behind them.
"""

_places: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = weakref.WeakKeyDictionary()


async def aside(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do `work`, which reads ssh's configuration, while everything else goes on. The process does not wait for it at
    its end, as it would for a thread of a pool.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    async with _places.setdefault(loop, asyncio.Semaphore(THREADS)):
        call = partial(_call, loop, done, partial(work, *args, **kwargs))
        threading.Thread(target=call, name="ssh-config", daemon=True).start()
        return await done


def _call(loop: asyncio.AbstractEventLoop, done: asyncio.Future[T], work: Callable[[], T]) -> None:
    """In the thread."""
    try:
        answer = partial(_answer, done, work())
    except Exception as error:
        answer = partial(_fail, done, error)
    with contextlib.suppress(RuntimeError):  # nobody waits any more, and the loop is closed
        loop.call_soon_threadsafe(answer)


def _answer(done: asyncio.Future[T], result: T) -> None:
    if not done.done():
        done.set_result(result)


def _fail(done: asyncio.Future[T], error: Exception) -> None:
    if not done.done():
        done.set_exception(error)
