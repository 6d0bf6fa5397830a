"""Getting back to a host whose connection was lost."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from distui.errors import HostAuthError, HostError, HostKeyError
from distui.session import Connector, Session

FIRST_WAIT = 0.5
LONGEST_WAIT = 15.0
"""Seconds between tries: doubling from the first to the longest, each with jitter of up to a half."""


@dataclass(frozen=True, slots=True)
class Retry:
    """A try that failed: which one it was, why, and after how many seconds the next one comes."""

    attempt: int
    problem: HostError
    wait: float


async def reconnect(
    connector: Connector,
    host: str,
    *,
    deadline: float,
    on_retry: Callable[[Retry], None] = lambda retry: None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    jitter: Callable[[], float] = random.random,
) -> Session:
    """A new session with `host`, tried until `deadline` (a value of `clock`); the first try comes at once.

    A refused login or host key is tried again at the slowest pace only: sshd >= 9.8 locks out an address that
    fails often (PerSourcePenalties). Raises the last HostError when the time is up.
    """
    attempt = 0
    while True:
        attempt += 1
        try:
            return await connector.connect(host)
        except HostError as exc:
            wait = pause(attempt, exc, jitter())
            if clock() + wait >= deadline:
                raise
            on_retry(Retry(attempt, exc, wait))
            await sleep(wait)


def pause(attempt: int, problem: HostError, jitter: float) -> float:
    """Seconds to wait after try number `attempt`, `jitter` being between 0 and 1."""
    if isinstance(problem, HostAuthError | HostKeyError) or problem.code == "penalty":
        return LONGEST_WAIT * (1 + jitter / 2)
    longest = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(attempt - 1, 16))
    return longest * (0.5 + jitter / 2)
