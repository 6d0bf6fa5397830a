"""Reading ssh's configuration and looking names up beside the event loop, in threads of their own.

In the threads that all else shares, opening a run or making a plan would wait behind them, and the process for them at
its end.
"""

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
"""For the configuration of many hosts: a `Match exec` is a process, and may take 20 s."""

_places: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = weakref.WeakKeyDictionary()


async def aside(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do `work`, which reads ssh's configuration, while everything else goes on."""
    async with _places.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(THREADS)):
        return await in_thread(work, *args, **kwargs)


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do `work` in a thread that waits for no other, and for which the process does not wait at its end. Raises OSError
    where this machine lets us have no further thread.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    call = partial(_call, loop, done, partial(work, *args, **kwargs))
    try:
        threading.Thread(target=call, name="distui-ssh", daemon=True).start()
    except RuntimeError as exc:
        raise OSError("no further thread can be started here (ulimit -u)") from exc
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
