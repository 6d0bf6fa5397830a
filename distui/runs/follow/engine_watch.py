"""What a host's container engine says while its tasks are followed: deaths as they happen, and whether it answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any
from urllib.parse import quote

from distui.facts.values import as_object, loads
from distui.runs.follow.containers import ContainerReader
from distui.runs.follow.feed import EngineDown, Feed, get_json, whole_lines
from distui.runs.follow.pause import Pause, rest
from distui.runs.follow.signals import sent
from distui.whole import moment_ns, whole

_ASK_EVERY = 8.0
_SILENT = 2
"""Questions in a row to an engine, on a host that says nothing at all, after which the engine counts as down: where it
is the network, the connection breaks before."""


class EngineWatch:
    """`contact` gets why the engine does not answer, or "" when it does; `readers` are those of the host's tasks."""

    def __init__(
        self,
        run_id: str,
        readers: Sequence[object],
        contact: Callable[[str], Awaitable[None]],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._run_id = run_id
        self._readers = readers
        self._contact = contact
        self._spawn = spawn
        self._answered = 0.0
        """When the engine answered last, by the loop's clock."""

    async def events(self, feed: Feed) -> None:
        """Deaths as they happen. What is missed while the stream is down, the readers' inspect finds."""
        filters = {"type": ["container"], "label": [f"distui.run={self._run_id}"], "event": ["die", "oom", "kill"]}
        path = "/events?filters=" + quote(json.dumps(filters, separators=(",", ":")))
        pause = Pause(feed.lost)
        while True:
            stream = await feed.get(path)
            try:
                if answers := await stream.status() == 200:
                    await self._contact("")
                async for line in whole_lines(stream):
                    await self._event(feed, line)
                if answers:
                    pause.reset()
            except EngineDown as error:
                await self._contact(str(error))
            finally:
                await stream.close()
            await pause.wait()

    async def _event(self, feed: Feed, line: bytes) -> None:
        if not line.strip():
            return
        try:
            event = as_object(loads(line))
        except ValueError:
            return  # what is missed here, the readers' inspect finds
        actor = as_object(event.get("Actor"))
        for reader in self._readers:
            if not isinstance(reader, ContainerReader) or reader.ref != actor.get("ID"):
                continue
            if event.get("Action") == "kill":
                reader.signals.append(sent(event))
                continue
            if event.get("Action") == "oom":
                await reader.short_of_memory()
                continue
            code = whole(str(as_object(actor.get("Attributes")).get("exitCode")), 10)
            nanos = whole(str(event.get("timeNano")), 20)
            self._spawn(reader.exit_seen(feed, code, moment_ns(nanos)))

    async def ask(self, feed: Feed) -> None:
        """A daemon that hangs closes nothing: ask it now and then. Where the host itself says nothing meanwhile, its
        engine may well be there: a cable that was pulled is seen soon after.
        """
        silent = 0
        while True:
            asked = asyncio.get_running_loop().time()
            try:
                await get_json(feed, "/version", timeout=_ASK_EVERY)
                silent = 0
                await self.answers("", 0.0)
            except EngineDown as error:
                silent = silent + 1 if feed.heard is not None and feed.heard <= asked else 0
                if silent in (0, _SILENT):
                    await self._contact(str(error))
            await rest(feed.lost, _ASK_EVERY)

    async def answers(self, reason: str, asked: float) -> bool:
        """See EngineAnswers. An engine that hangs over one container answers others, and those are followed."""
        if reason and self._answered > asked:
            return True
        if not reason:
            self._answered = asyncio.get_running_loop().time()
        await self._contact(reason)
        return False
