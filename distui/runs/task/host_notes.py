"""What those who follow a run leave on one host, and what it knows itself: who reads it, how it ended, who stops it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from dataclasses import replace
from secrets import token_hex

from distui.errors import DistuiError
from distui.plan.model import Task
from distui.runs.hosts import memory_kill, readers, stop_word
from distui.runs.hosts.memory_kill import MemoryKill
from distui.runs.hosts.stop_word import StopWord
from distui.runs.store.end_record import read_record
from distui.runs.task.host_access import HostAccess
from distui.runs.task.host_claim import HostClaim

SAY_SECONDS = 5.0
"""How long a stop waits until it is said on a host: ranks are stopped also where that can't be written."""


class HostNotes:
    """Notes in the folder of a launch. Every method but those that say a stop may raise HostError."""

    def __init__(self, access: HostAccess, claim: HostClaim) -> None:
        self._at = access
        self._claim = claim
        self._word_left = False
        self._sign = token_hex(4)
        """By which our own word is known."""

    async def visit(
        self, reader: str, act: readers.Act = "look", tasks: Iterable[int] = (), gone: str = "", who: str = ""
    ) -> readers.Visit:
        """Look into the run's folder for other readers and the verdict, and mark there that `reader` reads, or not."""
        if not self._claim.token:
            return readers.Visit(ours=False)
        return await readers.visit(
            self._at.run_repeatable,
            self._at.host,
            await self._at.run_dir(),
            self._claim.token,
            reader,
            act,
            tasks,
            gone,
            who,
        )

    async def cleaned_up(self, *, surely: bool = False) -> bool:
        """Whether somebody else has cleaned up here: the run's folder is gone. But for `surely` also whether somebody
        is about to: it has its verdict.

        Nobody who follows a run removes anything of it before its verdict is there.
        """
        if not (token := self._claim.token):
            return False
        seen = await self.visit("")
        return not seen.ours or not (surely or read_record(seen.verdict, token) is None)

    async def record(self, reader: str, verdict: str, gone: str = "") -> readers.Visit:
        """Let `verdict` be the run's, unless another is written here already; what is there then. The run's folder may
        be gone, or another launch's by now.
        """
        if not (token := self._claim.token):
            return readers.Visit(ours=False)
        folder, data = await self._at.run_dir(), verdict.encode()
        return await readers.record(self._at.run_repeatable, self._at.host, folder, token, reader, data, gone)

    async def say_stopped(self, word: StopWord) -> None:
        """Leave word on the host that somebody stops this run, for whoever follows it. The first word stays, also of
        somebody else's stop just before.
        """
        self._word_left = self._word_left or await self._say(replace(word, mark=self._sign), None)

    async def say_ended(self, word: StopWord, tasks: Iterable[Task]) -> None:
        """The same of these tasks alone: the run is not stopped."""
        await asyncio.gather(*(self._say(word, task.index) for task in tasks))

    async def _say(self, word: StopWord, task: int | None) -> bool:
        """Whether it is said."""
        with contextlib.suppress(DistuiError, TimeoutError):
            async with asyncio.timeout(SAY_SECONDS):
                path = f"{await self._at.run_dir()}/{stop_word.file_of(task)}"
                said = (path, word.text(), f"{path}-{token_hex(4)}", str(word.minutes))
                return (await self._at.run_repeatable(("sh", "-c", stop_word.SAY, "distui-say", *said))).ok
        return False

    async def stopped_by(self, offset_ms: float | None, task: int | None = None) -> StopWord | None:
        """Who else stopped the run, or this task alone, when and why; None when nobody said so, or only we did.

        `offset_ms` is of the host's clock.
        """
        path = f"{await self._at.run_dir()}/{stop_word.file_of(task)}"
        done = await self._at.run_repeatable(("sh", "-c", stop_word.ASK, "distui-stopped", path))
        word = stop_word.read_word(done.text, offset_ms) if done.ok else None
        return None if word is not None and word.mark == self._sign else word

    async def memory_kill(self, container: str | None) -> MemoryKill:
        """What the kernel's log says of a container, by its id."""
        if not container:
            return ""
        done = await self._at.listed(("sh", "-c", memory_kill.ASK, "distui-memory", container))
        return memory_kill.memory_kill(done.text, container)
