"""Asking an engine again: a daemon under load fails a call now and then, and what only asks may be repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from distui.facts.engine import classify_read
from distui.session import Completed

PAUSES = (0.2, 0.5, 1.0)
"""Seconds before each further try."""

PASSING = frozenset({"unknown", "daemon_down"})
"""Classes of failures that may be gone the next time; all others are answers."""


async def run_with_retries(run_argv: Callable[[Sequence[str]], Awaitable[Completed]], argv: Sequence[str]) -> Completed:
    """How a command ended that asks an engine something, or ends or removes what may be gone already; never a start.

    One that fails for no reason that will stay is tried again, a bounded number of times; the last one counts.
    """
    for pause in PAUSES:
        done = await run_argv(argv)
        if done.ok or done.truncated or classify_read(done.error_text, done.status).code not in PASSING:
            return done
        await asyncio.sleep(pause)
    return await run_argv(argv)
