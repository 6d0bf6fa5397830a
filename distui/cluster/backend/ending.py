"""A run that is ended in the app: owned there, as every run that it follows, until its logs are read to the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from distui.cluster.attach.front_end import MakeOwner
from distui.cluster.attach.places import RunLocation
from distui.cluster.attach.run_manager import RunManager
from distui.cluster.hosts.connecting import Connect
from distui.errors import ExitCode, UsageError
from distui.frozen import frozen
from distui.runs.hosts.claims.launches import Launch
from distui.runs.lines.events import Level, RunEnded
from distui.runs.lines.text import safe
from distui.session import Connector


@frozen
class StopInApp:
    """See `FrontEnd`."""

    place: RunLocation
    manager: RunManager
    connect: Connect
    owners: frozenset[str]
    """Whose runs may be ended: the app has asked before."""
    say: Callable[[str], None]

    def tell(self, words: str, level: Level = "info", /) -> None:
        """See `FrontEnd`."""
        self.say(words)

    async def agree(self, question: str, owners: Collection[str]) -> bool:
        """See `FrontEnd`. Raises UsageError when somebody else has the run by now."""
        if others := sorted(set(owners) - self.owners):
            whom = ", ".join(safe(one)[:100] or "an unknown user" for one in others)
            raise UsageError(
                f"{self.place.run} belongs to {whom} by now; nothing was stopped",
                hint="stop it again if it is to end all the same",
            )
        return True

    async def follow(self, connector: Connector, make: MakeOwner) -> RunEnded:
        """See `FrontEnd`. Over connections of its own, which last as long as the run is followed."""
        followed = await self.manager.keep(self.connect(self.place.hosts), make)
        async for _ in followed.batches():
            pass
        return followed.state.ended or RunEnded(time.time(), "unknown", int(ExitCode.CONTACT_LOST))

    async def show_end(self, left: Launch) -> None:
        """See `FrontEnd`."""
        if left.record is not None:
            self.say(f"{left.run} has ended: {left.record.ended.outcome}")
