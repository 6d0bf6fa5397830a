"""The talk with the program that puts code on a host (`agent/code.py`), and what is asked of it beside sending."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import Any, Literal

from distui.agent import bundle as helper
from distui.amounts import size_words
from distui.codec import read
from distui.errors import CheckFailed, DistuiError, HostCommandError, SessionLost
from distui.facts.values import loads
from distui.frozen import frozen
from distui.plan.content.code import store
from distui.plan.content.tree import readable
from distui.runs.hosts.link import HostLink
from distui.session import ByteChannel, Session

KEEP = 4
"""Trees that no run uses and that stay on a host, so that the next run is sent changed files only."""
ANSWER_SECONDS = 600.0
"""How long a host may be busy with hashing or copying before it counts as hanging."""
_LINE = 64 << 20
_CHATTER = 50
"""So many lines may come before an answer: a site's own python3 may be a script that says something first."""
NOT_PUT = "the code can't be put there"


@frozen
class Answer:
    """What the program on a host says in one line; `agent/code.py` writes it, but a host may say anything."""

    state: Literal["list", "have", "want", "done", "error"]
    want: tuple[str, ...] | None = None
    """Hashes of the contents that are to be sent."""
    sent: int = 0
    bytes: int = 0
    trees: int = 0
    used: int = 0
    code: str = ""
    path: str = ""
    words: str = ""
    need: int | None = None
    free: int = 0


class Gone(HostCommandError):
    """Another launch removed what was to be reused there: asked again, the host wants that, too."""


class Call:
    """One conversation with the program on a host."""

    def __init__(self, link: HostLink, session: Session, channel: ByteChannel, failed: str = NOT_PUT) -> None:
        self._failed = failed
        self._link = link
        self._session = session
        self._channel = channel
        self._rest = bytearray()
        self._ended = False
        self.done = False
        """Whether nothing more is waited for. It may still remove older trees."""

    @classmethod
    async def open(cls, link: HostLink, give_up: float | None, failed: str = NOT_PUT) -> Call:
        """A conversation; `failed` is what to say where the program there says nothing."""
        session = await link.session(give_up=give_up)
        try:
            return cls(link, session, await session.open(helper.take(program())), failed)
        except SessionLost as exc:
            link.lost(session, exc)
            raise

    async def ask(self, request: Mapping[str, Any]) -> Answer:
        return await self.tell(program() + json.dumps(request).encode() + b"\n")

    async def tell(self, words: bytes) -> Answer:
        """Its answer to these."""
        with suppress(SessionLost):  # what it says, or that it says nothing, is reported below
            await self.write(words)
        return await self.answer()

    async def write(self, data: bytes) -> None:
        """Some of the contents. Raises HostCommandError when the host takes nothing more for long."""
        async with self._in_time():
            await self._channel.write(data)

    async def answer(self) -> Answer:
        """The next answer. Raises HostCommandError or Gone for an error in it, CheckFailed when a file changed."""
        host = self._link.host
        async with self._in_time():
            line = await self._answer_line()
        try:
            answer = read(Answer, loads(line))
        except ValueError as exc:
            raise _silent(host, self._failed, await self._last_words(), line) from exc
        if answer.state == "error":
            raise _refused(host, answer)
        return answer

    @asynccontextmanager
    async def _in_time(self) -> AsyncIterator[None]:
        host = self._link.host
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                yield
        except TimeoutError as exc:
            raise HostCommandError(host, f"{host}: the code was not taken within {ANSWER_SECONDS:g} s") from exc

    def lost(self, error: SessionLost) -> None:
        self._link.lost(self._session, error)

    async def _answer_line(self) -> bytes:
        """The next line that may be an answer; where none comes, the first that is none, or b""."""
        first = b""
        for _ in range(_CHATTER):
            line = await self._line()
            if line.startswith(b"{"):
                return line
            first = first or line
            if len(line) >= _LINE or (not line and self._ended):
                break
        return first

    async def _line(self) -> bytes:
        seen, end = 0, -1
        while (end := self._rest.find(b"\n", seen)) < 0 and len(self._rest) < _LINE:
            seen = len(self._rest)
            data = await self._channel.read()
            if not data:
                self._ended = True
                break
            self._rest += data
        line = bytes(self._rest[: end if end >= 0 else None])
        del self._rest[: len(line) + 1]
        return line

    async def _last_words(self) -> str:
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                await self._channel.wait()
        lines = self._channel.stderr_tail().decode("utf-8", "replace").strip().splitlines()
        return readable(lines[-1])[:300] if lines else ""

    async def close(self) -> None:
        """End it: the program sees the end of its input, removes what is half made, and ends."""
        with suppress(DistuiError):
            await self._channel.write_eof()
        if self.done:
            await self._channel.close()
            return
        with suppress(TimeoutError, DistuiError):
            async with asyncio.timeout(20):
                await self._channel.wait()
        await self._channel.close()


@cache
def program() -> bytes:
    """It comes on stdin, and the same buffered stdin goes on to its `main`."""
    return helper.bundle("code_store", "code")


def _silent(host: str, failed: str, said: str, line: bytes) -> HostCommandError:
    hint = "`code:` needs python3 on the host; without it have the code there and mount it with `volumes`"
    answer = f"it answers {readable(line[:100].decode('utf-8', 'replace'))}" if line else "python3 said nothing"
    message = f"{host}: {failed}: {said or answer}"
    return HostCommandError(host, message, hint=hint if "python3" in message else "")


def _refused(host: str, answer: Answer) -> DistuiError:
    path = readable(answer.path)
    if answer.code == "changed":
        return changed(path)
    if answer.code == "silent":  # we slept, or our bytes went nowhere
        return SessionLost(host, f"{host}: it heard nothing of the code for a while")
    if answer.code == "gone":
        return Gone(
            host, f"{host}: other launches remove the code there that this one was to reuse", hint="start again"
        )
    if answer.code == "disk_full":
        room = f": {size_words(answer.need)} needed, {size_words(answer.free)} free" if answer.need is not None else ""
        words = f"{host}: no space for the code in {path}{room}"
        hint = f"`distui hosts clean {host}` removes code that no run uses; or free some space there"
        return HostCommandError(host, words, hint=hint, code="disk_full")
    why = readable(answer.words or answer.code) or "it does not say why"
    return HostCommandError(host, f"{host}: can't put the code there: {path}: {why}")


def changed(path: str) -> CheckFailed:
    return CheckFailed(
        f"code: {readable(path)} changed since the plan was made; nothing was switched", hint="start again"
    )


async def clean(link: HostLink, home: str, *, keep: int = 0) -> Mapping[str, int]:
    """Remove what was sent in part, and the trees on a host that no run uses but for the newest `keep`.

    `trees` and `bytes` removed, `used` still there.
    """
    call = await Call.open(link, None, "the code there can't be removed")
    try:
        reply = await call.ask({"do": "clean", "root": store(home), "keep": keep})
        return {"trees": reply.trees, "bytes": reply.bytes, "used": reply.used}
    finally:
        await call.close()
