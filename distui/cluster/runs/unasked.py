"""A run that is ended by a program: nobody is asked, nothing is shown."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import field

from distui.cluster.attach.front_end import MakeOwner
from distui.errors import UsageError
from distui.frozen import frozen
from distui.runs.hosts.claims.launches import Launch
from distui.runs.lines.events import Level, RunEnded
from distui.runs.lines.text import safe
from distui.session import Connector


@frozen
class Unasked:
    """See `FrontEnd`."""

    run: str
    others: bool
    """Whether somebody else's run is meant, too."""
    plain: list[str] = field(default_factory=list)
    """What is not hidden in what is read of it on the way, in words."""

    def tell(self, words: str, level: Level = "info", /) -> None:
        """See `FrontEnd`. What is left is the result, and raised is what can't be known."""

    async def agree(self, question: str, owners: Collection[str]) -> bool:
        """See `FrontEnd`. Raises UsageError for somebody else's run that was not said to be meant."""
        if not self.others:
            whom = ", ".join(safe(one)[:100] or "an unknown user" for one in sorted(owners))
            raise UsageError(f"{self.run} belongs to {whom}; nothing was stopped", hint="`others=True` stops it, too")
        return True

    async def follow(self, connector: Connector, make: MakeOwner) -> RunEnded:
        """See `FrontEnd`."""
        async with make(connector) as controller:
            self.plain.extend(await asyncio.to_thread(lambda: controller.mask.warnings))
            async for batch in controller.batches():
                if isinstance(batch[-1], RunEnded):
                    return batch[-1]
        raise AssertionError("batches end with RunEnded")

    async def show_end(self, left: Launch) -> None:
        """See `FrontEnd`."""
