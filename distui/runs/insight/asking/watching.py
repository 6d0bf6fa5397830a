"""Has a run's hosts watch their ranks for some seconds, and learns meanwhile how far each host's clock is ahead."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from distui.agent.bundle import bundle, take
from distui.errors import DistuiError
from distui.facts.values import as_object, loads
from distui.framing import Behind
from distui.runs.insight.asking.ask import ANSWER_BYTES, CONNECT_SECONDS, MARK, MODULES, is_late, request, unread
from distui.runs.insight.seen.answers import HostAnswer, number_of
from distui.runs.insight.seen.clocks import Reading, clock
from distui.runs.insight.seen.watched import Watched, watched
from distui.runs.task.host_access import HostAccess
from distui.session import ByteChannel

SECONDS = 4.0
"""How long ranks are watched."""
LIMIT = 30.0
"""Seconds that one host may take for all of it."""
COMPLAINT_SECONDS = 2.0
"""How long an end without an answer is waited for, for what it says of that."""
CLOCK_EVERY = 0.15
"""Seconds between two questions for a host's clock."""
NOBODY_KNOWS = 1e6
"""Seconds by which a clock may be off that nobody has read."""
MOST_COLLECTIVES = 1000
"""Of one group that a rank answers: thirty steps of thirty collectives."""


async def watch_hosts(
    hosts: Sequence[HostAccess],
    ids: Mapping[int, str],
    sampled: Mapping[str, Sequence[int]] | None = None,
    *,
    seconds: float = SECONDS,
) -> dict[str, Watched]:
    """What all hosts tell; `sampled` has each host's processes of which stacks are taken. Never raises DistuiError."""
    found = await asyncio.gather(*(_watch(host, ids, (sampled or {}).get(host.host, ()), seconds) for host in hosts))
    return {one.answer.host: one for one in found}


async def _watch(access: HostAccess, ids: Mapping[int, str], sampled: Sequence[int], seconds: float) -> Watched:
    try:
        asked = await request(access, ids, most=MOST_COLLECTIVES, stacks=False)
        asked |= {"seconds": seconds, "sampled": list(sampled)}
        async with asyncio.timeout(LIMIT):
            return await _talk(access, json.dumps(asked).encode() + b"\n")
    except DistuiError as exc:
        return _nothing(access.host, f"host {access.host} can't be asked: {exc.message}", late=is_late(exc))
    except TimeoutError:
        return _nothing(access.host, f"host {access.host} did not answer within {LIMIT:.0f} s", late=True)
    except ValueError as exc:
        return _nothing(access.host, unread(access.host, str(exc)), late=False)


def _nothing(host: str, why: str, *, late: bool) -> Watched:
    return Watched(HostAnswer(host, why_not=why, late=late))


async def _talk(access: HostAccess, asked: bytes) -> Watched:
    """Start the program there, ask for its clock meanwhile, take its answer. Raises DistuiError, ValueError."""
    session = await access.link.session(give_up=CONNECT_SECONDS)
    program = bundle(*MODULES, "ranks.watching")
    channel = await session.open(take(program))
    asking: asyncio.Task[None] | None = None
    lines, readings, sent = Lines(channel), list[Reading](), list[float]()
    try:
        await channel.write(program + asked)
        await lines.next()
        asking = asyncio.ensure_future(_ask_for_clock(channel, sent))
        while True:
            said = loads(await lines.next())
            if "tasks" in as_object(said):
                return _on_our_clock(watched(access.host, said), readings)
            at = number_of(as_object(said).get("at"))
            if at is not None and len(readings) < len(sent):
                readings.append(Reading(sent[len(readings)], at, time.time()))
    except ValueError as exc:
        raise ValueError(await _complaint(channel) if lines.ended else str(exc)) from exc
    finally:
        if asking is not None:
            asking.cancel()
        await channel.close()


async def _complaint(channel: ByteChannel) -> str:
    """What a program that gave no answer wrote to its stderr; it may still run."""
    with suppress(TimeoutError, DistuiError):
        async with asyncio.timeout(COMPLAINT_SECONDS):
            await channel.wait()
    return channel.stderr_tail().decode("utf-8", "replace")


async def _ask_for_clock(channel: ByteChannel, sent: list[float]) -> None:
    with suppress(DistuiError):  # who reads the answers learns of it, too
        while True:
            sent.append(time.time())
            await channel.write(b"\n")
            await asyncio.sleep(CLOCK_EVERY)


def _on_our_clock(found: Watched, readings: Sequence[Reading]) -> Watched:
    ahead, doubt = clock(readings) or (0.0, NOBODY_KNOWS)
    return replace(found, answer=replace(found.answer, ahead=ahead, doubt=doubt))


class Lines:
    """What the program on the host says, line by line, between whatever else comes: bounded in bytes."""

    def __init__(self, channel: ByteChannel) -> None:
        self._channel = channel
        self._left = ANSWER_BYTES
        self._rest = b""
        self.ended = False
        """Whether the program says no more."""

    async def next(self) -> bytes:
        """The next line without its mark. Raises ValueError at the end and after too much, DistuiError."""
        behind = Behind(MARK)
        while (found := behind.feed(self._rest)) is None:
            self._rest = await self._more()
        parts = [found]
        while b"\n" not in parts[-1]:
            parts.append(await self._more())
        line, _, self._rest = b"".join(parts).partition(b"\n")
        return line

    async def _more(self) -> bytes:
        data = await self._channel.read(1 << 20)
        self._left -= len(data)
        self.ended = not data
        if not data or self._left < 0:
            raise ValueError("no answer, or too much of it")
        return data
