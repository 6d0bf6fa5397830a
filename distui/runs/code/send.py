"""Gives one host the run's code: asks what it lacks, sends that and no more, and waits until the host has checked it.

Asking and sending are two steps, so that all hosts have said that it fits before the first byte is sent.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator

from distui.errors import HostCommandError, SessionLost
from distui.frozen import frozen
from distui.plan.content.code import COPY, is_copied, store
from distui.runs.code.call import KEEP, Call, Gone, changed
from distui.runs.code.scan import pieces
from distui.runs.code.source import CodeSource
from distui.runs.hosts.link import HostLink

BATCH = 1 << 20
"""Bytes read at a time, off the loop."""
_TRIES = 3


@frozen
class Sent:
    """What came of it on one host."""

    files: int = 0
    bytes: int = 0


class CodeSender:
    """One host's part: `ask`, then `send`, and `close` in any case. `progress` hears of every byte sent."""

    def __init__(
        self,
        link: HostLink,
        source: CodeSource,
        *,
        home: str,
        run_dir: str,
        contained: bool,
        give_up: float,
        progress: Callable[[int], None] = lambda count: None,
    ) -> None:
        self._link = link
        self._source = source
        self._give_up = give_up
        self._progress = progress
        copied = is_copied(source.plan, contained=contained)
        self._request = {
            "do": "make",
            "root": store(home),
            "tree": source.tree.id,
            "run_dir": run_dir,
            "copy": f"{run_dir}/{COPY}" if copied else "",
            "keep": KEEP,
        }
        self._call: Call | None = None
        self._want: tuple[str, ...] = ()

    async def ask(self) -> int:
        """How many bytes the host lacks. Raises HostCommandError when it can't take them, SessionLost."""
        for left in reversed(range(_TRIES)):
            try:
                await self._ask()
            except SessionLost as lost:
                await self._drop(lost)
                if not left:
                    raise
            else:
                break
        by_hash = self._source.tree.by_hash
        return sum(by_hash[sha].size for sha in self._want)

    async def _ask(self) -> None:
        self._call = await Call.open(self._link, self._give_up)
        answer = await self._call.ask(self._request)
        if answer.state == "list":
            answer = await self._call.tell(self._source.tree.listed)
        if answer.want is None or not self._source.tree.by_hash.keys() >= set(answer.want):
            raise HostCommandError(self._link.host, f"{self._link.host}: it asks for files that are not in the code")
        self._want = answer.want

    async def send(self) -> Sent:
        """Send what is lacking; returns when the tree is there, checked. Raises as `ask`, and CheckFailed."""
        for left in reversed(range(_TRIES)):
            try:
                if self._call is None:
                    await self._ask()
                return await self._send()
            except Gone:
                await self.close()
                if not left:
                    raise
            except SessionLost as lost:
                await self._drop(lost)
                if not left:
                    raise
        raise AssertionError("unreachable")

    async def _send(self) -> Sent:
        call = self._call
        assert call is not None
        try:
            await call.write(b"go\n")
            reading = self._contents()
            while data := await asyncio.to_thread(next, reading, b""):
                await call.write(data)
                self._progress(len(data))
        except SessionLost as lost:
            if lost.code != "channel_ended":
                raise
        answer = await call.answer()  # where the host gave up early, its reason
        call.done = True
        return Sent(answer.sent, answer.bytes)

    def _contents(self) -> Iterator[bytes]:
        """What is wanted, one content after the other, small files together: what was appended since, as to the log of
        this very call, is left out. Raises CheckFailed for a file that changed otherwise.
        """
        waiting, root = bytearray(), os.fspath(self._source.root)
        for sha in self._want:
            entry = self._source.tree.by_hash[sha]
            left = entry.size
            try:
                for piece in pieces(f"{root}/{entry.path}", most=entry.size):
                    left -= len(piece)
                    waiting += piece
                    if len(waiting) >= BATCH:
                        yield bytes(waiting)
                        waiting.clear()
            except OSError as exc:
                raise changed(entry.path) from exc
            if left:
                raise changed(entry.path)
        if waiting:
            yield bytes(waiting)

    async def _drop(self, lost: SessionLost) -> None:
        """Give up a conversation whose connection broke; the next one gets another."""
        if self._call is not None:
            self._call.lost(lost)
        await self.close()

    async def close(self) -> None:
        """Let the host know that nothing more comes, and wait until it has tidied up."""
        if self._call is not None:
            await self._call.close()
            self._call = None
