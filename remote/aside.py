"""Reading ssh's configuration beside the event loop, in threads of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 8
"""A `Match exec` may take 20 s, and is asked for each of many hosts: in the threads that all else shares, opening a run
or making a plan would wait behind them.
"""


async def aside(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do `work`, which reads ssh's configuration, while everything else goes on."""
    return await asyncio.get_running_loop().run_in_executor(_threads(), partial(work, *args, **kwargs))


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="ssh-config")
