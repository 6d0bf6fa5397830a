"""Keys in the order they were typed, each to what has the focus by then, however fast they come.

Textual hands a key on and takes the next one at once. Over a slow link, where keys come in bursts, the text after a
`:` would be taken for keys of the list, which still has the focus.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import Any

from textual.app import App, ScreenStackError
from textual.dom import DOMNode
from textual.events import Event, Key

from distui.tui.terminal.shell import LENT

PATIENCE_S = 0.5
"""A widget that is busy for longer holds no keys back."""


class Typed(App[int]):
    """The part of the app that takes one key after the other."""

    _busy: asyncio.Task[None] | None = None

    async def on_event(self, event: Event) -> None:
        """See textual: every event comes here first."""
        if not isinstance(event, Key) or event.is_forwarded:
            await super().on_event(event)
        elif LENT:
            return
        elif self._busy is not None and not self._busy.done():
            self._ahead.append(event)
        else:
            self._ahead: deque[Key] = deque()
            target = self._has_keys()
            await super().on_event(event)
            self._busy = asyncio.create_task(self._in_turn(target), name="keys")

    async def _check_bindings(self, key: str, priority: bool = False) -> bool:
        """See textual. What a key does on a screen that is just being opened is done once its widgets are there: the
        key was given to the one before, which has handed it on.
        """
        screen = next(reversed(self.screen_stack), None)
        if screen is None or screen.is_mounted or priority:
            return await super()._check_bindings(key, priority)
        screen.call_later(super()._check_bindings, key)
        return True

    async def _in_turn(self, target: DOMNode | None) -> None:
        """Wait until a key has had its effect, then take the next one."""
        await self._settle(target)
        while self._ahead and not LENT:
            event = self._ahead.popleft()
            target = self._has_keys()
            await super().on_event(event)
            await self._settle(target)

    def _has_keys(self) -> DOMNode | None:
        with contextlib.suppress(ScreenStackError):
            return self.focused or self.screen
        return None

    async def _settle(self, target: DOMNode | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                await _turn(target)
                await _turn(self)
                await _turn(await self._new_screen())
                await _turn(self)

    async def _new_screen(self) -> DOMNode:
        """What has the focus once the screen that was opened is there; nothing tells when."""
        while True:
            now = self._has_keys()
            if now is not None and now.is_attached and now.is_running:
                return now
            await asyncio.sleep(0.005)


async def _turn(node: Any) -> None:
    """Until a node has handled what was in its queue."""
    done = asyncio.Event()
    if node is not None and node.is_running and node.call_later(done.set):
        await done.wait()
