"""A run that is ended, as the command line tells it: words on stderr, a question, the run as it is read to its end."""

from __future__ import annotations

from collections.abc import Collection

from distui.cli.console import Console, confirm_async
from distui.cli.printing.printer import LogView, printer
from distui.cli.runs.leftover import tell
from distui.cli.settings import Settings
from distui.cluster.attach.front_end import MakeOwner
from distui.frozen import frozen
from distui.runs.hosts.claims.launches import Launch
from distui.runs.lines.events import Level, RunEnded
from distui.session import Connector


@frozen
class StopShown:
    """See `FrontEnd`."""

    settings: Settings
    out: Console

    def tell(self, words: str, level: Level = "info", /) -> None:
        """See `FrontEnd`."""
        self.out.tell(words, level)

    async def agree(self, question: str, owners: Collection[str]) -> bool:
        """See `FrontEnd`."""
        return await confirm_async(self.out, self.settings, question)

    async def follow(self, connector: Connector, make: MakeOwner) -> RunEnded:
        """See `FrontEnd`."""
        controller = make(connector)
        sink = printer(self.out, self.settings.output, LogView(stdout=False), verbose=self.settings.verbose)
        ended: RunEnded | None = None
        async with controller:
            async for batch in controller.batches():
                await sink.feed(batch, controller.state)
                if isinstance(batch[-1], RunEnded):
                    ended = batch[-1]
        assert ended is not None
        await sink.finish(ended, controller.state)
        return ended

    async def show_end(self, left: Launch) -> None:
        """See `FrontEnd`."""
        await tell(self.settings, self.out, left)
