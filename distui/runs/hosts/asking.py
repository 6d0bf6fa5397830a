"""Asking hosts, all at once, and an engine again: under load one fails a call now and then, and asking does no harm."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import TypeVar

from distui.errors import HostError
from distui.facts.engine import classify_read
from distui.facts.host import Trouble
from distui.session import Completed, Connector, Session, session_on

T = TypeVar("T")

PAUSES = (0.2, 0.5, 1.0)
"""Seconds before each further try."""

MORE_SECONDS = 3.0
"""How long others have to answer once what was asked for is known: healthy hosts do, also over slow logins."""

PASSING = frozenset({"unknown", "daemon_down", "daemon_elsewhere"})
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


async def ask_each(
    connector: Connector,
    hosts: Iterable[str],
    ask: Callable[[str, Session], Awaitable[T]],
    *,
    enough: Callable[[Collection[T]], bool] | None = None,
) -> tuple[dict[str, T], dict[str, Trouble]]:
    """What the hosts answer, asked all at once over a session each, and why others could not be asked.

    Once the answers are `enough`, hosts that have not answered have MORE_SECONDS left.
    """
    found: dict[str, T] = {}
    troubles: dict[str, Trouble] = {}

    async def one(host: str) -> None:
        try:
            async with session_on(connector, host) as session:
                found[host] = await ask(host, session)
        except HostError as exc:
            troubles[host] = Trouble(exc.code, exc.message, exc.hint)

    names = tuple(hosts)
    if enough is None:
        await asyncio.gather(*map(one, names))
    else:
        await _until(lambda: enough(found.values()), [asyncio.ensure_future(one(name)) for name in names])
    late = {h: Trouble("timeout", f"{h}: had not answered when others had") for h in names if h not in found}
    return {h: found[h] for h in names if h in found}, {h: troubles.get(h, late[h]) for h in names if h in late}


async def _until(enough: Callable[[], bool], asking: Collection[asyncio.Future[None]]) -> None:
    """Wait for all, or MORE_SECONDS from when it is `enough`; what is not done then is cancelled."""
    waiting, until = set(asking), math.inf
    try:
        while waiting and (left := until - time.monotonic()) > 0:
            done, waiting = await asyncio.wait(
                waiting, timeout=None if until == math.inf else left, return_when=asyncio.FIRST_COMPLETED
            )
            for one in done:
                one.result()
            if until == math.inf and enough():
                until = time.monotonic() + MORE_SECONDS
    finally:
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
