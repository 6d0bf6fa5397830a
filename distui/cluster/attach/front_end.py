"""What ending a run needs of a front end, and how that went: the same for the command line and the app."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from distui.amounts import counted
from distui.cluster.attach.live_run import Live
from distui.frozen import frozen
from distui.identity import owner
from distui.runs.control.controller import RunController
from distui.runs.hosts.claims.launches import Launch
from distui.runs.lines.events import Level, RunEnded
from distui.runs.lines.text import safe
from distui.session import Connector

MakeOwner = Callable[[Connector], RunController]
"""Takes the run up over these connections, and asks it to end."""


class FrontEnd(Protocol):
    """Tells what is done, asks, and shows a run that is followed to its end."""

    def tell(self, words: str, level: Level = "info", /) -> None:
        """What is done, or could not be."""

    async def agree(self, question: str, owners: Collection[str]) -> bool:
        """Whether what `owners`, who are others, have is to be ended."""

    async def follow(self, connector: Connector, make: MakeOwner) -> RunEnded:
        """Own the run until it has ended. Raises AlreadyFollowed when another distui here is faster."""

    async def show_end(self, left: Launch) -> None:
        """How a run ended of which only this folder is left."""


@frozen
class Ended:
    """How the stop of a run went."""

    agreed: bool = True
    """Whether it was to be done: nothing was where somebody else's run was not meant."""
    failed: tuple[str, ...] = ()
    """What could not be ended or removed, in words."""
    remaining: tuple[str, ...] = ()
    """What is still there though nothing failed, in words: whoever follows the run has it in its hands."""

    @property
    def left(self) -> tuple[str, ...]:
        """All that may still be there, in words; without any, nothing of the run is left."""
        return (*self.failed, *self.remaining)

    def then(self, *failed: str) -> Ended:
        """The same, with what failed later."""
        return Ended(self.agreed, (*self.failed, *failed), self.remaining)


async def agreed(front: FrontEnd, live: Live, word: str) -> bool:
    """Whether a run is to be ended: somebody else's only when that is said twice. `word` is `stop` or `kill`."""
    plan = live.plan
    if plan.owner == owner():
        return True
    whom = safe(plan.owner)[:100] or "an unknown user"
    ranks = counted(plan.world_size, "rank")
    question = f"{plan.run_id} belongs to {whom} ({ranks}). {word.capitalize()} it?"
    return await front.agree(question, (plan.owner,))
