"""One image built on one host: the context over ssh into `docker build -`, what it says into a file, steps as events.

The engine's client and builder tell steps in three ways: Docker's `Step 2/5 : RUN x`, podman's `STEP 2/5: RUN x`,
BuildKit's `#7 [2/5] RUN x`. The context is never a file on the host.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import IO

from distui.errors import HostCommandError, HostError, SessionLost
from distui.framing import Behind
from distui.regex import regex
from distui.runs.lines.text import safe
from distui.runs.store.masking import NOTHING, Mask, MaskedStream
from distui.session import ByteChannel, Session
from distui.whole import whole

_RUN = 'echo "$$"; exec "$@" 2>&1'
"""The number of the process first: a build is ended by it, since the engine's client outlives its channel."""
_CHUNK = 256 << 10
_KEPT = 15
"""Last lines that a failure tells."""
_LONGEST = 64 << 10

_STEP = regex(r"(?:Step|STEP) (\d+/\d+) ?: (.*)|#\d+ \[[^]]*?(\d+/\d+)\] (.*)")
_FAILED = regex(r" > \[[^]]*?(\d+/\d+)\] (.*?):?$")
"""BuildKit's word on which of the steps it did at once has failed."""


class BuildFailed(HostCommandError):
    """The engine did not build the image: at which step, and the last lines it said."""

    def __init__(self, host: str, step: str, lines: Sequence[str]) -> None:
        super().__init__(host, f"the build failed on {host} {step}", code="build_failed")
        self.step = step
        self.lines = tuple(lines)


class BuildProgress:
    """What a build has said so far, without the values that `mask` knows: kept in a file, its step and last lines
    known. Builders say each step as it is run, and programs what they were given.
    """

    def __init__(self, log: IO[bytes], on_step: Callable[[str], Awaitable[None]], mask: Mask = NOTHING) -> None:
        self._log = log
        self._hidden = MaskedStream(mask)
        self._on_step = on_step
        self._rest = b""
        self.lines: deque[str] = deque(maxlen=_KEPT)
        self.step = ""
        self._failed = ""

    @property
    def failed_step(self) -> str:
        """The step that failed, as far as the builder says, else the last one begun."""
        return self._failed or self.step

    async def take(self, data: bytes) -> None:
        """More output. Raises OSError when it can't be kept."""
        await self._take(self._hidden.feed(data))

    async def _take(self, data: bytes) -> None:
        self._log.write(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _LONGEST:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            await self._line(line.rpartition(b"\r")[2] if b"\r" in line.rstrip(b"\r") else line.rstrip(b"\r"))

    async def end(self) -> None:
        """Nothing more comes."""
        await self._take(self._hidden.rest())
        await self._take(b"\n" if self._rest else b"")

    async def _line(self, line: bytes) -> None:
        text = safe(line.decode("utf-8", "replace"))[:500]
        if text.strip():
            self.lines.append(text)
        if failed := _FAILED.match(text):
            self._failed = f"step {failed[1]}: {failed[2]}"
        elif (found := _STEP.match(text)) and (step := _words(found)) != self.step:
            self.step = step
            await self._on_step(step)


def _words(found: re.Match[str]) -> str:
    return f"step {found[1] or found[3]}: {(found[2] or found[4] or '').strip()[:120]}"


async def build_image(session: Session, argv: Sequence[str], context: IO[bytes], progress: BuildProgress) -> None:
    """Build by `argv` from `context`, which several hosts may read at once.

    Raises BuildFailed, SessionLost when the connection breaks, OSError when the output can't be kept here. When it
    ends early the build is ended there too.
    """
    channel = await session.open(("sh", "-c", _RUN, "sh", *argv))
    sending = asyncio.create_task(_send(channel, context))
    pid, status = "", None
    try:
        first, rest = Behind(b"\n"), None
        while rest is None and (data := await channel.read()):
            rest = first.feed(data)
        pid = first.before.decode("ascii", "replace").strip()
        await progress.take(rest or b"")
        while data := await channel.read():
            await progress.take(data)
        await progress.end()
        status = await channel.wait()
        await sending
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        if status is None and whole(pid) is not None:
            with suppress(HostError):
                await session.run(("kill", "-TERM", pid), timeout=10.0)
        await channel.close()
    if status != 0:
        step = f"at {progress.failed_step}" if progress.failed_step else "before the first step"
        raise BuildFailed(session.host, step, progress.lines)


async def _send(channel: ByteChannel, context: IO[bytes]) -> None:
    """The context; a builder that gives up early takes no more of it, and says why itself."""
    at = 0
    try:
        while data := await asyncio.to_thread(os.pread, context.fileno(), _CHUNK, at):
            await channel.write(data)
            at += len(data)
        await channel.write_eof()
    except SessionLost as lost:
        if lost.code != "channel_ended":
            raise
